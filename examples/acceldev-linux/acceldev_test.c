// SPDX-License-Identifier: MIT
/*
 * User space against the driver: what must work, and what must be refused. Prints "ok NAME" or "FAILED NAME: why" for
 * each test; the exit status is the number of failures. Runs without a C library in the guest when linked statically.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acceldev_uapi.h"

#define NODE "/dev/acceldev0"
#define CMD_BYTES (4 * ACCELDEV_USER_CMD_WORDS)

static char why[200];

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			snprintf(why, sizeof(why), "line %d: %s (errno %d: %s)", __LINE__, #what, errno,               \
				 strerror(errno));                                                                     \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

/* The call must fail with that errno. */
#define REFUSED(call, number) CHECK((errno = 0, (call) == -1 && errno == (number)))

static int create(int ctx, int size, unsigned int type, uint32_t *slot)
{
	struct acceldev_create_buffer_result result = { ~0u };
	struct acceldev_create_buffer arg = { size, type, &result };
	int fd = ioctl(ctx, ACCELDEV_IOCTL_CREATE_BUFFER, &arg);

	if (slot)
		*slot = result.buffer_slot;
	return fd;
}

static int run(int ctx, int code, uint32_t addr, uint32_t size)
{
	struct acceldev_run arg = { code, addr, size };

	return ioctl(ctx, ACCELDEV_IOCTL_RUN, &arg);
}

static int wait_fence(int ctx, uint32_t fence)
{
	struct acceldev_wait arg = { fence };

	return ioctl(ctx, ACCELDEV_IOCTL_WAIT, &arg);
}

