/* The C interface of RefSi's driver, for host programs in C or C++: 18 functions of librefsidrv.so.
 *
 * `softcard refsi flags` prints what a compiler needs for it. The names, numbers and layouts are those of the
 * reference driver, so that a program runs on either library without being compiled anew.
 */
#ifndef REFSIDRV_REFSIDRV_H
#define REFSIDRV_REFSIDRV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REFSI_API __attribute__((visibility("default")))

/* Addresses count bytes of the device's memory map; 0 is none. */
typedef uint64_t refsi_addr_t;

/* A handle of an open device, the same for all who open its family. */
typedef struct RefSiDevice *refsi_device_t;

enum { refsi_nullptr = 0 };

typedef enum refsi_result {
    refsi_success = 0,
    refsi_failure = 1,        /* refused, or the device cannot be reached any more */
    refsi_invalid_device = 2, /* this is no handle */
    refsi_device_closed = 3,  /* this was one, until its device was shut down */
    refsi_not_supported = 4   /* devices of this family cannot do that */
} refsi_result;

typedef enum refsi_device_family {
    REFSI_DEFAULT = 0, /* M */
    REFSI_M = 1,       /* command buffers, 4 harts */
    REFSI_G = 2        /* kernels executed directly, up to 64 harts */
} refsi_device_family;

typedef struct refsi_device_info {
    refsi_device_family family;
    unsigned num_cores;
    unsigned num_harts_per_core;
    unsigned num_memory_map_entries;
    const char *core_isa; /* valid for as long as the library is loaded */
    unsigned core_vlen;   /* bits of a vector register */
    unsigned core_elen;   /* bits of its widest element */
} refsi_device_info_t;

typedef enum refsi_memory_map_kind {
    UNKNOWN = 0,
    DRAM = 1,               /* what refsiAllocDeviceMemory shares out */
    TCIM = 2,               /* instruction memory of all cores */
    TCDM = 3,               /* fast data memory of all cores */
    TCDM_PRIVATE = 4,       /* likewise, another one for each core */
    KERNEL_DMA = 5,         /* DMA registers of all harts */
    KERNEL_DMA_PRIVATE = 6, /* DMA registers, others for each unit */
    PERF_COUNTERS = 7       /* 32 counters of the unit that asks, then 32 of the device */
} refsi_memory_map_kind;

typedef struct refsi_memory_map_entry {
    refsi_memory_map_kind kind;
    refsi_addr_t start_addr;
    size_t size; /* bytes */
} refsi_memory_map_entry;

/* Who makes an access. PER_HART windows and a hart's counters need REFSI_UNIT_ID(REFSI_UNIT_KIND_ACC_HART, hart). */
typedef enum refsi_unit_kind {
    REFSI_UNIT_KIND_ANY = 0,
    REFSI_UNIT_KIND_EXTERNAL = 1, /* the host */
    REFSI_UNIT_KIND_CMP = 2,      /* the command processor */
    REFSI_UNIT_KIND_ACC_HART = 3,
    REFSI_UNIT_KIND_ACC_CORE = 4
} refsi_unit_kind;

#define REFSI_UNIT_ID(kind, index) ((((uint32_t)(kind) & 0xff) << 24) | (uint32_t)(index))
#define REFSI_GET_UNIT_KIND(unit) (((unit) & 0xff000000) >> 24)
#define REFSI_GET_UNIT_INDEX(unit) ((unit) & 0xffff)

/* Start and end of the driver. A program may leave out both. */
REFSI_API refsi_result refsiInitialize(void);
REFSI_API refsi_result refsiTerminate(void);

/* One device of each family; to open an open one gives the same handle. NULL where there is none. */
REFSI_API refsi_device_t refsiOpenDevice(refsi_device_family family);

/* Memory, mapped pointers and command buffers that have not begun end with the device. */
REFSI_API refsi_result refsiShutdownDevice(refsi_device_t device);

REFSI_API refsi_result refsiQueryDeviceInfo(refsi_device_t device, refsi_device_info_t *info);
REFSI_API refsi_result refsiQueryDeviceMemoryMap(refsi_device_t device, size_t index, refsi_memory_map_entry *entry);

/* `alignment` is a power of two. 0 where there is no room; 1 for another kind than DRAM, as the reference has it. */
REFSI_API refsi_addr_t refsiAllocDeviceMemory(refsi_device_t device, size_t size, size_t alignment,
                                              refsi_memory_map_kind kind);
REFSI_API refsi_result refsiFreeDeviceMemory(refsi_device_t device, refsi_addr_t address);

/* The device's memory as this program's own, until the device is shut down; NULL for registers. Nothing needs to be
 * flushed or invalidated. */
REFSI_API void *refsiGetMappedAddress(refsi_device_t device, refsi_addr_t address, size_t size);
REFSI_API refsi_result refsiFlushDeviceMemory(refsi_device_t device, refsi_addr_t address, size_t size);
REFSI_API refsi_result refsiInvalidateDeviceMemory(refsi_device_t device, refsi_addr_t address, size_t size);

