/* Gives unmodified ROCm programs a kernel driver: loaded before their libraries, this sends what they do with /dev/kfd
 * and /dev/dri/renderD* to a server, and shows them its files in place of sysfs. It knows nothing of GPUs: ioctls go as
 * they are, and their memory is one file, so that mmap needs no help.
 *
 * A descriptor of a device is one of that file; which device it is stands in its position, which duplicates share.
 */
#define SOCKET_VARIABLE "SOFTCARD_ROCM_SOCKET"
#define ROOT_VARIABLE "SOFTCARD_ROCM_ROOT"
#define ORDER_VARIABLE "SOFTCARD_ROCM_HOST_ORDER"
#define SERVER "softcard exec --device rocm"
#define OF_THREAD _Thread_local
#include "host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#if defined(__has_include)
#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#endif
#endif

enum { OP_OPEN = 2, OP_JOIN = 3, OP_IOCTL = 4, OP_SHARE = 5, OP_REFUSED = 6, OP_PINNED = 7, OP_UNPINNED = 8 };
enum { OP_SUBMITTED = 9, OP_HOST_FUNCTION = 10, OP_TOUCHED = 11, OP_UNWATCHED = 12 };
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
static pid_t fault_thread; /* which other threads may wait for in the kernel: it is not stopped */

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
            int is_known = !thread || thread == me || thread == fault_thread;
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

/* Copy the present pages of a range of this process's memory: absent ones are zeros on both sides. */
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
    say("error", GONE, "the server has gone, and the GPUs of this program with it");
    abort();
}

/* ---- Connections ---- */

static pthread_key_t of_thread;

static void end_thread(void *value) {
    close((int)(intptr_t)value - 1);
    connection = -1;
}

static void forget_watched(void);

/* A child process shares nothing with the server, whatever it has inherited. */
static void forget(void) {
    pthread_mutex_init(&opening, NULL);
    if (hands >= 0) close(hands);
    if (memory >= 0) close(memory);
    hands = memory = -1;
    forget_watched();
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
                                        "/sys/class/drm", "/proc/modules"};
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

/* ---- Launches that the run-time library refuses ---- */

struct wanted {
    const char *library;
    void *found;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *wanted) {
    struct wanted *one = wanted;
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, one->library)) return 0;
    one->found = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return 1;
}

/* Return a function of a library that the program may have loaded with RTLD_LOCAL; NULL if there is none. */
static void *of_library(const char *library, const char *name) {
    struct wanted wanted = {library, NULL};
    void *found = dlsym(RTLD_NEXT, name);
    if (!found && dl_iterate_phdr(note_library, &wanted) && wanted.found) {
        found = dlsym(wanted.found, name);
        dlclose(wanted.found);
    }
    return found;
}

static void *of_hip(const char *name) { return of_library("/libamdhip64.so", name); }

/* ---- Waits that do not spin ----
 *
 * HIP waits for copies in a loop, which is fastest beside a GPU. Here that loop would take a processor from the kernels
 * that it waits for. The run-time library's other way to wait is to sleep until the driver reports an event. */

enum { WAITS_BLOCKED = 0 }; /* HSA_WAIT_STATE_BLOCKED */
typedef int64_t signal_wait(uint64_t signal, int condition, int64_t value, uint64_t timeout, int state);