static void *map(int fd, size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static uint32_t *put(uint32_t *at, uint32_t op, uint32_t value, uint32_t slot, uint32_t start, uint32_t length)
{
	uint32_t words[ACCELDEV_USER_CMD_WORDS] = { op, value, slot, start, length };

	memcpy(at, words, sizeof(words));
	return at + ACCELDEV_USER_CMD_WORDS;
}

/* A context with a code and a data buffer. */
struct bench {
	int ctx, code_fd, data_fd;
	uint32_t slot, *code, *data;
};

static int bench_open(struct bench *b, size_t code, size_t data)
{
	CHECK((b->ctx = open(NODE, O_RDWR)) >= 0);
	CHECK((b->code_fd = create(b->ctx, code, ACCELDEV_BUFFER_CODE, NULL)) >= 0);
	CHECK((b->data_fd = create(b->ctx, data, ACCELDEV_BUFFER_DATA, &b->slot)) >= 0);
	CHECK((b->code = map(b->code_fd, code)) != MAP_FAILED);
	CHECK((b->data = map(b->data_fd, data)) != MAP_FAILED);
	return 0;
}

static int bench_close(struct bench *b, size_t code, size_t data)
{
	CHECK(!munmap(b->code, code));
	CHECK(!munmap(b->data, data));
	CHECK(!close(b->ctx));
	CHECK(!close(b->code_fd));
	CHECK(!close(b->data_fd));
	return 0;
}

static int test_fill(void)
{
	struct bench b;
	uint32_t *end;
	size_t i;

	if (bench_open(&b, 4096, 3 * 4096))
		return 1;
	end = put(b.code, ACCELDEV_USER_NOP, 0, 0, 0, 0);
	end = put(end, ACCELDEV_USER_FILL, 0xcafef00d, b.slot, 400, 8192);
	end = put(end, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	CHECK(!run(b.ctx, b.code_fd, 0, (char *)end - (char *)b.code));
	CHECK(!wait_fence(b.ctx, 1));
	for (i = 0; i < 3 * 1024; i++)
		CHECK(b.data[i] == (i >= 100 && i < 100 + 2048 ? 0xcafef00d : 0));
	return bench_close(&b, 4096, 3 * 4096);
}

static int test_fences_count_up(void)
{
	struct bench b;
	uint32_t i;

	if (bench_open(&b, 4096, 4096))
		return 1;
	put(b.code, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	for (i = 1; i <= 200; i++) {
		CHECK(!run(b.ctx, b.code_fd, 0, CMD_BYTES));
		CHECK(!wait_fence(b.ctx, i));
	}
	CHECK(!wait_fence(b.ctx, 1));
	return bench_close(&b, 4096, 4096);
}

static int test_a_full_queue(void)
{
	struct bench b;
	uint32_t i;

	if (bench_open(&b, 4096, 4096))
		return 1;
	put(put(b.code, ACCELDEV_USER_FILL, 1, b.slot, 0, 4096), ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	for (i = 0; i < 1000; i++)
		CHECK(!run(b.ctx, b.code_fd, 0, 2 * CMD_BYTES));
	CHECK(!wait_fence(b.ctx, 1000));
	CHECK(b.data[1023] == 1);
	return bench_close(&b, 4096, 4096);
}

static int test_a_long_run(void)
{
	struct bench b;
	uint32_t n = ACCELDEV_BUFFER_MAX / CMD_BYTES, i, *at;

	if (bench_open(&b, ACCELDEV_BUFFER_MAX, ACCELDEV_BUFFER_MAX))
		return 1;
	at = b.code;
	for (i = 0; i < n - 1; i++)
		at = put(at, ACCELDEV_USER_FILL, i, b.slot, 4 * i, 4);
	put(at, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	CHECK(!run(b.ctx, b.code_fd, 0, n * CMD_BYTES));
	CHECK(!wait_fence(b.ctx, 1));
	for (i = 0; i < n - 1; i++)
		CHECK(b.data[i] == i);
	return bench_close(&b, ACCELDEV_BUFFER_MAX, ACCELDEV_BUFFER_MAX);
}

static int fails_and_stays_failed(uint32_t op, uint32_t slot, uint32_t start, uint32_t addr)
{
	struct bench bad, good;
	uint32_t *end;

	if (bench_open(&bad, 4096, 4096) || bench_open(&good, 4096, 4096))
		return 1;
	end = put(bad.code, op, 7, slot, start, 4);
	put(end, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	CHECK(!run(bad.ctx, bad.code_fd, addr, 2 * CMD_BYTES));
	REFUSED(wait_fence(bad.ctx, 1), EIO);
	REFUSED(run(bad.ctx, bad.code_fd, 0, CMD_BYTES), EIO);
	end = put(good.code, ACCELDEV_USER_FILL, 9, good.slot, 0, 4);
	put(end, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
	CHECK(!run(good.ctx, good.code_fd, 0, 2 * CMD_BYTES));
	CHECK(!wait_fence(good.ctx, 1));
	CHECK(good.data[0] == 9);
	return bench_close(&bad, 4096, 4096) || bench_close(&good, 4096, 4096);
}

static int test_unknown_command(void)
{
	return fails_and_stays_failed(5, 0, 0, 0);
}

static int test_unbound_slot(void)
{
	return fails_and_stays_failed(ACCELDEV_USER_FILL, 1, 0, 0);
}

static int test_slot_that_cannot_be(void)
{
	return fails_and_stays_failed(ACCELDEV_USER_FILL, 19, 0, 0);
}

static int test_fill_past_the_end(void)
{
	return fails_and_stays_failed(ACCELDEV_USER_FILL, 0, 4096, 0);
}

static int test_code_past_the_end(void)
{
	return fails_and_stays_failed(ACCELDEV_USER_NOP, 0, 0, 4096);
}

static int test_a_context_after_an_error_starts_anew(void)
{
	struct bench b;
	int i;

	for (i = 0; i < 3; i++) {
		if (fails_and_stays_failed(9, 0, 0, 0) || bench_open(&b, 4096, 4096))
			return 1;
		put(b.code, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
		CHECK(!run(b.ctx, b.code_fd, 0, CMD_BYTES));
		CHECK(!wait_fence(b.ctx, 1));
		if (bench_close(&b, 4096, 4096))
			return 1;
	}
	return 0;
}

static int test_bad_arguments(void)
{
	struct bench b, other;
	uint32_t slot;

	if (bench_open(&b, 4096, 4096) || bench_open(&other, 4096, 4096))
		return 1;
	REFUSED(create(b.ctx, 0, ACCELDEV_BUFFER_DATA, &slot), EINVAL);
	REFUSED(create(b.ctx, -1, ACCELDEV_BUFFER_DATA, &slot), EINVAL);
	REFUSED(create(b.ctx, ACCELDEV_BUFFER_MAX + 1, ACCELDEV_BUFFER_DATA, &slot), EINVAL);
	REFUSED(create(b.ctx, 4096, 2, &slot), EINVAL);
	REFUSED(ioctl(b.ctx, ACCELDEV_IOCTL_CREATE_BUFFER, NULL), EFAULT);
	REFUSED(ioctl(b.ctx, ACCELDEV_IOCTL_RUN, NULL), EFAULT);
	REFUSED(ioctl(b.ctx, ACCELDEV_IOCTL_WAIT, NULL), EFAULT);
	REFUSED(ioctl(b.ctx, 77, NULL), ENOTTY);
	REFUSED(run(b.ctx, b.data_fd, 0, CMD_BYTES), EINVAL);
	REFUSED(run(b.ctx, other.code_fd, 0, CMD_BYTES), EINVAL);
	REFUSED(run(b.ctx, b.ctx, 0, CMD_BYTES), EINVAL);
	REFUSED(run(b.ctx, -1, 0, CMD_BYTES), EBADF);
	REFUSED(run(b.ctx, b.code_fd, 2, CMD_BYTES), EINVAL);
	CHECK(map(b.data_fd, 2 * 4096) == MAP_FAILED);
	return bench_close(&b, 4096, 4096) || bench_close(&other, 4096, 4096);
}

static int test_sixteen_slots(void)
{
	int ctx = open(NODE, O_RDWR), fds[16], i;
	uint32_t slot;

	CHECK(ctx >= 0);
	for (i = 0; i < 16; i++) {
		CHECK((fds[i] = create(ctx, 4096, ACCELDEV_BUFFER_DATA, &slot)) >= 0);
		CHECK(slot == (uint32_t)i);
	}
	CHECK(create(ctx, 4096, ACCELDEV_BUFFER_DATA, &slot) == -1);
	CHECK(!close(fds[7]));
	CHECK((fds[7] = create(ctx, 4096, ACCELDEV_BUFFER_DATA, &slot)) >= 0 && slot == 7);
	for (i = 0; i < 16; i++)
		CHECK(!close(fds[i]));
	CHECK(!close(ctx));
	return 0;
}

static int test_all_contexts(void)
{
	int ctx[255], i;

	for (i = 0; i < 255; i++)
		CHECK((ctx[i] = open(NODE, O_RDWR)) >= 0);
	REFUSED(open(NODE, O_RDWR), EBUSY);
	for (i = 0; i < 255; i++)
		CHECK(!close(ctx[i]));
	return 0;
}

/* Each of several processes fills its own buffer with its own number, again and again. */
static int test_processes_side_by_side(void)
{
	int i, status, failures = 0;

	fflush(stdout);
	for (i = 1; i <= 6; i++) {
		if (!fork()) {
			struct bench b;
			uint32_t round, word, *end;

			if (bench_open(&b, 4096, 16384))
				_exit(1);
			for (round = 1; round <= 30; round++) {
				end = put(b.code, ACCELDEV_USER_FILL, round * i, b.slot, 0, 16384);
				put(end, ACCELDEV_USER_FENCE, 0, 0, 0, 0);
				if (run(b.ctx, b.code_fd, 0, 2 * CMD_BYTES) || wait_fence(b.ctx, round))
					_exit(2);
				for (word = 0; word < 4096; word++)
					if (b.data[word] != round * i)
						_exit(3);
			}
			_exit(0);
		}
	}
	for (i = 1; i <= 6; i++) {
		CHECK(wait(&status) > 0);
		failures += status != 0;
	}
	CHECK(!failures);
	return 0;
}

static void on_alarm(int number)
{
	(void)number;
}

static int test_a_signal_ends_a_wait(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
	struct bench b;

	if (bench_open(&b, 4096, 4096))
		return 1;
	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
	REFUSED(wait_fence(b.ctx, 1), EINTR);
	return bench_close(&b, 4096, 4096);
}

/* Everything is closed while the device still runs: it must be done with the memory before anybody else gets it. */
static int test_closing_while_it_runs(void)
{
	struct bench b;
	uint32_t i, n = ACCELDEV_BUFFER_MAX / CMD_BYTES, *at;
	int round;

	for (round = 0; round < 3; round++) {
		if (bench_open(&b, ACCELDEV_BUFFER_MAX, ACCELDEV_BUFFER_MAX))
			return 1;
		at = b.code;
		for (i = 0; i < n; i++)
			at = put(at, ACCELDEV_USER_FILL, ~0u, b.slot, i * 4, 4);
		CHECK(!run(b.ctx, b.code_fd, 0, n * CMD_BYTES));
		if (bench_close(&b, ACCELDEV_BUFFER_MAX, ACCELDEV_BUFFER_MAX))
			return 1;
	}
	return 0;
}

#define TEST(name) { #name, test_##name }
static const struct {
	const char *name;
	int (*run)(void);
} tests[] = {
	TEST(fill),
	TEST(fences_count_up),
	TEST(a_full_queue),
	TEST(a_long_run),
	TEST(unknown_command),
	TEST(unbound_slot),
	TEST(slot_that_cannot_be),
	TEST(fill_past_the_end),
	TEST(code_past_the_end),
	TEST(a_context_after_an_error_starts_anew),
	TEST(bad_arguments),
	TEST(sixteen_slots),
	TEST(all_contexts),
	TEST(processes_side_by_side),
	TEST(a_signal_ends_a_wait),
	TEST(closing_while_it_runs),
};

int main(void)
{
	int failures = 0;
	size_t i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int failed = tests[i].run();

		if (failed)
			printf("FAILED %s: %s\n", tests[i].name, why);
		else
			printf("ok %s\n", tests[i].name);
		fflush(stdout);
		failures += failed;
	}
	return failures;
}
