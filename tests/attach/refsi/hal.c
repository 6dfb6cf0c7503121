/* Drives a device as hosts of the reference driver do: windows whose SCALE_A is the driver's, the program through window 0,
 * each hart's execution state by DMA through window 1's target, launch and exit stubs, RUN_INSTANCES.
 * Usage: hal PROGRAM GROUPS [mapped]; PROGRAM begins with the exit stub, the launch stub at 64 and the kernel at 128. */
#include <refsidrv/refsidrv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELF = 0x10000, ELF_SIZE = 0x7ff0000, HART = 0x14000000, TCDM_HART = 0x10200000, SHARE = 0x80000, DMA = 0x20002000 };
enum { STATE = 192, KERNEL_ENTRY = 152, PACKED_ARGS = 160, MAGIC = 168, COUNT = 8 };

static uint64_t words[256];
static unsigned used;

static void command(refsi_cmp_command_id opcode, uint32_t inline_chunk, unsigned count, const uint64_t *chunks) {
    words[used++] = refsiEncodeCMPCommand(opcode, count, inline_chunk);
    for (unsigned each = 0; each < count; each++) words[used++] = chunks[each];
}

static void write_register(uint32_t number, uint64_t value) { command(CMP_WRITE_REG64, number, 1, &value); }
static void store(uint32_t address, uint64_t value) { command(CMP_STORE_IMM64, address, 1, &value); }

static void window(unsigned n, uint64_t base, uint64_t target, uint64_t mode, uint64_t scale, uint64_t size) {
    write_register(CMP_REG_WINDOW_BASE0 + n, base);
    write_register(CMP_REG_WINDOW_TARGET0 + n, target);
    write_register(CMP_REG_WINDOW_SCALE0 + n, scale);
    write_register(CMP_REG_WINDOW_MODE0 + n, CMP_WINDOW_ACTIVE | mode | (size - 1) << 32);
}

static void put(refsi_device_t device, refsi_addr_t address, const void *data, size_t size) {
    if (refsiWriteDeviceMemory(device, address, data, size, REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0))) exit(11);
}

static void submit(refsi_device_t device) {
    command(CMP_FINISH, 0, 0, NULL);
    refsi_addr_t address = refsiAllocDeviceMemory(device, 8 * used, 8, DRAM);
    put(device, address, words, 8 * used);
    if (refsiExecuteCommandBuffer(device, address, 8 * used)) exit(12);
    refsiWaitForDeviceIdle(device);
    refsiFreeDeviceMemory(device, address);
    used = 0;
}

int main(int argc, char **argv) {
    static unsigned char program[4096];
    int32_t in[COUNT], out[COUNT];
    if (argc < 3) return 2;
    FILE *file = fopen(argv[1], "rb");
    size_t size = file ? fread(program, 1, sizeof program, file) : 0;
    uint64_t groups = strtoull(argv[2], NULL, 10);
    refsi_device_t device = refsiOpenDevice(REFSI_DEFAULT);
    if (!size || !device) return 3;

    refsi_addr_t elf = refsiAllocDeviceMemory(device, ELF_SIZE, 4096, DRAM);
    window(0, ELF, elf, CMP_WINDOW_MODE_SHARED, 0, ELF_SIZE);
    window(1, HART, TCDM_HART, CMP_WINDOW_MODE_PERT_HART, 1 | (uint64_t)(SHARE - 1) << 32, SHARE);
    submit(device);
    put(device, ELF, program, size);

    refsi_addr_t a = refsiAllocDeviceMemory(device, sizeof in, 4096, DRAM);
    refsi_addr_t b = refsiAllocDeviceMemory(device, sizeof out, 4096, DRAM);
    for (int each = 0; each < COUNT; each++) in[each] = 10 * each;
    if (argc > 3) {
        void *mapped = refsiGetMappedAddress(device, a, sizeof in);
        if (!mapped) return 4;
        memcpy(mapped, in, sizeof in);
    } else {
        put(device, a, in, sizeof in);
    }

    unsigned char block[256] = {0};
    uint64_t arguments[] = {a, b}, entry = ELF + 128, packed;
    refsi_addr_t kub = refsiAllocDeviceMemory(device, sizeof block, 256, DRAM);
    packed = kub;
    memcpy(block, arguments, sizeof arguments);
    memcpy(block + sizeof arguments + KERNEL_ENTRY, &entry, 8);
    memcpy(block + sizeof arguments + PACKED_ARGS, &packed, 8);
    memcpy(block + sizeof arguments + MAGIC, "ReSi", 4);
    put(device, kub, block, sizeof block);

    store(DMA + 8 * 3, kub + sizeof arguments);
    store(DMA + 8 * 4, TCDM_HART);
    store(DMA + 8 * 5, STATE);
    store(DMA + 8 * 6, 4);
    store(DMA + 8 * 8, 0);
    store(DMA + 8 * 10, SHARE);
    store(DMA, 0xe1);
    uint64_t started = DMA + 8, done = DMA + 16;
    command(CMP_LOAD_REG64, CMP_REG_SCRATCH, 1, &started);
    command(CMP_STORE_REG64, CMP_REG_SCRATCH, 1, &done);
    command(CMP_SYNC_CACHE, 3, 0, NULL);
    write_register(CMP_REG_ENTRY_PT_FN, ELF + 64);
    write_register(CMP_REG_STACK_TOP, HART + SHARE);
    write_register(CMP_REG_RETURN_ADDR, ELF);
    uint64_t run[] = {groups, 0, kub, HART};
    command(CMP_RUN_INSTANCES, 3 << 8, 4, run);
    command(CMP_SYNC_CACHE, 3, 0, NULL);
    submit(device);

    if (refsiReadDeviceMemory(device, (uint8_t *)out, b, sizeof out, REFSI_UNIT_ID(REFSI_UNIT_KIND_EXTERNAL, 0))) return 5;
    for (int each = 0; each < COUNT; each++) printf("%d ", out[each]);
    printf("\n");
    refsi_addr_t allocated[] = {0, elf, a, b, kub};
    for (int each = 0; each < 5; each++) refsiFreeDeviceMemory(device, allocated[each]);
    return refsiShutdownDevice(device);
}
