/* Gives unmodified ROCm programs a kernel driver: loaded before their libraries, this sends what they do with /dev/kfd
 * and /dev/dri/renderD* to a server, and shows them its files in place of sysfs. It knows nothing of GPUs: ioctls go as
 * they are, and their memory is one file, so that mmap needs no help.
 *
 * A descriptor of a device is one of that file; which device it is stands in its position, which duplicates share.
 */
#define SOCKET_VARIABLE "UNDERSTUDY_ROCM_SOCKET"
#define ROOT_VARIABLE "UNDERSTUDY_ROCM_ROOT"
#define SERVER "understudy exec --device rocm"
#define OF_THREAD _Thread_local
#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { OP_OPEN = 2, OP_JOIN = 3, OP_IOCTL = 4, OP_SHARE = 5 };
enum { VERSION = 1, QUIET = 0x100, PROTECTION = 7 };
#define MAGIC 0x6D636F7279647475ull
#define MOST_BYTES 256 /* of an ioctl's argument */
#define PAGE 4096ull
#define PATIENCE_S 1.0 /* for threads to stop */

/* What this process has of the driver. A child process has nothing until it opens it. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static int memory = -1;
static struct stat memory_status;
static uint64_t key;
static int hands = -1; /* the connection on which the server asks */

#define REAL(result, name, ...)                                                                                        \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* ---- Pages become shared ---- */

static volatile int stopping, stopped;
static int stop_signal;

static void wait_to_go_on(int number) {
    (void)number;
    int before = errno;
    __atomic_add_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&stopping, __ATOMIC_SEQ_CST)) syscall(SYS_futex, &stopping, FUTEX_WAIT, 1, NULL, NULL, 0);
    __atomic_sub_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
    errno = before;
}

/* A real-time signal that the program does not use, the highest; 0 for none. */
static int choose_signal(void) {
    for (int number = SIGRTMAX; number >= SIGRTMIN; number--) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) || action.sa_handler != SIG_DFL) continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = wait_to_go_on;
        action.sa_flags = SA_RESTART;
        sigfillset(&action.sa_mask);
        if (!sigaction(number, &action, NULL)) return number;
    }
    return 0;
}

/* Signal every other thread that was not signalled yet; how many those were, -1 where that cannot be known. Nothing
 * here may allocate: a thread that is stopped may hold any lock. */
static int signal_others(pid_t *known, int *count, int most) {
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fresh = 0;
    pid_t process = getpid(), me = (pid_t)syscall(SYS_gettid);
    char buffer[4096];
    long got;
    if (folder < 0) return -1;
    while ((got = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got;) {
            struct {
                uint64_t inode, offset;
                uint16_t size;
                uint8_t type;
                char name[];
            } *entry = (void *)(buffer + at);
            at += entry->size;
            pid_t thread = (pid_t)atoi(entry->name);
            int is_known = !thread || thread == me;
            for (int each = 0; each < *count && !is_known; each++) is_known = known[each] == thread;
            if (is_known) continue;
            if (*count == most) fresh = -1;
            else if (!syscall(SYS_tgkill, process, thread, stop_signal)) known[(*count)++] = thread, fresh++;
            if (fresh < 0) break;
        }
    close(folder);
    return got < 0 ? -1 : fresh;
}

static void let_go_on(void) {
    __atomic_store_n(&stopping, 0, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &stopping, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Stop all other threads; 0, and none is stopped, where one does not stop in time: it blocks the signal. */
static int stop_others(void) {
    static pid_t known[4096];
    int count = 0, fresh;
    if (!stop_signal) stop_signal = choose_signal();
    if (!stop_signal) return 0;
    __atomic_store_n(&stopping, 1, __ATOMIC_SEQ_CST);
    double deadline = now() + PATIENCE_S;
    do {
        fresh = signal_others(known, &count, (int)(sizeof known / sizeof *known));
        while (fresh >= 0 && __atomic_load_n(&stopped, __ATOMIC_SEQ_CST) < count && now() < deadline) sched_yield();
    } while (fresh > 0 && now() < deadline);
    if (!fresh && __atomic_load_n(&stopped, __ATOMIC_SEQ_CST) >= count) return 1;
    let_go_on();
    return 0;
}

/* Copy what is there of a stretch of this process's memory: pages that nobody touched are zeros on both sides. */
static int copy_pages(uint64_t address, uint64_t size, uint64_t offset) {
    uint64_t entries[512];
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), is_known = map >= 0, done = 1;
    for (uint64_t at = 0; at < size && done;) {
        uint64_t pages = (size - at) / PAGE;
        if (pages > sizeof entries / sizeof *entries) pages = sizeof entries / sizeof *entries;
        if (is_known)
            is_known = pread(map, entries, pages * 8, (off_t)((address + at) / PAGE * 8)) == (ssize_t)(pages * 8);
        for (uint64_t page = 0; page < pages && done; page++, at += PAGE)
            if (!is_known || entries[page] >> 62) /* present or swapped out */
                done = pwrite(memory, (char *)(address + at), PAGE, (off_t)(offset + at)) == (ssize_t)PAGE;
    }
    if (map >= 0) close(map);
    return done;
}

static int share(uint64_t address, uint64_t size, uint64_t offset, int protection, int is_quiet) {
    if (!is_quiet && !stop_others()) return EBUSY;
    int error = copy_pages(address, size, offset) ? 0 : EFAULT;
    if (!error &&
        mmap((void *)address, size, protection, MAP_SHARED | MAP_FIXED, memory, (off_t)offset) == MAP_FAILED)
        error = errno;
    if (!is_quiet) let_go_on();
    return error;
}

/* What the server asks for; in a thread of its own, as the pages may hold any other's stack. */
static void *lend_hands(void *unused) {
    struct request asked;
    uint64_t offset;
    (void)unused;
    connection = hands;
    while (receive_all(&asked, sizeof asked) && asked.op == OP_SHARE && receive_all(&offset, sizeof offset)) {
        struct reply reply = {0, 0, 0, 0};
        int protection = (int)(asked.value & PROTECTION), is_quiet = !!(asked.value & QUIET);
        reply.status = (uint32_t)share(asked.address, asked.size, offset, protection, is_quiet);
        if (!send_all(&reply, sizeof reply)) break;
    }
    /* As a card that has fallen off the bus ends programs: what they wait for never comes, and they ask for ever. */
    say("the server has gone, and the GPUs of this program with it");
    abort();
}

/* ---- Connections ---- */

static pthread_key_t of_thread;

static void end_thread(void *value) {
    close((int)(intptr_t)value - 1);
    connection = -1;
}

/* A child process shares nothing with the server, whatever it has inherited. */
static void forget(void) {
    pthread_mutex_init(&opening, NULL);
    if (hands >= 0) close(hands);
    if (memory >= 0) close(memory);
    hands = memory = -1;
    stopping = stopped = 0;
    pthread_setspecific(of_thread, NULL);
}

__attribute__((constructor)) static void prepare(void) {
    pthread_key_create(&of_thread, end_thread);
    pthread_atfork(NULL, NULL, forget);
}

static int start_hands(void) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, lend_hands, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) pthread_detach(thread);
    return !error;
}

