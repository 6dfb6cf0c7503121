/* The OpenCL platform in a host program: an installable client driver that sends each call to a server process.
 *
 * The server starts when the program makes its first context. It has the objects; an
 * object here is a handle with its reference counts, the values of queries that never change, and, for kernels, the
 * arguments. Buffers lie in one shared memory file, the arena, which both processes map; the status of events lies in
 * another one. The table entry_points.toml lists all entry points; most functions are generated from it.
 *
 * Requests carry tickets, and the server begins them in the order of their tickets, whatever the connections by which
 * they arrive. A launch that is like an earlier one has no reply.
 */
#define SOCKET_VARIABLE "SOFTCARD_OPENCL_SOCKET"
#define SERVER "the OpenCL platform"
#define GONE "read the error above, and start this program again"
#define OF_THREAD _Thread_local
#define SPIN_SECONDS 100e-6 /* a launch and its end take half as long; a processor that slept needs tens of microseconds to wake */
#include "host.h"

#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "constants.h"

#define PYTHON_VARIABLE "SOFTCARD_OPENCL_PYTHON"
#define AGENTS_VARIABLE "SOFTCARD_OPENCL_AGENTS"
#define OBJECT_MAGIC 0x6C634F7472666F53ull
#define PROTOCOL_MAGIC 0x636C637466736F66ull
#define MOST_DEVICES 64
#define MOST_ARENA (1ull << 37)
#define LEAST_ARENA (1ull << 28)
#define SLOT_COUNT (1u << 18)
#define LEAST_FREE 1024 /* objects, and slots, that stay unused for a while after they were freed */
#define NULL_LIST UINT64_MAX
#define STATE_AT 48 /* the bit position of an argument's state in its word, above its size */
#define PATIENCE_US 1000000 /* for a connection while the program cannot open another one */
#define MOST_ARGUMENT 65536 /* bytes of a value; no argument has as many, and the server refuses larger ones */

enum { VERSION = 1 };
enum { START = 0x1000, SERVE_COPIES, SERVE_CALLBACKS, RELEASED, FORGOTTEN, COPIED, GOODBYE };
enum { ONE_WAY = 1 };                     /* the value of a request without a reply */
enum { COPIES = 2 };                      /* the flag in the value of a reply with copies */
enum { COPY = 1, CALL_EVENT, CALL_CONTEXT, CALL_OBJECT, CALL_NATIVE, CALL_FREE, CALL_BUILT }; /* what the server requests */
enum { UNSET = 0, BY_VALUE, OBJECT, LOCAL_MEMORY, SVM_POINTER };        /* the states of an argument */

/* OpenCL's numbers that this file needs. */
enum { SUCCESS = 0, PLATFORM_NOT_FOUND = -1001, DEVICE_NOT_FOUND = -1, OUT_OF_RESOURCES = -5, OUT_OF_HOST_MEMORY = -6 };
enum { PROFILING_INFO_NOT_AVAILABLE = -7, EVENT_FAILED = -14, INVALID_VALUE = -30, INVALID_DEVICE_TYPE = -31 };
enum { INVALID_PLATFORM = -32, INVALID_CONTEXT = -34, INVALID_ARG_INDEX = -49, INVALID_ARG_SIZE = -51, INVALID_EVENT_WAIT_LIST = -57 };
enum { INVALID_EVENT = -58, INVALID_OPERATION = -59 };

/* ---- Objects ---- */

struct known_value {
    struct known_value *next;
    uint64_t key;
    size_t size;
    char bytes[];
};

struct argument {
    size_t size; /* in bytes, also of local memory */
    size_t room;
    int state;     /* of the value that is set */
    int accepted;  /* the state, size and kind of object that the server has accepted before */
    size_t accepted_size;
    struct object *like;
    char *bytes;
};

/* The sizes of a launch. Kernels remember the last one that the server accepted. */
struct launch {
    struct object *queue;
    uint32_t dimensions, has_offset, has_local;
    size_t offset[3], global[3], local[3];
};

struct object {
    void *const *dispatch; /* must be first: the loader reads it */
    uint64_t magic;
    uint32_t kind;
    uint32_t process; /* the number of the process that made it: a child process cannot use it */
    _Atomic int32_t references, holders; /* of the user; of the user and of other objects */
    struct object *parents[2];
    _Atomic(struct known_value *) known;
    uint32_t number; /* of a device: its agent; of an event: its slot; of a kernel: its arguments; of memory: what
                        arguments accept it */
    uint32_t command; /* of an event */
    struct argument *arguments;
    struct launch accepted;
    struct object *next_free;
};

/* The status of an event, which the server writes. */
struct slot {
    _Atomic int32_t status;
    int32_t has_times;
    uint64_t times[5]; /* queued, submitted, start, end, complete */
    uint64_t unused[2];
};

static void *const dispatch_table[DISPATCH_SLOTS];
static struct object platform = {dispatch_table, OBJECT_MAGIC, PLATFORM, 0, 1, 1, {0}, 0, 0, 0, 0, {0}, 0};
static struct object devices[MOST_DEVICES];
static unsigned device_count;
static uint32_t process_number = 1;
static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *free_objects, **free_end = &free_objects;
static unsigned free_count;

/* Objects are never given back to the C library, so that a stale handle can be told from a valid one. A freed object
 * is used again after many others. */
static struct object *new_object(uint32_t kind) {
    struct object *made = NULL;
    pthread_mutex_lock(&objects_lock);
    if (free_count > LEAST_FREE) {
        made = free_objects;
        free_objects = made->next_free;
        free_count--;
    }
    pthread_mutex_unlock(&objects_lock);
    if (!made) made = malloc(sizeof *made);
    if (!made) return NULL;
    memset(made, 0, sizeof *made);
    made->dispatch = dispatch_table;
    made->kind = kind;
    made->process = process_number;
    made->references = made->holders = 1;
    made->magic = OBJECT_MAGIC;
    return made;
}

static void free_object(struct object *object) {
    for (struct known_value *each = object->known, *next; each; each = next) next = each->next, free(each);
    if (object->arguments) {
        for (uint32_t each = 0; each < object->number; each++) free(object->arguments[each].bytes);
        free(object->arguments);
    }
    object->magic = 0;
    object->next_free = NULL;
    pthread_mutex_lock(&objects_lock);
    *free_end = object;
    free_end = &object->next_free;
    free_count++;
    pthread_mutex_unlock(&objects_lock);
}

static int is_valid(const void *handle, uint32_t kind) {
    const struct object *object = handle;
    return object && object->magic == OBJECT_MAGIC && object->kind == kind &&
           (object->process == process_number || kind <= DEVICE);
}

static void hold(struct object *object) { object->holders++; }

/* ---- The connection to the server ---- */

struct link {
    int file;
    struct link *next;
};

static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER, starting = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER; /* of devices */
static _Thread_local int is_serving; /* in a thread that carries out the server's requests */
static struct link *free_links;
static int control = -1; /* new connections are sent through this one */
static _Atomic int is_lost; /* the server has ended */
static _Atomic uint64_t tickets;
static char *arena;
static uint64_t arena_size;
static struct slot *slots;
/* A ring of free slots. The one that has been free for longest is used first, since the server may still write to a slot
 * whose event the program has just released. Slot 0 is unused. */
static uint32_t free_slots[SLOT_COUNT], first_free_slot, free_slot_count, used_slots = 1;

static void forget_server(void) {
    process_number++;
    pthread_mutex_init(&objects_lock, NULL);
    pthread_mutex_init(&links_lock, NULL);
    pthread_mutex_init(&starting, NULL);
    pthread_mutex_init(&finding, NULL);
    for (struct link *each = free_links; each; each = each->next) close(each->file);
    free_links = NULL;
    if (control >= 0) close(control);
    control = -1;
    is_lost = 0;
    tickets = 0;
    free_slot_count = 0;
    used_slots = 1;
}

