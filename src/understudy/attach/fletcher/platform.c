/* The platform library of a virtual Fletcher device: the 11 functions a Fletcher run-time looks up in libfletcher_NAME.so,
 * each one request to the server of `understudy serve fletcher` and one reply. messages.py lays out both.
 *
 * The socket is that of the environment variable UNDERSTUDY_FLETCHER_SOCKET; otherwise the DEFAULT_SOCKET of the build.
 * Calls of several threads take turns. What the device has to say about a mistake goes to standard error.
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

#define SPIN_SECONDS 50e-6
#define SLEEPS_AFTER_SPIN 15

#define LARGE (1 << 20) /* bytes from which the server is asked first, and data goes by a sealed file where it may */
#define PATIENCE_MS 1000 /* after which is said that another host has the device */

#define EXPORT __attribute__((visibility("default")))
#define MAGIC UINT64_C(0x52454843544c4655) /* "UFLTCHER" */
#define VERSION 2

typedef uint64_t fstatus_t;
enum { STATUS_OK = 0, STATUS_ERROR = 1, STATUS_NO_PLATFORM = 2, STATUS_DEVICE_OUT_OF_MEMORY = 3 };

enum op {
    OP_HELLO = 1,
    OP_WRITE_MMIO,
    OP_READ_MMIO,
    OP_MALLOC,
    OP_FREE,
    OP_HOST_TO_DEVICE,
    OP_DEVICE_TO_HOST,
    OP_PREPARE,
    OP_CACHE,
    OP_TERMINATE,
    OP_OFFER,
};

struct request {
    uint32_t op;
    uint32_t value; /* of a register; IN_FILE where a file with the data is behind it; the request that OFFER asks about */
    uint64_t address;
    uint64_t size; /* of the data behind it, or asked for */
};

enum { IN_FILE = 1 };

