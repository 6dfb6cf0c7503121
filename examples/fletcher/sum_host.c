/* A Fletcher host program without the Fletcher run-time: it finds a platform library the way the run-time does, and makes
 * the calls that the run-time makes for the Sum example. It knows nothing of Softcard.
 *
 *     cc -O2 sum_host.c -o sum_host -ldl
 *     ./sum_host                 detect a platform, sum 1 -3 3 -7
 *     ./sum_host NAME            use libfletcher_NAME.so
 *     ./sum_host NAME N...       sum these numbers
 *     ./sum_host --time NAME     how long a register access takes
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTROL = 0, STATUS, RETURN0, RETURN1, FIRST_INDEX, LAST_INDEX, VALUES_LOW, VALUES_HIGH };
enum { START = 1, DONE = 4 };
enum { ROUNDS = 20, READS = 2000 };

static struct {
    uint64_t (*get_name)(char *, size_t);
    uint64_t (*init)(void *);
    uint64_t (*write_mmio)(uint64_t, uint32_t);
    uint64_t (*read_mmio)(uint64_t, uint32_t *);
    uint64_t (*device_malloc)(uint64_t *, int64_t);
    uint64_t (*device_free)(uint64_t);
    uint64_t (*copy_host_to_device)(const uint8_t *, uint64_t, int64_t);
    uint64_t (*copy_device_to_host)(uint64_t, uint8_t *, int64_t);
    uint64_t (*prepare_host_buffer)(const uint8_t *, uint64_t *, int64_t, int *);
    uint64_t (*cache_host_buffer)(const uint8_t *, uint64_t *, int64_t);
    uint64_t (*terminate)(void *);
} platform;

static const char *const names[] = {
    "platformGetName",          "platformInit",          "platformWriteMMIO",         "platformReadMMIO",
    "platformDeviceMalloc",     "platformDeviceFree",    "platformCopyHostToDevice",  "platformCopyDeviceToHost",
    "platformPrepareHostBuffer", "platformCacheHostBuffer", "platformTerminate",
};

static void check(uint64_t status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "%s gave status %" PRIu64 "\n", what, status);
    exit(1);
}

/* Load libfletcher_NAME.so and look all its functions up; 0 where that fails. */
static int link_platform(const char *name) {
    char file[256];
#ifdef __APPLE__
    snprintf(file, sizeof file, "libfletcher_%s.dylib", name);
#else
    snprintf(file, sizeof file, "libfletcher_%s.so", name);
#endif
    void *library = dlopen(file, RTLD_NOW);
    if (!library) return 0;
    void **functions = (void **)&platform;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        functions[i] = dlsym(library, names[i]);
        if (!functions[i]) return 0;
    }
    return 1;
}

/* The platform called `name`, or without one the first that the run-time would try. */
static void find_platform(const char *name) {
    static const char *const known[] = {"oc-accel", "snap", "aws", "echo"};
    if (name && link_platform(name)) return;
    for (size_t i = 0; !name && i < sizeof known / sizeof *known; i++)
        if (link_platform(known[i])) return;
    fprintf(stderr, "no platform library %s: %s\n", name ? name : "of a known name", dlerror());
    exit(2);
}

static void write_register(uint64_t index, uint32_t value) { check(platform.write_mmio(index, value), "WriteMMIO"); }

static uint32_t read_register(uint64_t index) {
    uint32_t value = 0;
    check(platform.read_mmio(index, &value), "ReadMMIO");
    return value;
}

static int64_t sum(const int64_t *numbers, uint32_t count) {
    uint64_t address = 0;
    int alloced = 0;
    check(platform.prepare_host_buffer((const uint8_t *)numbers, &address, count * (int64_t)sizeof *numbers, &alloced),
          "PrepareHostBuffer");
    write_register(FIRST_INDEX, 0);
    write_register(LAST_INDEX, count);
    write_register(VALUES_LOW, (uint32_t)address);
    write_register(VALUES_HIGH, (uint32_t)(address >> 32));
    write_register(CONTROL, START);
    write_register(CONTROL, 0);
    while (!(read_register(STATUS) & DONE)) {
    }
    uint64_t low = read_register(RETURN0), high = read_register(RETURN1);
    if (alloced) check(platform.device_free(address), "DeviceFree");
    return (int64_t)(high << 32 | low);
}

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) { return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b); }

/* Best and typical microseconds of an access, each the median of many. */
static void measure(void) {
    static double reads[READS], writes[READS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < READS; i++) {
            double start = now_us();
            read_register(STATUS);
            double middle = now_us();
            write_register(LAST_INDEX, 0);
            reads[i] = middle - start;
            writes[i] = now_us() - middle;
        }
        qsort(reads, READS, sizeof *reads, compare);
        qsort(writes, READS, sizeof *writes, compare);
        printf("%.3f %.3f %.3f %.3f\n", reads[READS / 2], reads[READS * 99 / 100], writes[READS / 2],
               writes[READS * 99 / 100]);
    }
}

int main(int argc, char **argv) {
    static const int64_t example[] = {1, -3, 3, -7};
    int timing = argc > 1 && strcmp(argv[1], "--time") == 0;
    char name[64];
    find_platform(argc > 1 + timing ? argv[1 + timing] : NULL);
    check(platform.get_name(name, sizeof name), "GetName");
    check(platform.init(NULL), "Init");
    if (timing) measure();
    else if (argc > 2) {
        uint32_t count = (uint32_t)argc - 2;
        int64_t *numbers = malloc(count * sizeof *numbers);
        if (!numbers) return 1;
        for (uint32_t i = 0; i < count; i++) numbers[i] = strtoll(argv[2 + i], NULL, 0);
        printf("%s: sum = %" PRId64 "\n", name, sum(numbers, count));
        free(numbers);
    } else printf("%s: sum = %" PRId64 "\n", name, sum(example, 4));
    check(platform.terminate(NULL), "Terminate");
    return 0;
}