__attribute__((constructor)) static void handle_forks(void) { pthread_atfork(NULL, NULL, forget_server); }

static void *shared_file(uint64_t size, int *file, const char *name) {
    *file = (int)syscall(SYS_memfd_create, name, 1 /* MFD_CLOEXEC */);
    if (*file < 0) return NULL;
    void *made = ftruncate(*file, (off_t)size) ? MAP_FAILED
                                               : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *file, 0);
    if (made != MAP_FAILED) return made;
    close(*file);
    *file = -1;
    return NULL;
}

/* Start the server with one end of a socket as its standard input. A process between both ends at once, so that the
 * program cannot wait for the server. */
static int start_process(int file) {
    const char *python = getenv(PYTHON_VARIABLE);
    if (!python || !*python) python = PYTHON;
    char *const arguments[] = {(char *)python, "-m", "softcard.attach.opencl.server", NULL};
    pid_t child = fork();
    if (!child) {
        setsid();
        if (fork()) _exit(0);
        signal(SIGINT, SIG_IGN);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int null = open("/dev/null", O_RDWR);
        dup2(file, 0);
        dup2(null, 1);
#ifdef SYS_close_range
        if (syscall(SYS_close_range, 3u, ~0u, 0u))
#endif
            for (int each = 3; each < 4096; each++) close(each);
        execvp(python, arguments);
        dprintf(2, "error: cannot start the OpenCL server with %s (%s)\n   = help: set " PYTHON_VARIABLE
                   " to the Python in which Softcard is installed\n", python, strerror(errno));
        _exit(127);
    }
    int status;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR);
    return child > 0;
}

/* The connection of the calling thread is `connection`, as for host.h, from `take_link` to `leave_link`. */
static int take_free_link(void) {
    pthread_mutex_lock(&links_lock);
    struct link *found = free_links;
    if (found) free_links = found->next;
    pthread_mutex_unlock(&links_lock);
    if (!found) return 0;
    connection = found->file;
    free(found);
    return 1;
}

static int take_link(void) {
    int pair[2], waited = 0;
    for (;;) {
        if (take_free_link()) return 1;
        if (is_lost || control < 0) return 0;
        if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) break;
        /* The program has too many open files: wait for the connection of another thread. */
        if ((waited += 100) > PATIENCE_US) return 0;
        usleep(100);
    }
    pthread_mutex_lock(&links_lock);
    connection = control;
    int is_sent = send_file(pair[1]);
    pthread_mutex_unlock(&links_lock);
    connection = pair[0];
    close(pair[1]);
    if (!is_sent) hang_up();
    return is_sent;
}

static void leave_link(void) {
    struct link *made = connection < 0 ? NULL : malloc(sizeof *made);
    if (made) {
        made->file = connection;
        pthread_mutex_lock(&links_lock);
        made->next = free_links;
        free_links = made;
        pthread_mutex_unlock(&links_lock);
    } else
        hang_up();
    connection = -1;
}

static void *serve(void *argument);

static int start_thread(uint32_t kind) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, serve, (void *)(uintptr_t)kind);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) pthread_detach(thread);
    return !failed;
}

/* Start the server unless it runs; 0 where that fails. */
static int start_server(void) {
    static uint32_t started_in;
    static int is_started;
    pthread_mutex_lock(&starting);
    if (started_in != process_number) is_started = 0;
    if (!is_started && !is_lost) {
        started_in = process_number;
        int pair[2], files[2] = {-1, -1};
        char *made = NULL;
        for (arena_size = MOST_ARENA; !made && arena_size >= LEAST_ARENA; arena_size /= 2)
            if ((made = shared_file(arena_size, &files[0], "softcard-opencl-arena"))) break;
        arena = made;
        slots = made ? shared_file(SLOT_COUNT * sizeof *slots, &files[1], "softcard-opencl-events") : NULL;
        if (slots && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
            int is_running = start_process(pair[1]);
            close(pair[1]);
            control = connection = pair[0];
            uint64_t words[6 + MOST_DEVICES] = {(uintptr_t)arena, arena_size, SLOT_COUNT, (uintptr_t)&platform,
                                                (uintptr_t)devices, sizeof *devices};
            for (unsigned each = 0; each < device_count; each++) words[6 + each] = devices[each].number;
            const struct request hello = {START, VERSION, PROTOCOL_MAGIC, (6 + device_count) * sizeof *words};
            struct reply reply;
            is_started = is_running && send_all(&hello, sizeof hello) &&
                         send_all(words, hello.size) && send_file(files[0]) && send_file(files[1]) &&
                         receive_reply(&reply) && !reply.status;
            connection = -1;
            is_started = is_started && start_thread(SERVE_COPIES) && start_thread(SERVE_CALLBACKS);
        }
        for (int each = 0; each < 2; each++)
            if (files[each] >= 0) close(files[each]);
        if (!is_started) {
            is_lost = 1;
            say("error", "read the error above; `softcard doctor` shows what is missing", "the OpenCL server did not start");
        }
    }
    int result = is_started && !is_lost;
    pthread_mutex_unlock(&starting);
    return result;
}

/* ---- Messages ---- */

#define OWN_BYTES 480

struct message {
    uint32_t op;
    int32_t status; /* of the first error of an argument */
    size_t size, room;
    char *long_bytes;
    int calls_back; /* a function is called with the object that is built */
    struct object *parents[2], *event, *made;
    void **event_out;
    char bytes[OWN_BYTES];
};

static char *message_bytes(struct message *m) { return m->long_bytes ? m->long_bytes : m->bytes; }

static void *message_room(struct message *m, size_t size) {
    if (m->size + size > (m->long_bytes ? m->room : OWN_BYTES)) {
        size_t room = 2 * (m->size + size);
        char *larger = realloc(m->long_bytes, room);
        if (!larger) {
            m->status = OUT_OF_HOST_MEMORY;
            return NULL;
        }
        if (!m->long_bytes) memcpy(larger, m->bytes, m->size);
        m->long_bytes = larger;
        m->room = room;
    }
    m->size += size;
    return message_bytes(m) + m->size - size;
}

static void fail_message(struct message *m, int32_t status) {
    if (!m->status) m->status = status;
}

static void put_word(struct message *m, uint64_t word) {
    void *room = message_room(m, sizeof word);
    if (room) memcpy(room, &word, sizeof word);
}

static void put_bytes(struct message *m, const void *bytes, size_t size) {
    if (!bytes) {
        put_word(m, NULL_LIST);
        return;
    }
    put_word(m, size);
    char *room = message_room(m, (size + 7) / 8 * 8);
    if (room) memcpy(room, bytes, size);
}

static void put_text(struct message *m, const char *text) { put_bytes(m, text, text ? strlen(text) : 0); }

static void put_words(struct message *m, const size_t *words, uint32_t count) {
    if (!words) {
        put_word(m, NULL_LIST);
        return;
    }
    put_word(m, count);
    for (uint32_t each = 0; each < count; each++) put_word(m, words[each]);
}

static void put_properties(struct message *m, const uint64_t *pairs) {
    size_t count = 0;
    while (pairs && pairs[count]) count += 2;
    put_words(m, (const size_t *)pairs, (uint32_t)count);
}

static void put_texts(struct message *m, uint32_t count, const char *const *texts) {
    put_word(m, texts ? count : NULL_LIST);
    for (uint32_t each = 0; texts && each < count; each++) put_text(m, texts[each]);
}

static void put_callback(struct message *m, uintptr_t function, uintptr_t user_data) {
    put_word(m, function);
    put_word(m, user_data);
}