struct reply {
    uint32_t status;
    uint32_t text_size; /* of the message behind it */
    uint64_t value;
    uint64_t data_size; /* of the data behind the message */
};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("understudy: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* The data in a file without a name that nobody can change any more; -1 where there is no such thing. */
static int sealed_file(const void *data, size_t size) {
#ifdef F_ADD_SEALS
    const char *at = data;
    int file = memfd_create("understudy-fletcher", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (file >= 0 && size) {
        ssize_t written = write(file, at, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        at += written;
        size -= (size_t)written;
    }
    if (file >= 0 && !size && !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
        return file;
    if (file >= 0) close(file);
#else
    (void)data;
    (void)size;
#endif
    return -1;
}

static void hang_up(void) {
    if (connection >= 0) close(connection);
    connection = -1;
}

/* Send all of `size` bytes; 0 where the server is gone. */
static int send_all(const void *data, size_t size) {
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

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int receive_all(void *data, size_t size) {
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

/* A reply comes within microseconds, and waking up takes longer: look for it a while before sleeping. Where that was in
 * vain (a busy machine, a long slice of work) the next replies are waited for asleep. */
static void await_reply(void) {
    static unsigned sleeps;
    char first;
    if (sleeps) {
        sleeps--;
        return;
    }
    for (double deadline = now() + SPIN_SECONDS; now() < deadline; sched_yield())
        if (recv(connection, &first, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN) return;
    sleeps = SLEEPS_AFTER_SPIN;
}

static const char *socket_path(void) {
    const char *path = getenv("UNDERSTUDY_FLETCHER_SOCKET");
    return path && *path ? path : DEFAULT_SOCKET;
}

static int is_told;

/* The server has one host program at a time: it is another's turn. */
static void tell_of_waiting(void) {
    if (!is_told) say("waiting for the device at %s: another host program has it", socket_path());
    is_told = 1;
}

static void await_turn(void) {
    struct pollfd answer = {.fd = connection, .events = POLLIN};
    int ready;
    do ready = poll(&answer, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (!ready) tell_of_waiting();
}

/* Send a byte with the descriptor, which the other side then has too; 0 where the server is gone. */
static int send_file(int file) {
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

/* Read the message behind a reply and show it. */
static int receive_text(uint32_t size) {
    char text[4096];
    if (size >= sizeof text || !receive_all(text, size)) return 0;
    text[size] = '\0';
    if (size) say("%s", text);
    return 1;
}

/* One request with `data_size` bytes of `data` behind it, or a file; of the answer, `room` bytes go to `out`. */
static fstatus_t call(const struct request *request, const void *data, size_t data_size, int file, uint64_t *value,
                      void *out, size_t room) {
    struct reply reply = {0, 0, 0, 0};
    if (connection < 0) {
        say("there is no device: platformInit was not called, or the server has gone");
        return STATUS_ERROR;
    }
    int is_sent = send_all(request, sizeof *request) && send_all(data, data_size) && (file < 0 || send_file(file));
    int unreadable = !is_sent && errno == EFAULT;
    if (is_sent && request->op == OP_HELLO) await_turn();
    else if (is_sent) await_reply();
    if (!is_sent || !receive_all(&reply, sizeof reply) || !receive_text(reply.text_size) || reply.data_size > room ||
        !receive_all(out, reply.data_size)) {
        if (unreadable) say("the %zu bytes at %p of this program cannot be read", data_size, data);
        else say("the server has gone");
        hang_up();
        return STATUS_ERROR;
    }
    if (value) *value = reply.value;
    return reply.status;
}

static fstatus_t ask(uint32_t op, uint32_t value, uint64_t address, uint64_t size, const void *data, uint64_t *answer) {
    struct request request = {op, value, address, size};
    pthread_mutex_lock(&turn);
    fstatus_t status = call(&request, data, data ? (size_t)size : 0, -1, answer, NULL, 0);
    pthread_mutex_unlock(&turn);
    return status;
}

/* Whether the device would take data for the request `op`: asked before much of it is copied in vain. */
static fstatus_t offer(uint32_t op, uint64_t address, uint64_t size) {
    return size < LARGE ? STATUS_OK : ask(OP_OFFER, op, address, size, NULL, NULL);
}

/* The device gets a copy of a host buffer; a large one in one piece, in which the host cannot write later. */
static fstatus_t bring(uint32_t op, const uint8_t *host, uint64_t size, uint64_t *device) {
    struct request request = {op, IN_FILE, 0, size};
    fstatus_t status = offer(op, 0, size);
    if (status != STATUS_OK) return status;
    int file = host && size >= LARGE ? sealed_file(host, (size_t)size) : -1;
    if (file < 0) return ask(op, 0, 0, size, host, device);
    pthread_mutex_lock(&turn);
    status = call(&request, NULL, 0, file, device, NULL, 0);
    pthread_mutex_unlock(&turn);
    close(file);
    return status;
}

static int refused(const char *function, int64_t size, int without_data) {
    if (size < 0) say("%s: a size of %lld bytes, expected 0 or more", function, (long long)size);
    else if (without_data && size) say("%s: no host address for %lld bytes", function, (long long)size);
    else return 0;
    return 1;
}

/* Whether the other side is a process of this user, or of root. */
static int is_own_server(void) {
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

/* Connect; where others wait for the device already, when there is room behind them. */
static int connect_in_turn(const struct sockaddr_un *address) {
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

static int open_connection(const char *path) {
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
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    return connect_in_turn(&address);
}

EXPORT fstatus_t platformGetName(char *name, size_t size) {
    if (!name || !size) return STATUS_ERROR;
    snprintf(name, size, "understudy");
    return STATUS_OK;
}

/* `argument` is not looked at: run-times pass NULL, or the options of another platform. */
EXPORT fstatus_t platformInit(void *argument) {
    const struct request hello = {OP_HELLO, VERSION, MAGIC, 0};
    const char *path = socket_path();
    (void)argument;
    pthread_mutex_lock(&turn);
    fstatus_t status = STATUS_NO_PLATFORM;
    if (!*path) say("set UNDERSTUDY_FLETCHER_SOCKET to the socket of `understudy serve fletcher`");
    else if (!open_connection(path)) {
        say("no device at %s (%s): start it with `understudy serve fletcher --socket %s`", path, strerror(errno), path);
        hang_up();
    } else if (!is_own_server()) say("the server at %s is another user's, and is not used", path);
    else status = call(&hello, NULL, 0, -1, NULL, NULL, 0);
    if (status != STATUS_OK) hang_up();
    pthread_mutex_unlock(&turn);
    return status;
}

EXPORT fstatus_t platformTerminate(void *argument) {
    (void)argument;
    fstatus_t status = ask(OP_TERMINATE, 0, 0, 0, NULL, NULL);
    pthread_mutex_lock(&turn);
    hang_up();
    pthread_mutex_unlock(&turn);
    return status;
}

EXPORT fstatus_t platformWriteMMIO(uint64_t index, uint32_t value) {
    return ask(OP_WRITE_MMIO, value, index, 0, NULL, NULL);
}

EXPORT fstatus_t platformReadMMIO(uint64_t index, uint32_t *value) {
    uint64_t answer = 0;
    fstatus_t status = ask(OP_READ_MMIO, 0, index, 0, NULL, &answer);
    if (value) *value = (uint32_t)answer;
    return status;
}

EXPORT fstatus_t platformDeviceMalloc(uint64_t *device, int64_t size) {
    if (!device || refused("platformDeviceMalloc", size, 0)) return STATUS_ERROR;
    return ask(OP_MALLOC, 0, 0, (uint64_t)size, NULL, device);
}

EXPORT fstatus_t platformDeviceFree(uint64_t device) { return ask(OP_FREE, 0, device, 0, NULL, NULL); }

EXPORT fstatus_t platformCopyHostToDevice(const uint8_t *host, uint64_t device, int64_t size) {
    if (refused("platformCopyHostToDevice", size, !host)) return STATUS_ERROR;
    fstatus_t status = offer(OP_HOST_TO_DEVICE, device, (uint64_t)size);
    return status == STATUS_OK ? ask(OP_HOST_TO_DEVICE, 0, device, (uint64_t)size, host, NULL) : status;
}

EXPORT fstatus_t platformCopyDeviceToHost(uint64_t device, uint8_t *host, int64_t size) {
    if (refused("platformCopyDeviceToHost", size, !host)) return STATUS_ERROR;
    struct request request = {OP_DEVICE_TO_HOST, 0, device, (uint64_t)size};
    pthread_mutex_lock(&turn);
    fstatus_t status = call(&request, NULL, 0, -1, NULL, host, (size_t)size);
    pthread_mutex_unlock(&turn);
    return status;
}

/* Both copy into memory that they allocate: the device cannot reach the host's. */
EXPORT fstatus_t platformPrepareHostBuffer(const uint8_t *host, uint64_t *device, int64_t size, int *alloced) {
    if (!device || refused("platformPrepareHostBuffer", size, !host)) return STATUS_ERROR;
    fstatus_t status = bring(OP_PREPARE, host, (uint64_t)size, device);
    if (alloced) *alloced = status == STATUS_OK;
    return status;
}

EXPORT fstatus_t platformCacheHostBuffer(const uint8_t *host, uint64_t *device, int64_t size) {
    if (!device || refused("platformCacheHostBuffer", size, !host)) return STATUS_ERROR;
    return bring(OP_CACHE, host, (uint64_t)size, device);
}
