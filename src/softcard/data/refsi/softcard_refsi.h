/* What a kernel for RefSi's harts may call. A kernel is a global function whose first parameter is its instance:
 *
 *     void scale(unsigned long instance, float factor, float *values)
 *
 * In C++ write extern "C" before it. string.h and math.h hold what else there is.
 */
#ifndef SOFTCARD_REFSI_H
#define SOFTCARD_REFSI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each hart's own memory (its share of TCDM), whose upper end is its stack. */
#define REFSI_LOCAL ((void *)0x14000000ul)
/* TCDM that all harts share: 2 MiB, fast on hardware, of no other use to launches. */
#define REFSI_SHARED ((void *)0x10000000ul)
#define REFSI_SHARED_BYTES 0x200000ul

static inline uint64_t refsi_call(uint64_t operation, uint64_t value)
{
    register uint64_t a0 __asm__("a0") = value;
    register uint64_t a7 __asm__("a7") = operation;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
    return a0;
}

/* End this instance; a code other than 0 ends the kernel with an error. */
static inline void refsi_exit(int code)
{
    refsi_call(0, (uint64_t)code);
}

/* Print text to the console of the launch. */
static inline void refsi_print(const char *text)
{
    refsi_call(1, (uint64_t)text);
}

/* Wait until all harts of the group are here. One that returns before is an error for the others. */
static inline void refsi_barrier(void)
{
    refsi_call(2, 1);
}

/* Print by a format, as C11 7.21.6.1 says: all conversions, flags, widths, precisions and lengths. Digits are exact, and
 * rounded in the hart's rounding mode; wide characters are printed as UTF-8. The console takes strings, so that a
 * character 0 is counted and not printed. Gives how many characters it has printed; -1 where a wide one is none. */
int refsi_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The number of this hart: 0, 1, ... */
static inline uint64_t refsi_hart(void)
{
    uint64_t hart;
    __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
    return hart;
}

/* Instructions that this hart has retired. */
static inline uint64_t refsi_instructions(void)
{
    uint64_t count;
    __asm__ volatile("rdinstret %0" : "=r"(count));
    return count;
}

/* ---- transfers by the hart's own DMA context: source and destination are not read or written before refsi_dma_wait ---- */

#define REFSI_DMA ((volatile uint64_t *)0x20002000ul)
enum { REFSI_DMA_CTRL, REFSI_DMA_STARTSEQ, REFSI_DMA_DONESEQ, REFSI_DMA_SRC, REFSI_DMA_DST, REFSI_DMA_SIZE,
       REFSI_DMA_SRC_STRIDE = 8, REFSI_DMA_DST_STRIDE = 10 };

/* Begin to copy bytes; gives the transfer's number. */
static inline uint64_t refsi_dma_copy(void *destination, const void *source, uint64_t bytes)
{
    __asm__ volatile("fence" ::: "memory");
    REFSI_DMA[REFSI_DMA_SRC] = (uint64_t)source;
    REFSI_DMA[REFSI_DMA_DST] = (uint64_t)destination;
    REFSI_DMA[REFSI_DMA_SIZE] = bytes;
    REFSI_DMA[REFSI_DMA_CTRL] = 0x11;
    return REFSI_DMA[REFSI_DMA_STARTSEQ];
}

/* Begin to copy rows of so many bytes, the strides apart; gives the transfer's number. */
static inline uint64_t refsi_dma_copy_2d(void *destination, uint64_t destination_stride, const void *source,
                                         uint64_t source_stride, uint64_t row_bytes, uint64_t rows)
{
    __asm__ volatile("fence" ::: "memory");
    REFSI_DMA[REFSI_DMA_SRC] = (uint64_t)source;
    REFSI_DMA[REFSI_DMA_DST] = (uint64_t)destination;
    REFSI_DMA[REFSI_DMA_SIZE] = row_bytes;
    REFSI_DMA[REFSI_DMA_SIZE + 1] = rows;
    REFSI_DMA[REFSI_DMA_SRC_STRIDE] = source_stride;
    REFSI_DMA[REFSI_DMA_DST_STRIDE] = destination_stride;
    REFSI_DMA[REFSI_DMA_CTRL] = 0xE1;
    return REFSI_DMA[REFSI_DMA_STARTSEQ];
}

/* Wait until a transfer, and all before it, is done. */
static inline void refsi_dma_wait(uint64_t transfer)
{
    REFSI_DMA[REFSI_DMA_DONESEQ] = transfer;
    __asm__ volatile("fence" ::: "memory");
}

#ifdef __cplusplus
}
#endif
#endif