static void put_build_callback(struct message *m, uintptr_t function, uintptr_t user_data) {
    m->calls_back = function != 0;
    put_callback(m, function, user_data);
}

static void put_object(struct message *m, void *handle, uint32_t kind, int is_optional) {
    if (!(is_optional && !handle) && !is_valid(handle, kind)) fail_message(m, invalid_status[kind]);
    else if (handle && kind > DEVICE) {
        if (!m->parents[0]) m->parents[0] = handle;
        else if (!m->parents[1]) m->parents[1] = handle;
    }
    put_word(m, (uintptr_t)handle);
}

static void put_objects(struct message *m, uint32_t kind, uint32_t count, void *const *handles) {
    if (!handles) {
        put_word(m, NULL_LIST);
        if (count) fail_message(m, kind == EVENT ? INVALID_EVENT_WAIT_LIST : INVALID_VALUE);
        return;
    }
    if (!count && kind == EVENT) fail_message(m, INVALID_EVENT_WAIT_LIST);
    put_word(m, count);
    for (uint32_t each = 0; each < count; each++) {
        struct object *object = handles[each];
        if (!is_valid(object, kind)) fail_message(m, invalid_list_status[kind]);
        put_word(m, (uintptr_t)object);
    }
}

/* An image description; its last word is the object from which the image is made. */
static void put_description(struct message *m, const char *description, size_t size) {
    put_bytes(m, description, size);
    void *source = NULL;
    if (description) memcpy(&source, description + size - sizeof source, sizeof source);
    if (source && is_valid(source, MEM) && m->parents[0]) m->parents[1] = source;
}

/* The color of a fill command: one number for a depth image, else as many bytes as four components have. */
static void put_color(struct message *m, const struct object *image, const void *color, size_t size) {
    put_bytes(m, color, !m->status && image->number & IS_DEPTH_IMAGE ? sizeof(float) : size);
}

static struct object *new_event(struct object *owner, uint32_t command) {
    struct object *event = new_object(EVENT);
    uint32_t slot = 0;
    pthread_mutex_lock(&objects_lock);
    if (free_slot_count > LEAST_FREE || (free_slot_count && used_slots == SLOT_COUNT)) {
        slot = free_slots[first_free_slot];
        first_free_slot = (first_free_slot + 1) % SLOT_COUNT;
        free_slot_count--;
    } else if (used_slots < SLOT_COUNT)
        slot = used_slots++;
    pthread_mutex_unlock(&objects_lock);
    if (!event || !slot) {
        if (event) free_object(event);
        return NULL;
    }
    event->number = slot;
    event->command = command;
    event->parents[0] = owner;
    hold(owner);
    memset(&slots[slot], 0, sizeof *slots);
    slots[slot].status = 3; /* CL_QUEUED */
    return event;
}

static uint32_t command_of(uint32_t op);

static void put_event(struct message *m, void *queue, void **event) {
    if (event && !m->status) {
        m->event = new_event(queue, command_of(m->op));
        m->event_out = event;
        if (!m->event) fail_message(m, OUT_OF_HOST_MEMORY);
    }
    put_word(m, (uintptr_t)m->event);
    put_word(m, m->event ? m->event->number : 0);
}

static void drop_event(struct object *event) {
    pthread_mutex_lock(&objects_lock);
    free_slots[(first_free_slot + free_slot_count++) % SLOT_COUNT] = event->number;
    pthread_mutex_unlock(&objects_lock);
}

static int post(uint32_t op, const void *data, size_t size);

static void let_go(struct object *object) {
    while (object && object->kind > DEVICE && !--object->holders) {
        struct object *first = object->parents[0], *second = object->parents[1];
        const uint64_t handle = (uintptr_t)object;
        post(FORGOTTEN, &handle, sizeof handle);
        if (object->kind == EVENT) drop_event(object);
        free_object(object);
        if (second) let_go(second);
        object = first;
    }
}

/* ---- Calls ---- */

struct copy {
    uint64_t target, target_row, target_slice, source, source_row, source_slice, bytes, rows, slices;
};

static void perform_copy(const struct copy *copy) {
    char *target = (char *)copy->target;
    const char *source = (const char *)copy->source;
    for (uint64_t slice = 0; slice < copy->slices; slice++)
        for (uint64_t row = 0; row < copy->rows; row++)
            memcpy(target + slice * copy->target_slice + row * copy->target_row,
                   source + slice * copy->source_slice + row * copy->source_row, copy->bytes);
}

static int32_t lose_server(void) {
    if (!atomic_exchange(&is_lost, 1)) say("error", GONE, "the OpenCL server has ended");
    shutdown(control, SHUT_RDWR); /* calls of other threads may wait for a request that was not sent */
    hang_up();
    return OUT_OF_RESOURCES;
}

