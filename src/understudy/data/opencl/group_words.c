// LDS of the functions of work-groups: one word for each sub-group. OpenCL C has no local variables outside of kernels, so
// this is C, compiled for itself and linked with what calls it.
__attribute__((always_inline)) __attribute__((address_space(3))) unsigned long *__us_words(void)
{
    static __attribute__((address_space(3), loader_uninitialized)) unsigned long words[1024 / 64];
    return words;
}