#define WAIT(name)                                                                                                     \
    EXPORT int64_t name(uint64_t signal, int condition, int64_t value, uint64_t timeout, int state) {                  \
        static signal_wait *real;                                                                                      \
        (void)state;                                                                                                   \
        if (!real) real = (signal_wait *)of_library("/libhsa-runtime64.so", #name);                                    \
        if (!real) abort(); /* its caller was linked to it */                                                          \
        return real(signal, condition, value, timeout, WAITS_BLOCKED);                                                 \
    }
WAIT(hsa_signal_wait_scacquire)
WAIT(hsa_signal_wait_relaxed)

/* A request; the value of the answer, 0 where none came. The program's errno stays. */
static uint64_t tell(uint32_t op, uint32_t value, uint64_t address, uint64_t size) {
    int known = errno;
    struct reply reply = {0, 0, 0, 0};
    if (memory >= 0 && joined()) {
        const struct request request = {op, value, address, size};
        if (!call(&request, NULL, 0, -1, &reply, NULL, 0)) reply.value = 0;
    }
    errno = known;
    return reply.value;
}

/* Whether the server compares what the host does to its memory with what the GPU does. */
static int is_order_checked(void) {
    static int known = -1;
    if (known < 0) {
        const char *found = getenv(ORDER_VARIABLE);
        known = found && *found;
    }
    return known;
}

/* ---- Accesses of the program to memory that work is to access ----
 *
 * While work waits, the pages of such memory are not mapped, so that the first access to each is a minor fault
 * (userfaultfd), also where the kernel makes it in a system call. A thread reports it to the server and maps the page. */

static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;
enum { MOST_WATCHED = 4096 };
static struct {
    uint64_t start, end; /* whole pages */
} watched[MOST_WATCHED];
static int watched_count;
static int faults = -1; /* of userfaultfd; -2 where there is none */

#ifdef UFFD_FEATURE_EXACT_ADDRESS

static void *serve_faults(void *unused) {
    struct uffd_msg message;
    ssize_t got;
    (void)unused;
    __atomic_store_n(&fault_thread, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    int own = faults;
    while ((got = read(own, &message, sizeof message)) == (ssize_t)sizeof message || errno == EINTR || errno == EAGAIN) {
        if (got != (ssize_t)sizeof message || message.event != UFFD_EVENT_PAGEFAULT) continue;
        uint64_t address = message.arg.pagefault.address;
        /* The server's reads of this memory fault, too. */
        int is_own = !syscall(SYS_tgkill, getpid(), (pid_t)message.arg.pagefault.feat.ptid, 0);
        if (is_own) tell(OP_TOUCHED, !!(message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE), address, 0);
        struct uffdio_continue page = {{address & ~(PAGE - 1), PAGE}, 0, 0};
        struct uffdio_range again = page.range;
        if (syscall(SYS_ioctl, own, UFFDIO_CONTINUE, &page)) syscall(SYS_ioctl, own, UFFDIO_WAKE, &again);
    }
    return NULL;
}

/* Whether accesses can be seen; the first time, begin to. */
static int sees_accesses(void) {
    if (faults != -1) return faults >= 0;
    struct uffdio_api api = {UFFD_API, UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_EXACT_ADDRESS | UFFD_FEATURE_THREAD_ID, 0};
    sigset_t all, before;
    pthread_t thread;
    int made = (int)syscall(SYS_userfaultfd, O_CLOEXEC), error = made < 0 ? errno : 0;
    if (!error && syscall(SYS_ioctl, made, UFFDIO_API, &api)) error = errno;
    if (!error) {
        faults = made;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&thread, NULL, serve_faults, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!error) {
        pthread_detach(thread);
        while (!__atomic_load_n(&fault_thread, __ATOMIC_SEQ_CST)) sched_yield();
        return 1;
    }
    if (made >= 0) close(made);
    faults = -2;
    tell(OP_UNWATCHED, (uint32_t)error, 0, 0);
    return 0;
}

/* Have the next access to each page between two addresses fault. They are shared with the server, so that their
 * contents stay. */
static void unmap_pages(uint64_t start, uint64_t end) {
    struct uffdio_register asked = {{start, end - start}, UFFDIO_REGISTER_MODE_MINOR, 0};
    if (!syscall(SYS_ioctl, faults, UFFDIO_REGISTER, &asked)) madvise((void *)start, end - start, MADV_DONTNEED);
}

/* The same of a mapping, as far as it is watched. */
static void unmap_watched(uint64_t start, uint64_t end) {
    for (int each = 0; each < watched_count; each++) {
        uint64_t first = watched[each].start > start ? watched[each].start : start;
        uint64_t last = watched[each].end < end ? watched[each].end : end;
        if (first < last) unmap_pages(first, last);
    }
}

/* Work waits. Other memory than the server's is left alone: private pages would lose their contents. */
static void watch_accesses(void) {
    static const char name[] = "/memfd:softcard-gpu";
    pthread_mutex_lock(&watching);
    FILE *maps = watched_count && sees_accesses() ? fopen("/proc/self/maps", "re") : NULL;
    char line[4352], mode[8];
    unsigned long start, end;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, name) && sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && mode[3] == 's')
            unmap_watched(start, end);
    if (maps) fclose(maps);
    pthread_mutex_unlock(&watching);
}

static void stop_watching(uint64_t start, uint64_t end) {
    struct uffdio_range range = {start, end - start};
    if (faults >= 0) syscall(SYS_ioctl, faults, UFFDIO_UNREGISTER, &range);
}

#else

static void watch_accesses(void) {
    if (faults != -1) return;
    faults = -2;
    tell(OP_UNWATCHED, ENOSYS, 0, 0);
}

static void stop_watching(uint64_t start, uint64_t end) { (void)start, (void)end; }

#endif

static void watch(int error, void *address, size_t size) {
    uint64_t start = (uintptr_t)address & ~(PAGE - 1), end = ((uintptr_t)address + size + PAGE - 1) & ~(PAGE - 1);
    if (error || !address || !size || !is_order_checked()) return;
    pthread_mutex_lock(&watching);
    int is_full = watched_count == MOST_WATCHED;
    if (!is_full) watched[watched_count].start = start, watched[watched_count++].end = end;
    pthread_mutex_unlock(&watching);
    if (is_full) tell(OP_UNWATCHED, ENOSPC, 0, 0);
}

