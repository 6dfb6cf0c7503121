/* SPDX-License-Identifier: MIT */
/*
 * What user space and the driver agree on. The numbers of the ioctls are plain, not made with _IO; the command layouts
 * are those of the device.
 */
#ifndef ACCELDEV_UAPI_H
#define ACCELDEV_UAPI_H

#include <linux/types.h>

#define ACCELDEV_IOCTL_CREATE_BUFFER 0
#define ACCELDEV_IOCTL_RUN 1
#define ACCELDEV_IOCTL_WAIT 3

enum acceldev_buffer_type {
	ACCELDEV_BUFFER_CODE = 0,
	ACCELDEV_BUFFER_DATA = 1,
};

struct acceldev_create_buffer_result {
	__u32 buffer_slot; /* of a data buffer: what FILL calls it */
};

/* Gives a file descriptor, which can be mapped. */
struct acceldev_create_buffer {
	__s32 size; /* bytes, 1 to ACCELDEV_BUFFER_MAX */
	__u32 type; /* enum acceldev_buffer_type */
	struct acceldev_create_buffer_result *result;
};

/* Runs commands of a code buffer; does not wait for them. EIO once the context is in error. */
struct acceldev_run {
	__s32 cfd;  /* the code buffer */
	__u32 addr; /* bytes from its start, a multiple of 4 */
	__u32 size; /* bytes */
};

/* Waits for the context's user FENCE of that number, counted from 1; EIO if it is in error. */
struct acceldev_wait {
	__u32 fence_wait;
};

#define ACCELDEV_BUFFER_MAX (4 << 20)
#define ACCELDEV_USER_CMD_WORDS 5
#define ACCELDEV_USER_NOP 0
#define ACCELDEV_USER_FENCE 1
#define ACCELDEV_USER_FILL 2

#endif
