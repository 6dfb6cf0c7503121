/* A host program of RefSi's driver, timed. KERNELS.elf has k_matmul_f32 and k_empty.
 *
 *   refsi_host KERNELS.elf matmul N      C = A B of N x N floats; seconds of the launch, and of everything
 *   refsi_host KERNELS.elf calls COUNT   median microseconds: submit and wait, launch and wait, read, allocate and free
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "refsidrv/refsidrv.h"

#define HOST REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0)
#define WINDOW UINT64_C(0x10000)
#define WINDOW_BYTES (UINT64_C(1) << 20)

static refsi_device_t device;
static uint8_t image[1 << 20];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(int is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void put(uint64_t address, const void *data, size_t size) {
    must(refsiWriteDeviceMemory(device, address, data, size, HOST) == refsi_success, "a write was refused");
}

struct buffer {
    uint64_t address, words[64];
    size_t count;
};

static void word(struct buffer *buffer, uint64_t value) { buffer->words[buffer->count++] = value; }

static void command(struct buffer *buffer, refsi_cmp_command_id opcode, uint32_t chunks, uint32_t inline_chunk) {
    word(buffer, refsiEncodeCMPCommand(opcode, chunks, inline_chunk));
}

static void set(struct buffer *buffer, uint32_t which, uint64_t value) {
    command(buffer, CMP_WRITE_REG64, 1, which);
    word(buffer, value);
}

static void place(struct buffer *buffer) {
    buffer->address = refsiAllocDeviceMemory(device, sizeof buffer->words, 4096, DRAM);
    put(buffer->address, buffer->words, buffer->count * 8);
}

static void run(const struct buffer *buffer) {
    must(refsiExecuteCommandBuffer(device, buffer->address, buffer->count * 8) == refsi_success, "not taken");
    refsiWaitForDeviceIdle(device);
}

/* Let kernels see some DRAM where the program was linked, and put it there. */
static void load(const char *path) {
    struct buffer buffer = {0};
    FILE *file = fopen(path, "rb");
    must(file && fread(image, 1, sizeof image, file) > sizeof(Elf64_Ehdr), "no kernels");
    fclose(file);
    set(&buffer, CMP_REG_WINDOW_BASE0, WINDOW);
    set(&buffer, CMP_REG_WINDOW_TARGET0, refsiAllocDeviceMemory(device, WINDOW_BYTES, 4096, DRAM));
    set(&buffer, CMP_REG_WINDOW_SCALE0, 0);
    set(&buffer, CMP_REG_WINDOW_MODE0, (WINDOW_BYTES - 1) << 32 | CMP_WINDOW_ACTIVE);
    command(&buffer, CMP_SYNC_CACHE, 0, CMP_CACHE_SYNC_ACC_DCACHE | CMP_CACHE_SYNC_ACC_ICACHE);
    command(&buffer, CMP_FINISH, 0, 0);
    place(&buffer);
    run(&buffer);
    const Elf64_Ehdr *header = (const void *)image;
    for (int each = 0; each < header->e_phnum; each++) {
        const Elf64_Phdr *segment = (const void *)(image + header->e_phoff + each * header->e_phentsize);
        if (segment->p_type == PT_LOAD) put(segment->p_vaddr, image + segment->p_offset, segment->p_filesz);
    }
}

static uint64_t symbol(const char *name) {
    const Elf64_Ehdr *header = (const void *)image;
    const Elf64_Shdr *sections = (const void *)(image + header->e_shoff);
    for (int each = 0; each < header->e_shnum; each++) {
        if (sections[each].sh_type != SHT_SYMTAB) continue;
        const char *names = (const char *)image + sections[sections[each].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(image + sections[each].sh_offset);
        for (uint64_t at = 0; at < sections[each].sh_size / sizeof *symbols; at++)
            if (!strcmp(names + symbols[at].st_name, name)) return symbols[at].st_value;
    }
    must(0, "no such kernel");
    return 0;
}

static struct buffer launch(const char *kernel, uint64_t instances, int count, const uint64_t *arguments) {
    struct buffer buffer = {0};
    set(&buffer, CMP_REG_ENTRY_PT_FN, symbol(kernel));
    set(&buffer, CMP_REG_STACK_TOP, 0x48000000);
    set(&buffer, CMP_REG_RETURN_ADDR, 0xdead0000);
    command(&buffer, CMP_RUN_INSTANCES, 1 + count, (uint32_t)count << 8);
    word(&buffer, instances);
    for (int each = 0; each < count; each++) word(&buffer, arguments[each]);
    command(&buffer, CMP_FINISH, 0, 0);
    place(&buffer);
    return buffer;
}

static void matmul(size_t n, double began) {
    size_t bytes = n * n * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    uint64_t arguments[4] = {0, 0, 0, n};
    for (int each = 0; each < 3; each++) arguments[each] = refsiAllocDeviceMemory(device, bytes, 4096, DRAM);
    for (size_t each = 0; each < n * n; each++) {
        a[each] = (float)(each * 7 % 201) - 100;
        b[each] = (float)(each * 11 % 203) - 101;
    }
    put(arguments[0], a, bytes);
    put(arguments[1], b, bytes);
    struct buffer buffer = launch("k_matmul_f32", n, 4, arguments);
    double launched = now();
    run(&buffer);
    double ran = now() - launched;
    must(!refsiReadDeviceMemory(device, (uint8_t *)c, arguments[2], bytes, HOST), "a read was refused");
    printf("%.4f %.4f\n", ran, now() - began);
    for (size_t row = 0; row < n; row += 31)
        for (size_t column = 0; column < n; column++) {
            float sum = 0;
            for (size_t each = 0; each < n; each++) sum += a[row * n + each] * b[each * n + column];
            must(sum == c[row * n + column], "a wrong product");
        }
}

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, by_size);
    return seconds[count / 2] * 1e6;
}

static void calls(int count) {
    double *seconds = malloc((size_t)count * sizeof *seconds);
    struct buffer empty = {0}, kernel = launch("k_empty", 4, 0, NULL);
    uint64_t value = 0;
    command(&empty, CMP_FINISH, 0, 0);
    place(&empty);
    for (int what = 0; what < 4; what++) {
        for (int each = -count / 4; each < count; each++) {
            double before = now();
            if (what == 0) run(&empty);
            else if (what == 1) run(&kernel);
            else if (what == 2) refsiReadDeviceMemory(device, (uint8_t *)&value, empty.address, sizeof value, HOST);
            else refsiFreeDeviceMemory(device, refsiAllocDeviceMemory(device, 4096, 4096, DRAM));
            if (each >= 0) seconds[each] = now() - before;
        }
        printf("%.3f ", median(seconds, count));
    }
    printf("\n");
}

int main(int count, char **arguments) {
    double began = now();
    must(count == 4, "refsi_host KERNELS.elf matmul|calls NUMBER");
    must(refsiInitialize() == refsi_success && (device = refsiOpenDevice(REFSI_M)) != NULL, "no device");
    load(arguments[1]);
    if (!strcmp(arguments[2], "matmul")) matmul((size_t)atoi(arguments[3]), began);
    else calls(atoi(arguments[3]));
    return refsiTerminate();
}
