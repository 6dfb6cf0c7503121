/* Programs without ROCm that open the kernel driver: the argument says what to do, and what came of it is written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSION _IOR('K', 0x01, uint32_t[2])
#define ALLOCATE _IOWR('K', 0x16, struct allocation)
#define MAP _IOWR('K', 0x18, struct mapping)
#define WAIT _IOWR('K', 0x0C, struct waiting)
#define EVENT _IOWR('K', 0x08, uint32_t[8])
#define SET _IOW('K', 0x0A, uint32_t[2])
#define WRITABLE (1u << 31)
enum { PAGE = 4096, GTT = 2, USERPTR = 4, THREADS = 4, GPU = 0x1234 };

struct allocation {
    uint64_t address, size, handle, offset;
    uint32_t gpu, flags;
};
struct mapping {
    uint64_t handle, gpus;
    uint32_t count, done;
};
struct waiting {
    uint64_t events;
    uint32_t count, all, timeout, result;
};

static int opened(void) {
    int file = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (file < 0) {
        perror("/dev/kfd");
        exit(2);
    }
    return file;
}

static uint64_t allocate(int file, uint64_t address, uint64_t size, uint32_t flags, uint64_t offset) {
    struct allocation made = {address, size, 0, offset, GPU, flags | WRITABLE};
    uint32_t gpu = GPU;
    if (ioctl(file, ALLOCATE, &made)) return perror("allocate"), 0;
    struct mapping mapped = {made.handle, (uintptr_t)&gpu, 1, 0};
    if (ioctl(file, MAP, &mapped) || mapped.done != 1) return perror("map"), 0;
    return made.offset;
}

static void say_version(int file) {
    uint32_t version[2] = {0, 0};
    int result = ioctl(file, VERSION, version);
    printf("version %d %u.%u\n", result, version[0], version[1]);
    fflush(stdout);
}

static void versions(void) {
    int file = opened(), other = dup(file), render = open64("/dev/dri/renderD128", O_RDWR);
    say_version(file);
    close(file);
    say_version(other);
    uint32_t room[2];
    int refused = ioctl(render, VERSION, room) < 0 ? errno : 0;
    int missing = open("/dev/dri/renderD200", O_RDWR) < 0 ? errno : 0;
    printf("render %d, another %d, ", refused, missing);
    printf("no device %d\n", ioctl(1, VERSION, room) < 0 ? errno : 0);
    refused = ioctl(other, VERSION, (void *)8) < 0 ? errno : 0;
    printf("bad pointer %d, unknown %d\n", refused, ioctl(other, _IO('K', 0x70)) < 0 ? errno : 0);
}

static void files(void) {
    char text[64] = "";
    struct stat status;
    FILE *id = fopen("/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id", "r");
    printf("gpu_id %s", id && fgets(text, sizeof text, id) ? text : "missing\n");
    printf("access %d, stat %d, another's %d\n", access("/sys/module/amdgpu/initstate", R_OK),
           stat("/sys/devices/virtual/kfd/kfd/topology", &status), access("/sys/devices/virtual/kfdx", R_OK));
    fflush(stdout);
    printf("lsmod %d\n", system("lsmod | grep -q amdgpu"));
}

static void memory(void) {
    int file = opened();
    uint64_t address = 0x7e0000000000ull, offset = allocate(file, address, 2 * PAGE, GTT, 0);
    char *here = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    strcpy(here + PAGE, "from the program");
    printf("written\n");
    fflush(stdout);
    getchar();
    printf("%s\n", here);
}

static volatile uint64_t *counters;
static volatile int is_over;

static void *count(void *which) {
    uint64_t mine = 0, number = (uintptr_t)which;
    while (!is_over) counters[number * 8] = ++mine; /* each store must be seen */
    return (void *)(uintptr_t)(counters[number * 8] == mine);
}

/* Pages that the program writes to all the time become shared. */
static void sharing(void) {
    int file = opened(), kept = 0;
    char *pages = aligned_alloc(PAGE, 4 * PAGE);
    memset(pages, 'x', 4 * PAGE);
    counters = (void *)(pages + PAGE);
    pthread_t threads[THREADS];
    for (uintptr_t each = 0; each < THREADS; each++) pthread_create(&threads[each], 0, count, (void *)each);
    uint64_t before[THREADS], lost = 0, none = counters[THREADS * 8]; /* of x's, as all are before their thread begins */
    for (int each = 0; each < THREADS; each++)
        while (counters[each * 8] == none) usleep(100);
    allocate(file, 0x7e0000000000ull, 4 * PAGE, USERPTR, (uintptr_t)pages);
    printf("pinned\n");
    fflush(stdout);
    while (getchar() == 'c') { /* counts may only rise */
        for (int each = 0; each < THREADS; each++) before[each] = counters[each * 8];
        usleep(1000);
        for (int each = 0; each < THREADS; each++) lost += counters[each * 8] < before[each];
    }
    is_over = 1;
    for (int each = 0; each < THREADS; each++) {
        void *same;
        pthread_join(threads[each], &same);
        kept += (int)(uintptr_t)same;
    }
    printf("kept %d, lost %llu, %c%c\n", kept, (unsigned long long)lost, pages[0], pages[4 * PAGE - 1]);
}

static void children(void) {
    int file = opened(), status = 0;
    say_version(file);
    pid_t child = fork();
    if (!child) {
        uint32_t version[2];
        printf("inherited %d\n", ioctl(file, VERSION, version) < 0 ? errno : 0);
        say_version(opened());
        exit(0);
    }
    waitpid(child, &status, 0);
    say_version(file);
}

static int shared_file;
static uint32_t event[8];

static void *wait_for_event(void *unused) {
    uint8_t data[48] = {0};
    memcpy(data + 40, &event[6], 4);
    struct waiting wait = {(uintptr_t)data, 1, 0, 0xFFFFFFFF, 9};
    (void)unused;
    int result = ioctl(shared_file, WAIT, &wait);
    return (void *)(uintptr_t)(result ? 99 : wait.result);
}

static void waiting(void) {
    pthread_t threads[2];
    void *result = 0;
    shared_file = opened();
    ioctl(shared_file, EVENT, event);
    for (int each = 0; each < 2; each++) pthread_create(&threads[each], 0, wait_for_event, 0);
    uint32_t set[2] = {event[6], 0};
    usleep(10000);
    ioctl(shared_file, SET, set);
    for (int each = 0; each < 2; each++) {
        pthread_join(threads[each], &result);
        printf("waited %d\n", (int)(uintptr_t)result);
    }
}

static void hold(void) { /* until somebody kills it */
    int file = opened();
    allocate(file, 0x7e0000000000ull, 64 * PAGE, GTT, 0);
    say_version(file);
    for (;;) pause();
}

int main(int count, char **names) {
    const struct {
        const char *name;
        void (*run)(void);
    } known[] = {{"versions", versions}, {"files", files},       {"memory", memory}, {"sharing", sharing},
                 {"children", children}, {"waiting", waiting}, {"hold", hold}};
    for (size_t each = 0; each < sizeof known / sizeof *known; each++)
        if (count > 1 && !strcmp(names[1], known[each].name)) return known[each].run(), 0;
    return 2;
}
