/* What libraries for host programs have in common: their end of the socket of `softcard serve`. Each call of a library
 * is one request to the server and, mostly, one reply; messages.py lays out both. One C file includes this, once, after
 * it has defined SOCKET_VARIABLE (the environment variable with the socket's path) and SERVER (the command that serves).
 *
 * Nothing here locks but `turn`, which callers hold. What there is to say about a mistake goes to standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef DEFAULT_SOCKET
#define DEFAULT_SOCKET ""
#endif
#ifdef MSG_NOSIGNAL
#define SEND_FLAGS MSG_NOSIGNAL
#else
#define SEND_FLAGS 0 /* macOS: SO_NOSIGPIPE on the socket instead */
#endif
#ifdef MSG_CMSG_CLOEXEC
#define RECEIVE_FLAGS MSG_CMSG_CLOEXEC
#else
#define RECEIVE_FLAGS 0
#endif

#ifndef GONE
#define GONE "read the error of `" SERVER "`, start it again, then start this program again"
#endif

#ifndef SPIN_SECONDS
#define SPIN_SECONDS 50e-6
#endif
#define SLEEPS_AFTER_SPIN 15
#define PATIENCE_MS 1000 /* after which is said that another host has the device */
#define MAX_FILES 4      /* that come with one reply */

#ifndef OF_THREAD
#define OF_THREAD /* _Thread_local where each thread has a connection of its own */
#endif
#define EXPORT __attribute__((visibility("default")))
#define LOCAL static __attribute__((unused))

enum { OP_HELLO = 1 };
enum { NOTE_OUT = 0x100, NOTE_ERR = 0x101 }; /* in place of a status: text for this program's output, no reply yet */

struct request {
    uint32_t op;
    uint32_t value;
    uint64_t address;
    uint64_t size; /* of the data that follow, or that are requested */
};

struct reply {
    uint32_t status;
    uint32_t text_size; /* of the message that follows */
    uint64_t value;
    uint64_t data_size; /* of the data that follow the message */
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static OF_THREAD int connection = -1;

/* Print a diagnostic in the format of Softcard's commands: severity and sentence, a note that names the library, and a
 * suggestion, or NULL. */
__attribute__((format(printf, 3, 4))) LOCAL void say(const char *severity, const char *help, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fprintf(stderr, "%s: ", severity);
    vfprintf(stderr, format, arguments);
    fputs("\n   = note: reported by the library of `" SERVER "` in this program\n", stderr);
    if (help) fprintf(stderr, "   = help: %s\n", help);
    funlockfile(stderr);
    va_end(arguments);
}

LOCAL void hang_up(void) {
    if (connection >= 0) close(connection);
    connection = -1;
}

/* A child process has neither the threads that may hold the turn, nor a right to its parent's replies. */
static void after_fork(void) {
    pthread_mutex_init(&turn, NULL);
    hang_up();
}

__attribute__((constructor)) static void know_of_forks(void) { pthread_atfork(NULL, NULL, after_fork); }

/* Send all of `size` bytes; 0 where the server is gone. */
LOCAL int send_all(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t sent = send(connection, at, size, SEND_FLAGS);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return 0;
        at += sent;
        size -= (size_t)sent;
    }
    return 1;
}