/* Both wait for the command buffers that are under way. */
REFSI_API refsi_result refsiReadDeviceMemory(refsi_device_t device, uint8_t *dest, refsi_addr_t address, size_t size,
                                             uint32_t unit_id);
REFSI_API refsi_result refsiWriteDeviceMemory(refsi_device_t device, refsi_addr_t address, const uint8_t *source,
                                              size_t size, uint32_t unit_id);

/* M: the buffer runs after those before it; success says that it was taken, not that its commands were good. */
REFSI_API refsi_result refsiExecuteCommandBuffer(refsi_device_t device, refsi_addr_t address, size_t size);
REFSI_API void refsiWaitForDeviceIdle(refsi_device_t device);

/* G: boots that many harts and returns when all have exited; success where all did so with 0. */
REFSI_API refsi_result refsiExecuteKernel(refsi_device_t device, refsi_addr_t entry, uint32_t num_harts);

/* Headers of commands: they need no device. `chunk_count` counts the 64-bit words after the header. */
typedef enum refsi_cmp_command_id {
    CMP_NOP = 0,
    CMP_FINISH = 1,
    CMP_WRITE_REG64 = 2,
    CMP_LOAD_REG64 = 3,
    CMP_STORE_REG64 = 4,
    CMP_STORE_IMM64 = 5,
    CMP_COPY_MEM64 = 6,
    CMP_RUN_KERNEL_SLICE = 7,
    CMP_RUN_INSTANCES = 8,
    CMP_SYNC_CACHE = 9
} refsi_cmp_command_id;

REFSI_API refsi_result refsiDecodeCMPCommand(uint64_t header, refsi_cmp_command_id *opcode, uint32_t *chunk_count,
                                             uint32_t *inline_chunk);
REFSI_API uint64_t refsiEncodeCMPCommand(refsi_cmp_command_id opcode, uint32_t chunk_count, uint32_t inline_chunk);

/* Registers of the command processor. Of each array of windows, register n belongs to window n. */
#define CMP_NUM_WINDOWS 8
typedef enum refsi_cmp_register_id {
    CMP_REG_SCRATCH = 0,
    CMP_REG_ENTRY_PT_FN = 1,
    CMP_REG_KUB_DESC = 2,
    CMP_REG_KARGS_INFO = 3,
    CMP_REG_TSD_INFO = 4,
    CMP_REG_STACK_TOP = 5,
    CMP_REG_RETURN_ADDR = 6,
    CMP_REG_WINDOW_BASE0 = 8,
    CMP_REG_WINDOW_BASEn = 15,
    CMP_REG_WINDOW_TARGET0 = 16,
    CMP_REG_WINDOW_TARGETn = 23,
    CMP_REG_WINDOW_MODE0 = 24,
    CMP_REG_WINDOW_MODEn = 31,
    CMP_REG_WINDOW_SCALE0 = 32,
    CMP_REG_WINDOW_SCALEn = 39,
    CMP_NUM_REGS = 40
} refsi_cmp_register_id;

/* Bits of CMP_REG_WINDOW_MODE, and the flags of CMP_SYNC_CACHE. */
#define CMP_WINDOW_ACTIVE 1
#define CMP_WINDOW_MODE_SHARED 0
#define CMP_WINDOW_MODE_PERT_HART 2
#define CMP_CACHE_SYNC_ACC_DCACHE 1
#define CMP_CACHE_SYNC_ACC_ICACHE 2

/* Counters of PERF_COUNTERS, 8 bytes each. */
#define REFSI_NUM_GLOBAL_PERF_COUNTERS 32
#define REFSI_NUM_PER_HART_PERF_COUNTERS 32
#define REFSI_NUM_PERF_COUNTERS 64
typedef enum refsi_perf_counter_id {
    REFSI_PERF_CNTR_CYCLE = 0,
    REFSI_PERF_CNTR_RETIRED_INSN = 2,
    REFSI_PERF_CNTR_READ_BYTE_INSN = 3,
    REFSI_PERF_CNTR_READ_SHORT_INSN = 4,
    REFSI_PERF_CNTR_READ_WORD_INSN = 5,
    REFSI_PERF_CNTR_READ_DOUBLE_INSN = 6,
    REFSI_PERF_CNTR_READ_QUAD_INSN = 7,
    REFSI_PERF_CNTR_READ_INSN = 8,
    REFSI_PERF_CNTR_WRITE_BYTE_INSN = 9,
    REFSI_PERF_CNTR_WRITE_SHORT_INSN = 10,
    REFSI_PERF_CNTR_WRITE_WORD_INSN = 11,
    REFSI_PERF_CNTR_WRITE_DOUBLE_INSN = 12,
    REFSI_PERF_CNTR_WRITE_QUAD_INSN = 13,
    REFSI_PERF_CNTR_WRITE_INSN = 14,
    REFSI_PERF_CNTR_INT_INSN = 15,
    REFSI_PERF_CNTR_FLOAT_INSN = 16,
    REFSI_PERF_CNTR_BRANCH_INSN = 17
} refsi_perf_counter_id;

#ifdef __cplusplus
}
#endif

#endif