/* Open the driver, once for this process; 0 where there is no server. */
static int opened(void) {
    static const uint64_t mark = MAGIC; /* which the server reads to see that it can */
    const struct request open_request = {OP_OPEN, 0, (uintptr_t)&mark, 0};
    struct reply reply = {0, 0, 0, 0};
    pthread_mutex_lock(&opening);
    if (memory < 0) {
        int own = connection, file = -1;
        connection = -1;
        if (greet(VERSION, MAGIC) && call(&open_request, NULL, 0, -1, &reply, NULL, 0) && !reply.status &&
            receive_files(&file, 1) && !fstat(file, &memory_status)) {
            key = reply.value;
            hands = connection;
            memory = file;
            if (!start_hands()) forget();
        } else hang_up();
        connection = own;
    }
    int is_open = memory >= 0;
    pthread_mutex_unlock(&opening);
    return is_open;
}

/* This thread's own connection. */
static int joined(void) {
    const struct request join = {OP_JOIN, 0, key, 0};
    struct reply reply = {0, 0, 0, 0};
    if (connection >= 0) return 1;
    if (!opened() || !greet(VERSION, MAGIC)) return 0;
    if (!call(&join, NULL, 0, -1, &reply, NULL, 0) || reply.status) {
        hang_up();
        return 0;
    }
    pthread_setspecific(of_thread, (void *)(intptr_t)(connection + 1));
    return 1;
}

/* ---- Files ---- */

static const char *root(void) {
    const char *found = getenv(ROOT_VARIABLE);
    return found ? found : "";
}

/* Where a path leads: to the server's files, if it is of those. */
static const char *led(const char *path, char *buffer, size_t size) {
    static const char *const known[] = {"/sys/devices/virtual/kfd", "/sys/class/kfd", "/sys/module/amdgpu",
                                        "/proc/modules"};
    if (path && *root())
        for (size_t each = 0; each < sizeof known / sizeof *known; each++) {
            size_t length = strlen(known[each]);
            if (strncmp(path, known[each], length) || (path[length] && path[length] != '/')) continue;
            int used = snprintf(buffer, size, "%s%s", root(), path);
            return used >= 0 && (size_t)used < size ? buffer : path;
        }
    return path;
}