LOCAL int receive_all(void *data, size_t size) {
    char *at = data;
    while (size) {
        ssize_t got = recv(connection, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        at += got;
        size -= (size_t)got;
    }
    return 1;
}

LOCAL double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A reply comes within microseconds, and waking up takes longer: look for it a while before sleeping. Where that was in
 * vain (a busy machine, a long slice of work) the next replies are waited for asleep. */
LOCAL void await_reply(void) {
    static OF_THREAD unsigned sleeps;
    char first;
    if (sleeps) {
        sleeps--;
        return;
    }
    for (double deadline = now() + SPIN_SECONDS; now() < deadline; sched_yield())
        if (recv(connection, &first, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN) return;
    sleeps = SLEEPS_AFTER_SPIN;
}

LOCAL const char *socket_path(void) {
    const char *path = getenv(SOCKET_VARIABLE);
    return path && *path ? path : DEFAULT_SOCKET;
}

static int is_told;

/* The server has one host program at a time: it is another's turn. */
LOCAL void tell_of_waiting(void) {
    if (!is_told) say("note", NULL, "waiting for the device at %s: another host program has it", socket_path());
    is_told = 1;
}

LOCAL void await_turn(void) {
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    int ready;
    do ready = poll(&answer, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (!ready) tell_of_waiting();
}

/* Send a byte with the descriptor, which the other side then has too; 0 where the server is gone. */
LOCAL int send_file(int file) {
    char byte = 0, control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    ssize_t sent;
    do sent = sendmsg(connection, &message, SEND_FLAGS);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

/* Receive a byte with exactly `count` descriptors; 0 where others came, which are closed. */
LOCAL int receive_files(int *files, size_t count) {
    char byte, control[CMSG_SPACE(MAX_FILES * sizeof *files)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got;
    do got = recvmsg(connection, &message, RECEIVE_FLAGS);
    while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return 0;
    size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof *files;
    int all[MAX_FILES];
    memcpy(all, CMSG_DATA(header), came * sizeof *files);
    if (came == count) memcpy(files, all, came * sizeof *files);
    else
        for (size_t each = 0; each < came; each++) close(all[each]);
    return came == count;
}

/* Read the message of a reply, which is one or more diagnostics, and print it. */
LOCAL int receive_text(uint32_t size) {
    char text[4096];
    if (size >= sizeof text || !receive_all(text, size)) return 0;
    text[size] = '\0';
    if (size) fprintf(stderr, "%s\n", text);
    return 1;
}

/* Read text for this program's own output and write it there. */
LOCAL int receive_note(FILE *to, uint32_t size) {
    char text[4096];
    while (size) {
        size_t part = size < sizeof text ? size : sizeof text;
        if (!receive_all(text, part)) return 0;
        fwrite(text, 1, part, to);
        size -= (uint32_t)part;
    }
    return 1;
}

/* A reply, after the notes before it; 0 where none came. */
LOCAL int receive_reply(struct reply *reply) {
    for (;;) {
        if (!receive_all(reply, sizeof *reply)) return 0;
        if (reply->status != NOTE_OUT && reply->status != NOTE_ERR) return receive_text(reply->text_size);
        if (!receive_note(reply->status == NOTE_OUT ? stdout : stderr, reply->text_size)) return 0;
    }
}

/* Send one request, followed by `data_size` bytes of `data` or a file; store up to `room` bytes of the reply's data in `out`.
 * Return 0 if there was no reply: the connection is closed then. */
LOCAL int call(const struct request *request, const void *data, size_t data_size, int file, struct reply *reply,
               void *out, size_t room) {
    int is_sent = send_all(request, sizeof *request) && send_all(data, data_size) && (file < 0 || send_file(file));
    int unreadable = !is_sent && errno == EFAULT;
    if (is_sent && request->op == OP_HELLO) await_turn();
    else if (is_sent) await_reply();
    if (is_sent && receive_reply(reply) && reply->data_size <= room && receive_all(out, reply->data_size)) return 1;
    if (unreadable) say("error", NULL, "the %zu bytes at %p of this program cannot be read", data_size, data);
    else say("error", GONE, "the server has gone");
    hang_up();
    return 0;
}

/* Whether the other side is a process of this user, or of root. */
LOCAL int is_own_server(void) {
#ifdef SO_PEERCRED
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size)) return 0;
    uid_t user = peer.uid;
#else
    uid_t user;
    gid_t group;
    if (getpeereid(connection, &user, &group)) return 0;
#endif
    return user == geteuid() || user == 0;
}

/* Connect; if the server's queue of connections is full, wait until it has room. */
LOCAL int connect_in_turn(const struct sockaddr_un *address) {
    struct timeval patience = {PATIENCE_MS / 1000, PATIENCE_MS % 1000 * 1000}, for_ever = {0, 0};
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (;;) {
        if (!connect(connection, (const struct sockaddr *)address, sizeof *address)) break;
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return 0;
        tell_of_waiting();
    }
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &for_ever, sizeof for_ever);
    return 1;
}

LOCAL int open_connection(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return 0;
    }
    strcpy(address.sun_path, path);
    hang_up();
    is_told = 0;
    connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection < 0) return 0;
    fcntl(connection, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    return connect_in_turn(&address);
}

/* Connect to the server and exchange greetings; 0, and why on standard error, where there is none that can be used. */
LOCAL int greet(uint32_t version, uint64_t magic) {
    const struct request hello = {OP_HELLO, version, magic, 0};
    const char *path = socket_path();
    char start[512];
    struct reply reply = {0, 0, 0, 0};
    snprintf(start, sizeof start, "start it with `" SERVER " --socket %s`", path);
    if (!*path) say("error", "set " SOCKET_VARIABLE " to the socket of `" SERVER "`", SOCKET_VARIABLE " is not set");
    else if (!open_connection(path)) say("error", start, "cannot connect to the device at %s (%s)", path, strerror(errno));
    else if (!is_own_server()) say("error", start, "the server at %s is another user's, and is not used", path);
    else if (call(&hello, NULL, 0, -1, &reply, NULL, 0) && !reply.status) return 1;
    hang_up();
    return 0;
}