static void unwatch(void *address) {
    uint64_t start = (uintptr_t)address & ~(PAGE - 1);
    pthread_mutex_lock(&watching);
    for (int each = watched_count - 1; each >= 0; each--)
        if (watched[each].start == start) {
            stop_watching(start, watched[each].end);
            watched[each] = watched[--watched_count];
            break;
        }
    pthread_mutex_unlock(&watching);
}

static void forget_watched(void) {
    pthread_mutex_init(&watching, NULL);
    if (faults >= 0) close(faults);
    faults = -1;
    fault_thread = 0;
    watched_count = 0;
}

/* Work was given to a stream. The host's stores so far come before it, those from here on do not. */
static int submitted(int error) {
    if (!error && is_order_checked() && tell(OP_SUBMITTED, 0, 0, 0)) watch_accesses();
    return error;
}

/* A launch: tell the server of one of which no packet comes, since the library refuses it. */
static int told(int error) {
    if (error) tell(OP_REFUSED, (uint32_t)error, 0, 0);
    return submitted(error);
}

struct dim3 {
    uint32_t x, y, z;
};

#define NOT_INITIALIZED 3 /* hipErrorNotInitialized */

#define HIP(name, parameters, before, result)                                                                          \
    EXPORT int name parameters {                                                                                       \
        static int (*real) parameters;                                                                                 \
        if (!real) real = (int(*) parameters)of_hip(#name);                                                            \
        if (!real) return NOT_INITIALIZED;                                                                             \
        before;                                                                                                        \
        return result;                                                                                                 \
    }
#define LAUNCH(name, parameters, arguments) HIP(name, parameters, (void)0, told(real arguments))
#define OF_FUNCTION (const void *kernel, struct dim3 grid, struct dim3 block, void **values, size_t lds, void *stream)
LAUNCH(hipLaunchKernel, OF_FUNCTION, (kernel, grid, block, values, lds, stream))
LAUNCH(hipLaunchKernel_spt, OF_FUNCTION, (kernel, grid, block, values, lds, stream))
#define COOPERATIVE (const void *kernel, struct dim3 grid, struct dim3 block, void **values, unsigned lds, void *stream)
LAUNCH(hipLaunchCooperativeKernel, COOPERATIVE, (kernel, grid, block, values, lds, stream))
LAUNCH(hipLaunchCooperativeKernel_spt, COOPERATIVE, (kernel, grid, block, values, lds, stream))
LAUNCH(hipExtLaunchKernel,
       (const void *kernel, struct dim3 grid, struct dim3 block, void **values, size_t lds, void *stream, void *start,
        void *stop, int flags),
       (kernel, grid, block, values, lds, stream, start, stop, flags))
LAUNCH(hipModuleLaunchKernel,
       (void *kernel, unsigned x, unsigned y, unsigned z, unsigned of_x, unsigned of_y, unsigned of_z, unsigned lds,
        void *stream, void **values, void **extra),
       (kernel, x, y, z, of_x, of_y, of_z, lds, stream, values, extra))

/* ---- Copies and other work of streams ---- */

#define SUBMIT(name, parameters, arguments) HIP(name, parameters, (void)0, submitted(real arguments))
#define COPY (void *to, const void *from, size_t size, int kind, void *stream)
SUBMIT(hipMemcpyAsync, COPY, (to, from, size, kind, stream))
SUBMIT(hipMemcpyAsync_spt, COPY, (to, from, size, kind, stream))
SUBMIT(hipMemcpyHtoDAsync, (void *to, void *from, size_t size, void *stream), (to, from, size, stream))
SUBMIT(hipMemcpyDtoHAsync, (void *to, void *from, size_t size, void *stream), (to, from, size, stream))
SUBMIT(hipMemcpyDtoDAsync, (void *to, void *from, size_t size, void *stream), (to, from, size, stream))
SUBMIT(hipMemcpy2DAsync,
       (void *to, size_t to_pitch, const void *from, size_t pitch, size_t width, size_t height, int kind, void *stream),
       (to, to_pitch, from, pitch, width, height, kind, stream))
SUBMIT(hipMemcpyParam2DAsync, (const void *box, void *stream), (box, stream))
SUBMIT(hipMemcpy3DAsync, (const void *box, void *stream), (box, stream))
SUBMIT(hipMemcpyToSymbolAsync,
       (const void *symbol, const void *from, size_t size, size_t offset, int kind, void *stream),
       (symbol, from, size, offset, kind, stream))
SUBMIT(hipGraphLaunch, (void *graph, void *stream), (graph, stream))

/* ---- Memory of the host that GPUs access ---- */

static void pin_word(void *address, size_t size) {
    if (is_order_checked()) tell(OP_PINNED, 0, (uintptr_t)address, size);
}

static int pinned(int error, void *address, size_t size) {
    if (!error) pin_word(address, size);
    watch(error, address, size);
    return error;
}

static int allocated(int error, void *address, size_t size) {
    watch(error, address, size);
    return error;
}

static void unpin(void *address) {
    if (!address || !is_order_checked()) return;
    tell(OP_UNPINNED, 0, (uintptr_t)address, 0);
    unwatch(address);
}

#define PIN(name, parameters, arguments, address)                                                                      \
    HIP(name, parameters, int error = real arguments, pinned(error, address, size))
PIN(hipHostMalloc, (void **address, size_t size, unsigned flags), (address, size, flags), error ? NULL : *address)
PIN(hipHostAlloc, (void **address, size_t size, unsigned flags), (address, size, flags), error ? NULL : *address)
PIN(hipMallocHost, (void **address, size_t size), (address, size), error ? NULL : *address)
PIN(hipMemAllocHost, (void **address, size_t size), (address, size), error ? NULL : *address)
PIN(hipMallocManaged, (void **address, size_t size, unsigned flags), (address, size, flags), error ? NULL : *address)
PIN(hipExtMallocWithFlags, (void **address, size_t size, unsigned flags), (address, size, flags),
    error ? NULL : *address)
PIN(hipHostRegister, (void *address, size_t size, unsigned flags), (address, size, flags), address)
HIP(hipMalloc, (void **address, size_t size), int error = real(address, size),
    allocated(error, error ? NULL : *address, size))
#define UNPIN(name) HIP(name, (void *address), unpin(address), real(address))
UNPIN(hipHostFree)
UNPIN(hipFreeHost)
UNPIN(hipHostUnregister)
UNPIN(hipFree)

/* ---- Functions of the host in streams ---- */

/* What a program passes to hipStreamAddCallback or hipLaunchHostFunc. A graph may call it often: nothing frees it. */
struct host_function {
    void (*of_stream)(void *stream, int status, void *data);
    void (*function)(void *data);
    void *data;
};

/* What the function did comes before what the stream does next. */
static void run_of_stream(void *stream, int status, void *data) {
    const struct host_function *found = data;
    found->of_stream(stream, status, found->data);
    tell(OP_HOST_FUNCTION, 0, 0, 0);
}

static void run_function(void *data) {
    const struct host_function *found = data;
    found->function(found->data);
    tell(OP_HOST_FUNCTION, 0, 0, 0);
}

static struct host_function *kept(void (*of_stream)(void *, int, void *), void (*function)(void *), void *data) {
    struct host_function *made = is_order_checked() && (of_stream || function) ? malloc(sizeof *made) : NULL;
    if (made) *made = (struct host_function){of_stream, function, data};
    return made;
}

HIP(hipStreamAddCallback, (void *stream, void (*function)(void *, int, void *), void *data, unsigned flags),
    struct host_function *own = kept(function, NULL, data),
    own ? real(stream, run_of_stream, own, flags) : real(stream, function, data, flags))
HIP(hipLaunchHostFunc, (void *stream, void (*function)(void *), void *data),
    struct host_function *own = kept(NULL, function, data),
    own ? real(stream, run_function, own) : real(stream, function, data))

/* hipHostNodeParams */
struct host_node {
    void (*function)(void *data);
    void *data;
};

/* What a graph gets in place of a program's function of the host. */
static const struct host_node *wrapped(const struct host_node *given, struct host_node *room) {
    struct host_function *own = given ? kept(NULL, given->function, given->data) : NULL;
    if (!own) return given;
    *room = (struct host_node){run_function, own};
    return room;
}

HIP(hipGraphAddHostNode,
    (void **node, void *graph, const void *const *before, size_t count, const struct host_node *what),
    struct host_node room, real(node, graph, before, count, wrapped(what, &room)))
HIP(hipGraphHostNodeSetParams, (void *node, const struct host_node *what), struct host_node room,
    real(node, wrapped(what, &room)))
HIP(hipGraphExecHostNodeSetParams, (void *graph, void *node, const struct host_node *what), struct host_node room,
    real(graph, node, wrapped(what, &room)))

/* A stream waits until the host stores a value: the word is memory that both access. */
#define WAIT_VALUE(name, type)                                                                                         \
    HIP(name, (void *stream, void *at, type value, unsigned flags, type mask), pin_word(at, sizeof value),             \
        submitted(real(stream, at, value, flags, mask)))
WAIT_VALUE(hipStreamWaitValue32, uint32_t)
WAIT_VALUE(hipStreamWaitValue64, uint64_t)