/* The number of a device: 0 is the driver, others are render nodes; -1 for what is none of ours. */
static long device(const char *path) {
    static const char render[] = "/dev/dri/renderD";
    if (!path || !*root()) return -1;
    if (!strcmp(path, "/dev/kfd")) return 0;
    if (strncmp(path, render, sizeof render - 1)) return -1;
    char *end;
    long number = strtol(path + sizeof render - 1, &end, 10);
    char folder[4096];
    int used = snprintf(folder, sizeof folder, "%s/dev/dri/renderD%ld", root(), number);
    return *end || used < 0 || (size_t)used >= sizeof folder || access(folder, F_OK) ? -1 : number;
}

static int open_device(long number, int flags) {
    REAL(int, "open", const char *, int, ...);
    char path[64];
    if (!opened()) {
        errno = ENODEV;
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    int file = real(path, O_RDWR | (flags & O_CLOEXEC));
    if (file >= 0 && lseek(file, number, SEEK_SET) < 0) {
        close(file);
        return -1;
    }
    return file;
}

#define TAKE_MODE                                                                                                      \
    va_list arguments;                                                                                                 \
    va_start(arguments, flags);                                                                                        \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;                                     \
    va_end(arguments);                                                                                                 \
    char buffer[4096];                                                                                                 \
    long number = device(path);                                                                                        \
    if (number >= 0) return open_device(number, flags)

#define OPEN(name)                                                                                                     \
    EXPORT int name(const char *path, int flags, ...) {                                                                \
        TAKE_MODE;                                                                                                     \
        REAL(int, #name, const char *, int, ...);                                                                      \
        return real(led(path, buffer, sizeof buffer), flags, mode);                                                    \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    EXPORT int name(int folder, const char *path, int flags, ...) {                                                    \
        TAKE_MODE;                                                                                                     \
        REAL(int, #name, int, const char *, int, ...);                                                                 \
        return real(folder, led(path, buffer, sizeof buffer), flags, mode);                                            \
    }
OPENAT(openat)
OPENAT(openat64)

EXPORT FILE *fopen(const char *path, const char *mode) {
    REAL(FILE *, "fopen", const char *, const char *);
    char buffer[4096];
    return real(led(path, buffer, sizeof buffer), mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
    REAL(FILE *, "fopen64", const char *, const char *);
    char buffer[4096];
    return real(led(path, buffer, sizeof buffer), mode);
}

EXPORT DIR *opendir(const char *path) {
    REAL(DIR *, "opendir", const char *);
    char buffer[4096];
    return real(led(path, buffer, sizeof buffer));
}

EXPORT int access(const char *path, int mode) {
    REAL(int, "access", const char *, int);
    char buffer[4096];
    return real(led(path, buffer, sizeof buffer), mode);
}

#define STAT(name, type)                                                                                               \
    EXPORT int name(const char *path, struct type *status) {                                                           \
        REAL(int, #name, const char *, struct type *);                                                                 \
        char buffer[4096];                                                                                             \
        return real(led(path, buffer, sizeof buffer), status);                                                         \
    }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

/* ---- Calls ---- */

/* Copy an ioctl's argument, through the kernel, so that an address that is none gives EFAULT; where that is forbidden,
 * without. */
static int copy_argument(void *data, void *argument, size_t size, int is_answer) {
    struct iovec here = {data, size}, there = {argument, size};
    if (!size) return 1;
    ssize_t done = is_answer ? process_vm_writev(getpid(), &here, 1, &there, 1, 0)
                             : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (done < 0 && (errno == EPERM || errno == ENOSYS)) {
        if (is_answer) memcpy(argument, data, size);
        else memcpy(data, argument, size);
        return 1;
    }
    return done == (ssize_t)size;
}

/* Which of our devices a descriptor is; -1 for none. */
static off_t device_of(int file) {
    struct stat status;
    if (memory < 0 || fstat(file, &status)) return -1;
    if (status.st_ino != memory_status.st_ino || status.st_dev != memory_status.st_dev) return -1;
    return lseek(file, 0, SEEK_CUR);
}

EXPORT int ioctl(int file, unsigned long number, ...) {
    va_list arguments;
    va_start(arguments, number);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    unsigned type = _IOC_TYPE(number);
    off_t which = type == 'K' || type == 'd' ? device_of(file) : -1;
    if (which < 0) return (int)syscall(SYS_ioctl, file, number, argument);
    char data[MOST_BYTES] = {0};
    struct reply reply = {0, 0, 0, 0};
    size_t size = _IOC_SIZE(number);
    if (size > sizeof data) return errno = EINVAL, -1;
    if (!copy_argument(data, argument, size, 0)) return errno = EFAULT, -1;
    if (!joined()) return errno = ENODEV, -1;
    const struct request request = {OP_IOCTL, (uint32_t)number, (uint64_t)which, size};
    if (!call(&request, data, size, -1, &reply, data, sizeof data)) return errno = ENODEV, -1;
    if (reply.status) return errno = (int)reply.status, -1;
    if (!copy_argument(data, argument, size, 1)) return errno = EFAULT, -1;
    return 0;
}