/* Send a request without a reply; 0 where the server has ended. */
static int post(uint32_t op, const void *data, size_t size) {
    if (is_lost || !take_link()) return 0;
    const struct request request = {op, ONE_WAY, tickets++, size};
    struct iovec parts[2] = {{(void *)&request, sizeof request}, {(void *)data, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    do sent = sendmsg(connection, &message, SEND_FLAGS);
    while (sent < 0 && errno == EINTR);
    int is_sent = sent == (ssize_t)(sizeof request + size);
    if (!is_sent && sent >= (ssize_t)sizeof request) {
        size_t rest = (size_t)sent - sizeof request;
        is_sent = send_all((const char *)data + rest, size - rest);
    }
    if (!is_sent) lose_server();
    leave_link();
    return is_sent;
}

/* What a call gets back. The data of short replies lie in the structure. */
struct answer {
    uint64_t value;
    size_t size;
    char *data;
    char own[512];
};

static void free_answer(struct answer *answer) {
    if (answer->data != answer->own) free(answer->data);
}

/* Send a request, perform the copies that its reply lists, and return its status. */
static int32_t ask(uint32_t op, const void *data, size_t size, struct answer *answer, int has_event) {
    answer->data = answer->own;
    answer->size = 0;
    answer->value = 0;
    if (is_lost || !take_link()) return OUT_OF_RESOURCES;
    const struct request request = {op, 0, tickets++, size};
    struct iovec parts[2] = {{(void *)&request, sizeof request}, {(void *)data, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent;
    do sent = sendmsg(connection, &message, SEND_FLAGS);
    while (sent < 0 && errno == EINTR);
    int is_sent = sent >= (ssize_t)sizeof request;
    if (is_sent) {
        size_t rest = (size_t)sent - sizeof request;
        is_sent = rest == size || send_all((const char *)data + rest, size - rest);
    }
    struct reply reply;
    if (is_sent) await_reply();
    if (!is_sent || !receive_reply(&reply)) {
        int32_t status = lose_server();
        leave_link();
        return status;
    }
    if (reply.data_size > sizeof answer->own && !(answer->data = malloc(reply.data_size))) {
        answer->data = answer->own;
        lose_server();
        leave_link();
        return OUT_OF_HOST_MEMORY;
    }
    answer->value = reply.value;
    answer->size = reply.data_size;
    int32_t status = (int32_t)reply.status;
    if (!receive_all(answer->data, reply.data_size)) status = lose_server();
    leave_link();
    if (!status && answer->value & COPIES) {
        uint64_t command;
        memcpy(&command, answer->data, sizeof command);
        for (size_t at = sizeof command; at + sizeof(struct copy) <= answer->size; at += sizeof(struct copy)) {
            struct copy copy;
            memcpy(&copy, answer->data + at, sizeof copy);
            perform_copy(&copy);
        }
        struct answer copied;
        if (command && !has_event) post(COPIED, &command, sizeof command);
        /* The event of a call that blocks is complete when the call returns. */
        else if (command && !ask(COPIED, &command, sizeof command, &copied, 0)) free_answer(&copied);
    }
    return status;
}

/* Send the call in `m`, and free its memory. The event is returned to the program, or freed after an error. */
static int32_t ask_message(struct message *m, struct answer *answer) {
    answer->data = answer->own;
    int32_t status = m->status;
    struct object *held = !status && m->calls_back ? m->made ? m->made : m->parents[0] : NULL;
    if (held) hold(held); /* until the callback has been called */
    if (!status)
        status = start_server() ? ask(m->op, message_bytes(m), m->size, answer, m->event != NULL) : OUT_OF_RESOURCES;
    if (held && status) let_go(held);
    free(m->long_bytes);
    if (m->event) {
        if (status && status != EVENT_FAILED) let_go(m->event);
        else *m->event_out = m->event;
    }
    return status;
}

static int32_t finish(struct message *m) {
    struct answer answer;
    int32_t status = ask_message(m, &answer);
    free_answer(&answer);
    return status;
}

static int32_t give(const void *bytes, size_t count, size_t size, void *value, size_t *size_ret) {
    if (value && size < count) return INVALID_VALUE;
    if (value) memcpy(value, bytes, count);
    if (size_ret) *size_ret = count;
    return SUCCESS;
}

static int32_t give_u32(uint32_t word, size_t size, void *value, size_t *size_ret) {
    return give(&word, sizeof word, size, value, size_ret);
}

static uint64_t hash_of(const char *bytes, size_t size, uint32_t op) {
    uint64_t hash = 0xCBF29CE484222325ull ^ op;
    for (size_t each = 0; each < size; each++) hash = (hash ^ (unsigned char)bytes[each]) * 0x100000001B3ull;
    return hash;
}

/* A query. Values that never change are kept with the object; `key` is a hash of the whole call. */
static int32_t finish_info(struct message *m, void *handle, uint32_t name, int is_fixed, size_t size, void *value,
                           size_t *size_ret) {
    struct object *object = handle;
    if (!m->status && object->kind > DEVICE && name == reference_count_query[object->kind]) {
        free(m->long_bytes);
        return give_u32((uint32_t)object->references, size, value, size_ret);
    }
    const uint64_t key = is_fixed ? hash_of(message_bytes(m), m->size, m->op) : 0;
    if (!m->status && is_fixed)
        for (struct known_value *each = object->known; each; each = each->next)
            if (each->key == key) {
                free(m->long_bytes);
                return give(each->bytes, each->size, size, value, size_ret);
            }
    struct answer answer;
    int32_t status = ask_message(m, &answer);
    if (!status) status = give(answer.data, answer.size, size, value, size_ret);
    struct known_value *made = !status && is_fixed ? malloc(sizeof *made + answer.size) : NULL;
    if (made) {
        made->key = key;
        made->size = answer.size;
        memcpy(made->bytes, answer.data, answer.size);
        made->next = object->known;
        while (!atomic_compare_exchange_weak(&object->known, &made->next, made));
    }
    free_answer(&answer);
    return status;
}

static void set_status(int32_t *errcode_ret, int32_t status) {
    if (errcode_ret) *errcode_ret = status;
}

/* A call that makes an object. The handle is the first word of the request. */
static void *finish_new(struct message *m, uint32_t kind, int32_t *errcode_ret) {
    struct object *made = m->status ? NULL : new_object(kind);
    struct answer answer = {.data = answer.own};
    int32_t status = m->status;
    if (!status && !made) status = OUT_OF_HOST_MEMORY;
    if (!status) {
        put_word(m, (uintptr_t)made);
        memcpy(made->parents, m->parents, sizeof made->parents);
        for (int each = 0; each < 2; each++)
            if (made->parents[each]) hold(made->parents[each]);
        m->made = made;
        status = ask_message(m, &answer);
    } else
        free(m->long_bytes);
    if (!status && kind == KERNEL) {
        made->number = (uint32_t)answer.value >> 8;
        made->arguments = calloc(made->number + 1, sizeof *made->arguments);
        if (!made->arguments) status = OUT_OF_HOST_MEMORY;
    } else if (!status && kind == MEM)
        made->number = (uint32_t)answer.value >> 8;
    free_answer(&answer);
    set_status(errcode_ret, status);
    /* clLinkProgram returns a program also where linking failed, for its log. */
    if (!status || (m->op == OP_clLinkProgram && answer.value >> 8)) return made;
    if (made) {
        for (int each = 0; each < 2; each++)
            if (made->parents[each]) let_go(made->parents[each]);
        free_object(made);
    }
    return NULL;
}

static void *finish_pointer(struct message *m, size_t *first, size_t *second, int32_t *errcode_ret) {
    struct answer answer;
    int32_t status = ask_message(m, &answer);
    uint64_t words[3] = {0, 0, 0};
    size_t at = !status && answer.value & COPIES ? answer.size - sizeof words : 0;
    if (!status && answer.size >= at + sizeof words) memcpy(words, answer.data + at, sizeof words);
    if (!status && first) *first = words[1];
    if (!status && second) *second = words[2];
    free_answer(&answer);
    set_status(errcode_ret, status);
    return status ? NULL : (void *)(uintptr_t)words[0];
}

static int32_t finish_words(struct message *m, uint64_t *words, uint32_t count) {
    struct answer answer;
    int32_t status = ask_message(m, &answer);
    if (!status && words) memcpy(words, answer.data, answer.size < 8 * count ? answer.size : 8 * count);
    free_answer(&answer);
    return status;
}

static int32_t finish_list(struct message *m, uint32_t room, void *entries, uint32_t *count, size_t entry_size) {
    struct answer answer;
    if (entries && !room) fail_message(m, INVALID_VALUE);
    int32_t status = ask_message(m, &answer);
    size_t known = status ? 0 : answer.size / entry_size;
    if (entries && !status) memcpy(entries, answer.data, entry_size * (known < room ? known : room));
    if (count && !status) *count = (uint32_t)known;
    free_answer(&answer);
    return status;
}

/* ---- What the server requests ---- */

/* The thread that performs copies, or the one that calls the program's functions. Both take requests one by one. */
static void *serve(void *argument) {
    const uint32_t kind = (uint32_t)(uintptr_t)argument;
    is_serving = 1;
    if (!take_link()) {
        lose_server();
        return NULL;
    }
    const struct request join = {kind, VERSION, PROTOCOL_MAGIC, 0};
    struct request request;
    char *data = NULL;
    const int own = connection;
    if (!send_all(&join, sizeof join)) return NULL;
    while (receive_all(&request, sizeof request)) {
        uint64_t words[4] = {0, 0, 0, 0};
        data = realloc(data, request.size + 1);
        if (!data || !receive_all(data, request.size)) break;
        data[request.size] = '\0';
        if (request.op != COPY && request.size >= sizeof words) memcpy(words, data, sizeof words);
        void *function = (void *)(uintptr_t)request.address;
        switch (request.op) {
        case COPY:
            for (size_t at = 0; at + sizeof(struct copy) <= request.size; at += sizeof(struct copy)) {
                struct copy copy;
                memcpy(&copy, data + at, sizeof copy);
                perform_copy(&copy);
            }
            break;
        case CALL_EVENT:
            ((void (*)(void *, int32_t, void *))function)((void *)words[1], (int32_t)words[2], (void *)words[0]);
            let_go((struct object *)words[1]);
            break;
        case CALL_CONTEXT:
            ((void (*)(const char *, const void *, size_t, void *))function)(data + sizeof words, NULL, 0, (void *)words[0]);
            break;
        case CALL_OBJECT:
            ((void (*)(void *, void *))function)((void *)words[1], (void *)words[0]);
            break;
        case CALL_BUILT:
            ((void (*)(void *, void *))function)((void *)words[1], (void *)words[0]);
            let_go((void *)words[1]);
            break;
        case CALL_NATIVE:
            ((void (*)(void *))function)(data);
            break;
        case CALL_FREE:
            ((void (*)(void *, uint32_t, void **, void *))function)((void *)words[1], (uint32_t)words[2],
                                                                    (void **)(data + sizeof words), (void *)words[0]);
            break;
        }
        connection = own; /* calls of the program's function have used other connections */
        const struct reply reply = {0, 0, 0, 0};
        if (!send_all(&reply, sizeof reply)) break;
    }
    free(data);
    lose_server();
    return NULL;
}

/* ---- Platform and devices ---- */

static void find_devices(void) {
    static int is_done;
    pthread_mutex_lock(&finding);
    const char *names = is_done ? NULL : getenv(AGENTS_VARIABLE);
    if (!is_done && (!names || !*names)) names = DEFAULT_AGENTS;
    is_done = 1;
    while (names && *names) {
        size_t length = strcspn(names, ","), agent = 0, count = sizeof agents / sizeof *agents;
        while (agent < count && (strlen(agents[agent].name) != length || memcmp(agents[agent].name, names, length))) agent++;
        if (agent == count) say("error", "see `softcard opencl --help` for the processors", AGENTS_VARIABLE
                                " names the unknown processor %.*s", (int)length, names);
        else if (device_count < MOST_DEVICES)
            devices[device_count++] = (struct object){.dispatch = dispatch_table, .magic = OBJECT_MAGIC, .kind = DEVICE,
                                                      .references = 1, .holders = 1, .number = (uint32_t)agent};
        names += length + (names[length] == ',');
    }
    pthread_mutex_unlock(&finding);
}

static int32_t clGetPlatformIDs(uint32_t room, void **platforms, uint32_t *count) {
    if ((platforms && !room) || (!platforms && !count)) return INVALID_VALUE;
    if (platforms) platforms[0] = &platform;
    if (count) *count = 1;
    return SUCCESS;
}

static int32_t give_fixed(const struct fixed_value *values, size_t count, uint32_t name, size_t size, void *value,
                          size_t *size_ret) {
    for (size_t each = 0; each < count; each++)
        if (values[each].name == name) return give(values[each].bytes, values[each].size, size, value, size_ret);
    return INVALID_VALUE;
}

static int32_t clGetPlatformInfo(void *handle, uint32_t name, size_t size, void *value, size_t *size_ret) {
    if (handle && !is_valid(handle, PLATFORM)) return INVALID_PLATFORM;
    return give_fixed(platform_values, sizeof platform_values / sizeof *platform_values, name, size, value, size_ret);
}

#define TYPE_DEFAULT 1u
#define TYPE_GPU 4u
#define TYPE_ALL 0xFFFFFFFFu
#define TYPE_CUSTOM 16u

static int32_t clGetDeviceIDs(void *handle, uint64_t type, uint32_t room, void **found, uint32_t *count) {
    if (handle && !is_valid(handle, PLATFORM)) return INVALID_PLATFORM;
    if (type != TYPE_ALL && (!type || type & ~31ull)) return INVALID_DEVICE_TYPE;
    if ((found && !room) || (!found && !count)) return INVALID_VALUE;
    find_devices();
    uint32_t known = type == TYPE_ALL || type & TYPE_GPU ? device_count : type & TYPE_DEFAULT && device_count ? 1 : 0;
    if (count) *count = known;
    if (!known) return DEVICE_NOT_FOUND;
    for (uint32_t each = 0; found && each < room && each < known; each++) found[each] = &devices[each];
    return SUCCESS;
}

enum { DEVICE_PLATFORM = 0x1031, DEVICE_PARENT = 0x1042, DEVICE_REFERENCES = 0x1047 };
enum { DEVICE_UUID = 0x106A, DEVICE_TIMER_OFFSET = 0x4036, DEVICE_TOPOLOGY = 0x4037, DEVICE_PCI_BUS = 0x410F };

/* Change a value of a query that depends on the device's position or on the time: the fixed value is that of the first
 * device. Each device has a PCI bus of its own, and each one of several with the same processor a UUID. */
static void own_value(const struct object *device, uint32_t name, char *bytes) {
    const size_t position = (size_t)(device - devices);
    if (name == DEVICE_PCI_BUS) {
        ((uint32_t *)bytes)[1] *= (uint32_t)position + 1;
    } else if (name == DEVICE_TOPOLOGY) {
        bytes[21] = (char)(bytes[21] * (int)(position + 1));
    } else if (name == DEVICE_UUID) {
        for (size_t each = 0; each < position; each++) bytes[15] = (char)(bytes[15] + (devices[each].number == device->number));
    } else {
        struct timespec epoch, clock;
        clock_gettime(CLOCK_REALTIME, &epoch);
        clock_gettime(CLOCK_MONOTONIC, &clock);
        *(int64_t *)bytes = (epoch.tv_sec - clock.tv_sec) * 1000000000ll + epoch.tv_nsec - clock.tv_nsec;
    }
}

static int32_t clGetDeviceInfo(void *device, uint32_t name, size_t size, void *value, size_t *size_ret) {
    if (!is_valid(device, DEVICE)) return invalid_status[DEVICE];
    void *none = NULL, *own = &platform;
    const uint32_t number = ((struct object *)device)->number;
    if (name == DEVICE_PLATFORM) return give(&own, sizeof own, size, value, size_ret);
    if (name == DEVICE_PARENT) return give(&none, sizeof none, size, value, size_ret);
    if (name == DEVICE_REFERENCES) return give_u32(1, size, value, size_ret);
    _Alignas(8) char bytes[24]; /* the largest of the values that differ */
    if (name == DEVICE_PCI_BUS || name == DEVICE_TOPOLOGY || name == DEVICE_UUID || name == DEVICE_TIMER_OFFSET) {
        size_t length = 0;
        give_fixed(agents[number].values, agents[number].count, name, sizeof bytes, bytes, &length);
        own_value(device, name, bytes);
        return give(bytes, length, size, value, size_ret);
    }
    return give_fixed(agents[number].values, agents[number].count, name, size, value, size_ret);
}

static int32_t clRetainDevice(void *device) { return is_valid(device, DEVICE) ? SUCCESS : invalid_status[DEVICE]; }
static int32_t clReleaseDevice(void *device) { return clRetainDevice(device); }

static int32_t clGetDeviceAndHostTimer(void *device, uint64_t *device_time, uint64_t *host_time) {
    if (!is_valid(device, DEVICE)) return invalid_status[DEVICE];
    if (!device_time || !host_time) return INVALID_VALUE;
    *device_time = *host_time = (uint64_t)(now() * 1e9);
    return SUCCESS;
}

static int32_t clGetHostTimer(void *device, uint64_t *host_time) {
    uint64_t device_time;
    return clGetDeviceAndHostTimer(device, &device_time, host_time);
}

/* ---- References ---- */

static int32_t retain(struct object *object, uint32_t kind) {
    if (!is_valid(object, kind)) return invalid_status[kind];
    object->references++;
    hold(object);
    return SUCCESS;
}

static int32_t release(struct object *object, uint32_t kind) {
    if (!is_valid(object, kind) || object->references <= 0) return invalid_status[kind];
    if (!--object->references) {
        const uint64_t handle = (uintptr_t)object;
        post(RELEASED, &handle, sizeof handle);
    }
    let_go(object);
    return SUCCESS;
}

#define REFERENCES(name, kind)                                                                                         \
    static int32_t clRetain##name(void *object) { return retain(object, kind); }                                       \
    static int32_t clRelease##name(void *object) { return release(object, kind); }

REFERENCES(Context, CONTEXT)
REFERENCES(CommandQueue, QUEUE)
REFERENCES(MemObject, MEM)
REFERENCES(Sampler, SAMPLER)
REFERENCES(Program, PROGRAM)
REFERENCES(Kernel, KERNEL)
REFERENCES(Event, EVENT)

#include "entry_points.h"

/* ---- Contexts ---- */

static void *clCreateContextFromType(const uint64_t *properties, uint64_t type, void *notify, void *user_data,
                                     int32_t *errcode_ret) {
    void *found[MOST_DEVICES];
    uint32_t count = 0;
    int32_t status = clGetDeviceIDs(NULL, type, MOST_DEVICES, found, &count);
    if (!status) return clCreateContext(properties, count, found, notify, user_data, errcode_ret);
    set_status(errcode_ret, status);
    return NULL;
}

/* ---- Programs ---- */

static void *clCreateProgramWithSource(void *context, uint32_t count, const char **texts, const size_t *lengths,
                                       int32_t *errcode_ret) {
    struct message m = {.op = OP_clCreateProgramWithSource};
    size_t size = 0;
    put_object(&m, context, CONTEXT, 0);
    if (!count || !texts) fail_message(&m, INVALID_VALUE);
    for (uint32_t each = 0; !m.status && each < count; each++)
        if (!texts[each]) fail_message(&m, INVALID_VALUE);
        else size += lengths && lengths[each] ? lengths[each] : strlen(texts[each]);
    char *whole = m.status ? NULL : malloc(size + 1);
    for (uint32_t each = 0, at = 0; whole && each < count; each++) {
        size_t length = lengths && lengths[each] ? lengths[each] : strlen(texts[each]);
        memcpy(whole + at, texts[each], length);
        at += length;
    }
    put_bytes(&m, whole, size);
    free(whole);
    return finish_new(&m, PROGRAM, errcode_ret);
}

static void *clCreateProgramWithBinary(void *context, uint32_t count, void *const *list, const size_t *lengths,
                                       const unsigned char **binaries, int32_t *statuses, int32_t *errcode_ret) {
    struct message m = {.op = OP_clCreateProgramWithBinary};
    put_object(&m, context, CONTEXT, 0);
    put_objects(&m, DEVICE, count, list);
    int is_missing = !count || !list || !lengths || !binaries;
    if (is_missing) fail_message(&m, INVALID_VALUE);
    put_word(&m, count);
    for (uint32_t each = 0; !m.status && each < count; each++) {
        int is_empty = !binaries[each] || !lengths[each];
        if (statuses) statuses[each] = is_empty ? INVALID_VALUE : SUCCESS;
        if (is_empty) fail_message(&m, INVALID_VALUE);
        put_bytes(&m, binaries[each], lengths[each]);
    }
    int32_t status;
    void *made = finish_new(&m, PROGRAM, &status);
    for (uint32_t each = 0; status == -42 /* CL_INVALID_BINARY */ && statuses && each < count; each++) statuses[each] = status;
    set_status(errcode_ret, status);
    return made;
}

enum { PROGRAM_BINARIES = 0x1166 };

/* The binaries follow one another in the reply, each after its size; the program has a pointer for each of them. */
static int32_t clGetProgramInfo(void *program, uint32_t name, size_t size, void *value, size_t *size_ret) {
    struct message m = {.op = OP_clGetProgramInfo};
    put_object(&m, program, PROGRAM, 0);
    put_word(&m, name);
    if (name != PROGRAM_BINARIES) return finish_info(&m, program, name, 0, size, value, size_ret);
    struct answer answer;
    int32_t status = ask_message(&m, &answer);
    size_t count = 0;
    for (size_t at = 0; !status && at < answer.size; count++) {
        uint64_t length;
        memcpy(&length, answer.data + at, sizeof length);
        at += sizeof length;
        if (value && size >= (count + 1) * sizeof(void *) && ((void **)value)[count])
            memcpy(((void **)value)[count], answer.data + at, length);
        at += length;
    }
    if (!status && value && size < count * sizeof(void *)) status = INVALID_VALUE;
    if (!status && size_ret) *size_ret = count * sizeof(void *);
    free_answer(&answer);
    return status;
}

static int32_t clCreateKernelsInProgram(void *program, uint32_t room, void **kernels, uint32_t *count) {
    struct message m = {.op = OP_clCreateKernelsInProgram};
    struct answer answer;
    put_object(&m, program, PROGRAM, 0);
    int32_t status = ask_message(&m, &answer); /* the names, each with a NUL */
    uint32_t known = 0, made = 0;
    for (size_t at = 0; !status && at < answer.size; at++) known += !answer.data[at];
    if (!status && kernels && room < known) status = INVALID_VALUE;
    for (const char *name = answer.data; !status && kernels && made < known; name += strlen(name) + 1) {
        kernels[made] = clCreateKernel(program, name, &status);
        made += !status;
    }
    if (status)
        while (made) clReleaseKernel(kernels[--made]);
    else if (count)
        *count = known;
    free_answer(&answer);
    return status;
}

/* ---- Kernels ---- */

static int store_argument(struct argument *argument, int state, const void *value, size_t size) {
    if (value && size > argument->room) {
        char *larger = realloc(argument->bytes, size);
        if (!larger) return 0;
        argument->bytes = larger;
        argument->room = size;
    }
    if (value) memcpy(argument->bytes, value, size);
    argument->state = state;
    argument->size = size;
    return 1;
}

/* Whether the server has accepted such a value for this argument before. */
static int is_accepted(const struct argument *argument, const void *value, size_t size) {
    if (argument->accepted == LOCAL_MEMORY) return !value && size;
    if (!value || size != argument->accepted_size) return 0;
    if (argument->accepted == BY_VALUE) return 1;
    struct object *object;
    if (argument->accepted != OBJECT) return 0;
    memcpy(&object, value, sizeof object);
    const struct object *like = argument->like;
    return object && like && is_valid(object, like->kind) && object->number == like->number &&
           object->parents[0] == like->parents[0];
}

static int32_t clSetKernelArg(void *handle, uint32_t index, size_t size, const void *value) {
    struct object *kernel = handle;
    if (!is_valid(kernel, KERNEL)) return invalid_status[KERNEL];
    if (index >= kernel->number) return INVALID_ARG_INDEX;
    if (size >> STATE_AT) return INVALID_ARG_SIZE;
    struct argument *argument = &kernel->arguments[index];
    if (is_accepted(argument, value, size))
        return store_argument(argument, argument->accepted, value, size) ? SUCCESS : OUT_OF_HOST_MEMORY;
    struct message m = {.op = OP_clSetKernelArg};
    struct answer answer;
    put_object(&m, kernel, KERNEL, 0);
    put_word(&m, index);
    put_word(&m, size);
    put_bytes(&m, value, size <= MOST_ARGUMENT ? size : 0);
    int32_t status = ask_message(&m, &answer);
    const int state = (int)(answer.value >> 8);
    free_answer(&answer);
    if (status) return status;
    argument->accepted = state;
    argument->accepted_size = size;
    argument->like = NULL;
    if (state == OBJECT && value) memcpy(&argument->like, value, sizeof argument->like);
    /* The null pointer for a buffer has no object with which later ones could be compared. */
    const void *null_handle = NULL;
    if (state == OBJECT && !value) value = &null_handle, size = sizeof null_handle;
    return store_argument(argument, state, value, size) ? SUCCESS : OUT_OF_HOST_MEMORY;
}

static int32_t clSetKernelArgSVMPointer(void *handle, uint32_t index, const void *value) {
    struct object *kernel = handle;
    if (!is_valid(kernel, KERNEL)) return invalid_status[KERNEL];
    if (index >= kernel->number) return INVALID_ARG_INDEX;
    struct argument *argument = &kernel->arguments[index];
    if (argument->accepted != SVM_POINTER) {
        struct message m = {.op = OP_clSetKernelArgSVMPointer};
        put_object(&m, kernel, KERNEL, 0);
        put_word(&m, index);
        put_word(&m, (uintptr_t)value);
        int32_t status = finish(&m);
        if (status) return status;
        argument->accepted = SVM_POINTER;
    }
    return store_argument(argument, SVM_POINTER, &value, sizeof value) ? SUCCESS : OUT_OF_HOST_MEMORY;
}

enum { KERNEL_LOCAL_MEM_SIZE = 0x11B2 };

static int32_t clGetKernelWorkGroupInfo(void *handle, void *device, uint32_t name, size_t size, void *value,
                                        size_t *size_ret) {
    struct message m = {.op = OP_clGetKernelWorkGroupInfo};
    put_object(&m, handle, KERNEL, 0);
    put_object(&m, device, DEVICE, 1);
    put_word(&m, name);
    const int32_t status = finish_info(&m, handle, name, 1, size, value, size_ret);
    /* The answer has the memory that the kernel declares. The sizes of its arguments are known here. */
    const struct object *kernel = handle;
    for (uint32_t each = 0; !status && value && name == KERNEL_LOCAL_MEM_SIZE && each < kernel->number; each++)
        if (kernel->arguments[each].state == LOCAL_MEMORY) *(uint64_t *)value += kernel->arguments[each].size;
    return status;
}

enum { LOCAL_SIZE_FOR_SUB_GROUP_COUNT = 0x11B8 };

static int32_t clGetKernelSubGroupInfo(void *kernel, void *device, uint32_t name, size_t input_size, const void *input,
                                       size_t size, void *value, size_t *size_ret) {
    struct message m = {.op = OP_clGetKernelSubGroupInfo};
    put_object(&m, kernel, KERNEL, 0);
    put_object(&m, device, DEVICE, 1);
    put_word(&m, name);
    put_bytes(&m, input, input_size);
    size_t sizes[3];
    if (name != LOCAL_SIZE_FOR_SUB_GROUP_COUNT || !value)
        return finish_info(&m, kernel, name, 0, size, value, size_ret);
    /* The program has room for the sizes of one to three dimensions, and gets as many. */
    int32_t status = finish_info(&m, kernel, name, 0, sizeof sizes, sizes, NULL);
    if (!status) status = give(sizes, size < sizeof sizes ? size / sizeof *sizes * sizeof *sizes : sizeof sizes, size, value, size_ret);
    return status;
}

static void *clCloneKernel(void *handle, int32_t *errcode_ret) {
    struct object *kernel = handle;
    struct message m = {.op = OP_clCloneKernel};
    put_object(&m, kernel, KERNEL, 0);
    int32_t status;
    struct object *made = finish_new(&m, KERNEL, &status);
    for (uint32_t each = 0; made && each < made->number; each++) {
        const struct argument *from = &kernel->arguments[each];
        struct argument *to = &made->arguments[each];
        to->accepted = from->accepted;
        to->accepted_size = from->accepted_size;
        to->like = from->like;
        if (!store_argument(to, from->state, from->state == LOCAL_MEMORY ? NULL : from->bytes, from->size))
            status = OUT_OF_HOST_MEMORY;
    }
    set_status(errcode_ret, status);
    return made;
}

static int32_t clEnqueueNDRangeKernel(void *queue, void *handle, uint32_t dimensions, const size_t *offset,
                                      const size_t *global, const size_t *local, uint32_t wait_count,
                                      void *const *waits, void **event) {
    struct message m = {.op = OP_clEnqueueNDRangeKernel};
    struct object *kernel = handle;
    struct launch launch = {queue, dimensions, offset != NULL, local != NULL, {0}, {0}, {0}};
    put_object(&m, queue, QUEUE, 0);
    put_object(&m, kernel, KERNEL, 0);
    if (!m.status && (!dimensions || dimensions > 3)) m.status = -53; /* CL_INVALID_WORK_DIMENSION */
    if (m.status) return m.status;
    const size_t bytes = dimensions * sizeof(size_t);
    if (offset) memcpy(launch.offset, offset, bytes);
    if (global) memcpy(launch.global, global, bytes);
    if (local) memcpy(launch.local, local, bytes);
    put_word(&m, dimensions);
    put_words(&m, offset ? launch.offset : NULL, 3);
    put_words(&m, global ? launch.global : NULL, 3);
    put_words(&m, local ? launch.local : NULL, 3);
    put_objects(&m, EVENT, wait_count, waits);
    int is_complete = 1;
    size_t size_at = m.size, start = m.size + 8;
    put_word(&m, 0);
    for (uint32_t each = 0; each < kernel->number; each++) {
        const struct argument *argument = &kernel->arguments[each];
        is_complete &= argument->state != UNSET;
        put_word(&m, (uint64_t)argument->state << STATE_AT | argument->size);
        if (argument->state != LOCAL_MEMORY && argument->state != UNSET) {
            char *room = message_room(&m, (argument->size + 7) / 8 * 8);
            if (room) memcpy(room, argument->bytes, argument->size);
        }
    }
    const uint64_t block = m.size - start;
    if (!m.status) memcpy(message_bytes(&m) + size_at, &block, sizeof block);
    put_event(&m, queue, event);
    if (!m.status && is_complete && !wait_count && !memcmp(&launch, &kernel->accepted, sizeof launch)) {
        int is_sent = post(m.op, message_bytes(&m), m.size);
        free(m.long_bytes);
        if (is_sent && m.event) *event = m.event;
        else if (m.event) let_go(m.event);
        return is_sent ? SUCCESS : OUT_OF_RESOURCES;
    }
    int32_t status = finish(&m);
    if (!status) kernel->accepted = launch;
    return status;
}

static int32_t clEnqueueTask(void *queue, void *kernel, uint32_t wait_count, void *const *waits, void **event) {
    const size_t one = 1;
    return clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, wait_count, waits, event);
}

static int32_t clEnqueueNativeKernel(void *queue, void *function, void *arguments, size_t size, uint32_t count,
                                     void *const *memory, const void **places, uint32_t wait_count,
                                     void *const *waits, void **event) {
    struct message m = {.op = OP_clEnqueueNativeKernel};
    put_object(&m, queue, QUEUE, 0);
    if (!function || (!arguments && (size || count)) || (arguments && !size) || (count && (!memory || !places)) ||
        (!count && (memory || places)))
        fail_message(&m, INVALID_VALUE);
    put_word(&m, (uintptr_t)function);
    put_bytes(&m, arguments ? arguments : "", arguments ? size : 0);
    put_objects(&m, MEM, count, count ? memory : NULL);
    put_word(&m, count);
    for (uint32_t each = 0; !m.status && each < count; each++) put_word(&m, (uint64_t)((char *)places[each] - (char *)arguments));
    put_objects(&m, EVENT, wait_count, waits);
    put_event(&m, queue, event);
    return finish(&m);
}

/* ---- Events ---- */

static uint32_t command_of(uint32_t op) {
    switch (op) {
    case OP_clEnqueueNDRangeKernel: return 0x11F0;
    case OP_clEnqueueNativeKernel: return 0x11F2;
    case OP_clEnqueueReadBuffer: return 0x11F3;
    case OP_clEnqueueWriteBuffer: return 0x11F4;
    case OP_clEnqueueCopyBuffer: return 0x11F5;
    case OP_clEnqueueReadImage: return 0x11F6;
    case OP_clEnqueueWriteImage: return 0x11F7;
    case OP_clEnqueueCopyImage: return 0x11F8;
    case OP_clEnqueueCopyImageToBuffer: return 0x11F9;
    case OP_clEnqueueCopyBufferToImage: return 0x11FA;
    case OP_clEnqueueMapBuffer: return 0x11FB;
    case OP_clEnqueueMapImage: return 0x11FC;
    case OP_clEnqueueUnmapMemObject: return 0x11FD;
    case OP_clEnqueueMarker:
    case OP_clEnqueueMarkerWithWaitList: return 0x11FE;
    case OP_clEnqueueReadBufferRect: return 0x1201;
    case OP_clEnqueueWriteBufferRect: return 0x1202;
    case OP_clEnqueueCopyBufferRect: return 0x1203;
    case OP_clCreateUserEvent: return 0x1204;
    case OP_clEnqueueBarrier:
    case OP_clEnqueueBarrierWithWaitList: return 0x1205;
    case OP_clEnqueueMigrateMemObjects: return 0x1206;
    case OP_clEnqueueFillBuffer: return 0x1207;
    case OP_clEnqueueFillImage: return 0x1208;
    case OP_clEnqueueSVMFree: return 0x1209;
    case OP_clEnqueueSVMMemcpy: return 0x120A;
    case OP_clEnqueueSVMMemFill: return 0x120B;
    case OP_clEnqueueSVMMap: return 0x120C;
    case OP_clEnqueueSVMUnmap: return 0x120D;
    case OP_clEnqueueSVMMigrateMem: return 0x120E;
    default: return 0;
    }
}

static void *clCreateUserEvent(void *context, int32_t *errcode_ret) {
    struct message m = {.op = OP_clCreateUserEvent};
    void *made = NULL;
    put_object(&m, context, CONTEXT, 0);
    if (!m.status && start_server()) put_event(&m, context, &made);
    if (m.event) slots[m.event->number].status = 2; /* CL_SUBMITTED */
    int32_t status = finish(&m);
    set_status(errcode_ret, status);
    return status ? NULL : made;
}

static int32_t clWaitForEvents(uint32_t count, void *const *events) {
    if (!count || !events) return INVALID_VALUE;
    struct message m = {.op = OP_clWaitForEvents};
    for (uint32_t each = 0; each < count; each++) {
        struct object *event = events[each];
        if (!is_valid(event, EVENT)) return INVALID_EVENT;
        const struct object *first = events[0], *owner = event->parents[0], *known = first->parents[0];
        const struct object *context = owner->kind == QUEUE ? owner->parents[0] : owner;
        if (context != (known->kind == QUEUE ? known->parents[0] : known)) return INVALID_CONTEXT;
    }
    /* Complete events need the call too: the text that kernels have printed comes with its reply. */
    put_objects(&m, EVENT, count, events);
    return finish(&m);
}

/* The callback holds the event, which the program may have released before the function is called. */
static int32_t clSetEventCallback(void *handle, int32_t status, void *notify, void *user_data) {
    struct message m = {.op = OP_clSetEventCallback};
    put_object(&m, handle, EVENT, 0);
    put_word(&m, (uint32_t)status);
    put_callback(&m, (uintptr_t)notify, (uintptr_t)user_data);
    if (m.status) return m.status;
    hold(handle);
    const int32_t result = finish(&m);
    if (result) let_go(handle);
    return result;
}

/* The status of an event. Commands that had not ended with the server have failed. */
static int32_t status_of(const struct object *event) {
    const int32_t status = slots[event->number].status;
    return status > 0 && is_lost ? OUT_OF_RESOURCES : status;
}

enum { EVENT_QUEUE = 0x11D0, EVENT_COMMAND = 0x11D1, EVENT_STATUS = 0x11D3, EVENT_CONTEXT = 0x11D4 };

static int32_t clGetEventInfo(void *handle, uint32_t name, size_t size, void *value, size_t *size_ret) {
    struct object *event = handle;
    if (!is_valid(event, EVENT)) return INVALID_EVENT;
    struct object *owner = event->parents[0], *queue = owner->kind == QUEUE ? owner : NULL;
    struct object *context = queue ? queue->parents[0] : owner;
    if (name == reference_count_query[EVENT]) return give_u32((uint32_t)event->references, size, value, size_ret);
    switch (name) {
    case EVENT_QUEUE: return give(&queue, sizeof queue, size, value, size_ret);
    case EVENT_CONTEXT: return give(&context, sizeof context, size, value, size_ret);
    case EVENT_COMMAND: return give_u32(event->command, size, value, size_ret);
    case EVENT_STATUS: return give_u32((uint32_t)status_of(event), size, value, size_ret);
    default: return INVALID_VALUE;
    }
}

static int32_t clGetEventProfilingInfo(void *handle, uint32_t name, size_t size, void *value, size_t *size_ret) {
    struct object *event = handle;
    if (!is_valid(event, EVENT)) return INVALID_EVENT;
    if (name < 0x1280 || name > 0x1284) return INVALID_VALUE;
    const struct slot *slot = &slots[event->number];
    if (slot->status || !slot->has_times) return PROFILING_INFO_NOT_AVAILABLE;
    return give(&slot->times[name - 0x1280], sizeof *slot->times, size, value, size_ret);
}

/* ---- Shared virtual memory ---- */

static void *clSVMAlloc(void *context, uint64_t flags, size_t size, uint32_t alignment) {
    struct message m = {.op = OP_clSVMAlloc};
    put_object(&m, context, CONTEXT, 0);
    put_word(&m, flags);
    put_word(&m, size);
    put_word(&m, alignment);
    return finish_pointer(&m, NULL, NULL, NULL);
}

static void clSVMFree(void *context, void *pointer) {
    struct message m = {.op = OP_clSVMFree};
    put_object(&m, context, CONTEXT, 0);
    put_word(&m, (uintptr_t)pointer);
    finish(&m);
}

/* ---- Loading ---- */

static int32_t absent_function(void) { return INVALID_OPERATION; }
static void *absent_object(void) { return NULL; }

/* Return 1 and set `is_second` if an object of the process has this library's name: 0 for this library itself. */
static int find_copy(struct dl_phdr_info *object, size_t size, void *is_second) {
    (void)size;
    const char *name = strrchr(object->dlpi_name, '/');
    if (!name || strcmp(name + 1, FILE_NAME)) return 0;
    const uintptr_t own = (uintptr_t)&platform, base = object->dlpi_addr;
    int is_own = 0;
    for (int each = 0; each < object->dlpi_phnum; each++) {
        const ElfW(Phdr) *part = object->dlpi_phdr + each;
        is_own |= part->p_type == PT_LOAD && own - base - part->p_vaddr < part->p_memsz;
    }
    *(int *)is_second = !is_own;
    return 1;
}

/* A program may find one copy of the library by a variable and another one by an .icd file: only the first copy has a
 * platform, since the program would run everything on two equal ones. */
EXPORT int32_t clIcdGetPlatformIDsKHR(uint32_t room, void **platforms, uint32_t *count) {
    int is_second = 0;
    dl_iterate_phdr(find_copy, &is_second);
    if (!is_second) return clGetPlatformIDs(room, platforms, count);
    if (count) *count = 0;
    return PLATFORM_NOT_FOUND;
}

EXPORT void *clGetExtensionFunctionAddress(const char *name);

static void *clGetExtensionFunctionAddressForPlatform(void *handle, const char *name) {
    return is_valid(handle, PLATFORM) ? clGetExtensionFunctionAddress(name) : NULL;
}

/* Let the program's commands end, and print what they print, when the program ends. */
__attribute__((destructor)) static void say_goodbye(void) {
    struct answer answer;
    if (control < 0 || is_lost || is_serving) return; /* a function that the server has called may end the program */
    ask(GOODBYE, NULL, 0, &answer, 0);
    free_answer(&answer);
}

#include "dispatch.h"

EXPORT void *clGetExtensionFunctionAddress(const char *name) {
    for (size_t each = 0; name && each < sizeof function_names / sizeof *function_names; each++)
        if (!strcmp(function_names[each].name, name)) return function_names[each].function;
    return NULL;
}
