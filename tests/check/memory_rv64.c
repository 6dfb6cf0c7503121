/* Kernels for RefSi's harts with one mistake each, which -DB=0 corrects; "BUG" marks the line. See memory_rv64.py. */
typedef unsigned char u8;
typedef unsigned long u64;

void store_past(u64 i, int *x, u64 n) {
    if (B || i < n)
        x[i] = (int)i; // BUG
}
void load_past(u64 i, int *x, int *y) {
    y[i] = x[i + B]; // BUG
}
void load_before(u64 i, int *x, int *y) {
    y[i] = x[(long)i - B]; // BUG
}
void store_byte(u64 i, u8 *x, u64 n) {
    if (i < n + B)
        x[i] = 7; // BUG
}
void store_double(u64 i, double *x, u64 n) {
    if (i <= n - !B)
        x[i] = 1.5; // BUG
}
void load_half(u64 i, short *x, int *y, u64 n) {
    y[i] = x[i < n ? i : n - !B]; // BUG
}
void loop_inclusive(u64 i, int *x, int *y, u64 n) {
    int sum = 0;
    for (u64 k = i; k < n + B; k += 4)
        sum += x[k]; // BUG
    y[i] = sum;
}
void straddling(u64 i, u8 *x, u64 *y) {
    y[i] = *(u64 *)(x + 8 * (i + B)); // BUG
}
void atomic_past(u64 i, int *x) {
    __atomic_fetch_add(x + i + B, 1, __ATOMIC_RELAXED); // BUG
}
void freed(u64 i, int *gone, int *alive, int *y) {
    y[i] = (B ? gone : alive)[i]; // BUG
}
void freed_store(u64 i, int *gone, int *alive) {
    (B ? gone : alive)[i] = 1; // BUG
}
void wild(u64 i, int *x, int *y) {
    y[i] = *(B ? (volatile int *)0xA0000000 : (volatile int *)(x + i)); // BUG
}
void stack_overflow(u64 i, int *y) {
    volatile int *below = (volatile int *)(0x14000000 - 64);
    y[i] = B ? below[i] : 0; // BUG
}
