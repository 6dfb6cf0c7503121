// What OpenCL C cannot say, as C: compiled for itself, and linked with what calls it.

// LDS of the functions of work-groups: one word for each sub-group. OpenCL C has local variables in kernels only.
__attribute__((always_inline)) __attribute__((address_space(3))) unsigned long *__us_words(void)
{
    static __attribute__((address_space(3), loader_uninitialized)) unsigned long words[1024 / 64];
    return words;
}

// Sampler resources (S#) of all sampler_t constants: the compiler calls this for each that a kernel has.
typedef struct {
    unsigned words[4];
} sampler;

#define CLAMPS(mode) ((mode) == 1 ? 2 : (mode) == 2 ? 6 : (mode) == 4 ? 1 : 0)
#define LINEAR(bits) ((bits) >> 5 & 1)
#define SAMPLER(bits) {{CLAMPS((bits) >> 1 & 7) * 0x49 | (~(bits) & 1) << 15, 0xfffu << 12, \
                        LINEAR(bits) << 20 | LINEAR(bits) << 22, 0}}
#define SAMPLERS4(bits) SAMPLER(bits), SAMPLER(bits + 1), SAMPLER(bits + 2), SAMPLER(bits + 3)
#define SAMPLERS16(bits) SAMPLERS4(bits), SAMPLERS4(bits + 4), SAMPLERS4(bits + 8), SAMPLERS4(bits + 12)

__attribute__((always_inline)) const __attribute__((address_space(4))) sampler *__translate_sampler_initializer(int bits)
{
    static const __attribute__((address_space(4))) sampler samplers[64] = {
        SAMPLERS16(0), SAMPLERS16(16), SAMPLERS16(32), SAMPLERS16(48)};
    return &samplers[bits & 63];
}
