/* SPDX-License-Identifier: MIT */
/* The device as its document describes it. */
#ifndef ACCELDEV_REGS_H
#define ACCELDEV_REGS_H

#include <linux/bits.h>
#include <linux/types.h>

#define ACCELDEV_VENDOR_ID 0x0666
#define ACCELDEV_DEVICE_ID 0x0019

#define ACCELDEV_INTR 0x00
#define ACCELDEV_INTR_ENABLE 0x04
#define ACCELDEV_ENABLE 0x08
#define ACCELDEV_CONTEXTS_CONFIGS 0x0c /* and 0x10: the upper half */
#define ACCELDEV_CMD_MANUAL_FREE 0x8c  /* when read */
#define ACCELDEV_CMD_MANUAL_FEED 0x8c  /* five words, when written */
#define ACCELDEV_CMD_FENCE_LAST 0xa0
#define ACCELDEV_CMD_FENCE_WAIT 0xa4
#define ACCELDEV_MMIO_USED 0xa8

#define ACCELDEV_INTR_ALL GENMASK(5, 0)

#define ACCELDEV_CMD_NOP 0
#define ACCELDEV_CMD_RUN 1
#define ACCELDEV_CMD_BIND_SLOT 2
#define ACCELDEV_CMD_FENCE 3
#define ACCELDEV_CMD_CONTEXT(type, ctx) ((type) | (u32)(ctx) << 4)
#define ACCELDEV_CMD_WORDS 5

#define ACCELDEV_MAX_CONTEXTS 255
#define ACCELDEV_NUM_BUFFERS 16
#define ACCELDEV_PAGE_SIZE 4096
#define ACCELDEV_PTE_PRESENT 1
#define ACCELDEV_DMA_BITS 40

/* One context in the memory at CONTEXTS_CONFIGS. */
struct acceldev_context_record {
	__le64 slots[ACCELDEV_NUM_BUFFERS]; /* page tables */
	__le32 fence_counter;
	u8 status; /* bit 0: error */
	u8 reserved[59];
};

#define ACCELDEV_STATUS_ERROR 1

#endif
