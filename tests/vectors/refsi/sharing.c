/* Kernels of four harts that work together, each called as kernel(instance, data, rounds).

   riscv64-unknown-elf-gcc -march=rv64gc -mabi=lp64d -mcmodel=medany -O2 -ffreestanding -nostdlib -static \
       -Wl,--no-relax,--build-id=none,-Ttext-segment=0x10000,-e,k_barrier -o sharing.elf sharing.c */

#include <stdatomic.h>
#include <stdint.h>

enum { HARTS = 4 };

typedef struct {
    _Atomic uint64_t arrived, sense, count;
    volatile uint64_t turn;
    _Atomic uint32_t lock;
    _Atomic uint32_t next, served;
    uint64_t plain;
    volatile uint64_t head, tail, ring[16];
    uint64_t sum;
    uint64_t top;
    uint64_t nodes[64][2];
    uint64_t scratch[8];
} Shared;

static void barrier(Shared *s, uint64_t *mine)
{
    *mine = !*mine;
    if (atomic_fetch_add(&s->arrived, 1) == HARTS - 1) {
        atomic_store(&s->arrived, 0);
        atomic_store(&s->sense, *mine);
    } else {
        while (atomic_load(&s->sense) != *mine)
            ;
    }
}

/* A sense-reversing barrier: each round every hart sees what all others did before it. */
void k_barrier(uint64_t id, Shared *s, uint64_t rounds)
{
    uint64_t mine = 0, wrong = 0;
    for (uint64_t n = 1; n <= rounds; ++n) {
        s->scratch[id] = n;
        barrier(s, &mine);
        for (int k = 0; k < HARTS; ++k)
            wrong += s->scratch[k] != n;
        barrier(s, &mine);
    }
    s->nodes[id][0] = wrong;
    atomic_fetch_add(&s->count, rounds);
}

/* A spin lock around a plain counter. */
void k_spinlock(uint64_t id, Shared *s, uint64_t rounds)
{
    while (rounds--) {
        while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire))
            ;
        s->plain++;
        atomic_store_explicit(&s->lock, 0, memory_order_release);
    }
}

/* A ticket lock. */
void k_ticket(uint64_t id, Shared *s, uint64_t rounds)
{
    while (rounds--) {
        uint32_t ticket = atomic_fetch_add(&s->next, 1);
        while (atomic_load_explicit(&s->served, memory_order_acquire) != ticket)
            ;
        s->plain++;
        atomic_store_explicit(&s->served, ticket + 1, memory_order_release);
    }
}

/* Compare and exchange: lr and sc. */
void k_cas(uint64_t id, Shared *s, uint64_t rounds)
{
    while (rounds--) {
        uint64_t old = atomic_load(&s->count);
        while (!atomic_compare_exchange_weak(&s->count, &old, old + 1))
            ;
    }
}

/* One after the other, with nothing but volatile accesses. */
void k_token(uint64_t id, Shared *s, uint64_t rounds)
{
    while (rounds--) {
        while (s->turn % HARTS != id)
            ;
        s->turn++;
    }
}

/* Harts 0 and 2 fill a ring for 1 and 3, guarded by the lock. */
void k_ring(uint64_t id, Shared *s, uint64_t rounds)
{
    for (uint64_t n = 0; n < rounds; ++n)
        for (int done = 0; !done;) {
            while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire))
                ;
            uint64_t held = s->head - s->tail;
            if (id % 2 == 0 && held < 16) {
                s->ring[s->head % 16] = n + id;
                s->head++;
                done = 1;
            } else if (id % 2 == 1 && held) {
                s->sum += s->ring[s->tail % 16];
                s->tail++;
                done = 1;
            }
            atomic_store_explicit(&s->lock, 0, memory_order_release);
        }
}

/* A stack without locks whose pop relies on sc failing where the top was taken and put back meanwhile. */
static uint64_t *pop(Shared *s)
{
    uint64_t *node, next;
    __asm__ volatile("1: lr.d.aq %0, (%2)\n"
                     "beqz %0, 2f\n"
                     "ld %1, 0(%0)\n"
                     "sc.d.rl t0, %1, (%2)\n"
                     "bnez t0, 1b\n"
                     "2:"
                     : "=&r"(node), "=&r"(next)
                     : "r"(&s->top)
                     : "t0", "memory");
    return node;
}

static void push(Shared *s, uint64_t *node)
{
    __asm__ volatile("1: lr.d.aq t1, (%1)\n"
                     "sd t1, 0(%0)\n"
                     "fence w, w\n"
                     "sc.d.rl t0, %0, (%1)\n"
                     "bnez t0, 1b\n"
                     :
                     : "r"(node), "r"(&s->top)
                     : "t0", "t1", "memory");
}

void k_stack(uint64_t id, Shared *s, uint64_t rounds)
{
    if (id == 0) {
        for (int n = 0; n < 8; ++n)
            push(s, s->nodes[n]);
        atomic_store(&s->sense, 1);
    }
    while (!atomic_load(&s->sense))
        ;
    while (rounds--) {
        uint64_t *node = pop(s);
        if (!node)
            continue;
        if (__atomic_fetch_add(&node[1], 1, __ATOMIC_SEQ_CST) & 0xffffffff00000000u)
            s->scratch[id]++; /* two harts hold one node */
        __atomic_fetch_add(&node[1], 0x100000000u, __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&node[1], 0x100000000u, __ATOMIC_SEQ_CST);
        push(s, node);
    }
}

/* The flag that nobody sets. */
void k_never(uint64_t id, Shared *s, uint64_t rounds)
{
    while (!s->turn)
        ;
}

/* The lock word is polled from a function, with a pause that grows: no engine sees that it polls. */
void k_backoff(uint64_t id, Shared *s, uint64_t rounds)
{
    while (rounds--) {
        uint64_t pause = 1;
        while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire)) {
            for (volatile uint64_t n = 0; n < pause; ++n)
                ;
            pause += pause < 64 ? pause : 0;
        }
        s->plain++;
        atomic_store_explicit(&s->lock, 0, memory_order_release);
    }
}

/* Long, and nothing shared. */
void k_alone(uint64_t id, Shared *s, uint64_t rounds)
{
    uint64_t x = id + 1;
    while (rounds--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    s->scratch[id] = x;
}
