// Vectors and halfs in memory, shuffles.
#ifndef SOFTCARD_OPENCL_MEMORY_H
#define SOFTCARD_OPENCL_MEMORY_H
#include "types.h"
#include "convert.h"

// ---- vloadn, vstoren: aligned as one element --------------------------------------------------------------------------------

#define __US_VLOAD(T, S, n)                                                                                         \
    __US_FN T##n vload##n(size_t at, const S T *p)                                                                  \
    {                                                                                                               \
        T##n v;                                                                                                     \
        for (int i = 0; i < n; i++)                                                                                 \
            v[i] = p[n * at + i];                                                                                   \
        return v;                                                                                                   \
    }
#define __US_VSTORE(T, S, n)                                                                                        \
    __US_FN void vstore##n(T##n v, size_t at, S T *p)                                                               \
    {                                                                                                               \
        for (int i = 0; i < n; i++)                                                                                 \
            p[n * at + i] = v[i];                                                                                   \
    }
#define __US_VLOADS(T, S)                                                                                           \
    __US_VLOAD(T, S, 2) __US_VLOAD(T, S, 3) __US_VLOAD(T, S, 4) __US_VLOAD(T, S, 8) __US_VLOAD(T, S, 16)
#define __US_VSTORES(T, S)                                                                                          \
    __US_VSTORE(T, S, 2) __US_VSTORE(T, S, 3) __US_VSTORE(T, S, 4) __US_VSTORE(T, S, 8) __US_VSTORE(T, S, 16)
#define __US_IN_MEMORY(T)                                                                                           \
    __US_VLOADS(T, global) __US_VLOADS(T, local) __US_VLOADS(T, private) __US_VLOADS(T, constant)                   \
    __US_VSTORES(T, global) __US_VSTORES(T, local) __US_VSTORES(T, private)                                         \
    __US_GENERIC(__US_VLOADS(T, generic) __US_VSTORES(T, generic))
__US_TYPES(__US_IN_MEMORY)

// ---- halfs ---------------------------------------------------------------------------------------------------------------------

#define __US_LOAD_HALF(S)                                                                                           \
    __US_FN float vload_half(size_t at, const S half *p) { return (float)p[at]; }                                   \
    __US_FN float vloada_half(size_t at, const S half *p) { return (float)p[at]; }                                  \
    __US_LOAD_HALFS(S, 2, 2) __US_LOAD_HALFS(S, 3, 4) __US_LOAD_HALFS(S, 4, 4) __US_LOAD_HALFS(S, 8, 8)             \
    __US_LOAD_HALFS(S, 16, 16)
#define __US_LOAD_HALFS(S, n, step)                                                                                 \
    __US_FN float##n vload_half##n(size_t at, const S half *p)                                                      \
    {                                                                                                               \
        return __builtin_convertvector(vload##n(at, p), float##n);                                                  \
    }                                                                                                               \
    __US_FN float##n vloada_half##n(size_t at, const S half *p)                                                     \
    {                                                                                                               \
        return __builtin_convertvector(vload##n(0, p + step * at), float##n);                                       \
    }
__US_LOAD_HALF(global) __US_LOAD_HALF(local) __US_LOAD_HALF(private) __US_LOAD_HALF(constant)
__US_GENERIC(__US_LOAD_HALF(generic))

#define __US_STORE_HALF(S, T, mode)                                                                                 \
    __US_FN void vstore_half##mode(T v, size_t at, S half *p) { p[at] = convert_half##mode(v); }                    \
    __US_FN void vstorea_half##mode(T v, size_t at, S half *p) { p[at] = convert_half##mode(v); }                   \
    __US_STORE_HALFS(S, T, mode, 2, 2) __US_STORE_HALFS(S, T, mode, 3, 4) __US_STORE_HALFS(S, T, mode, 4, 4)        \
    __US_STORE_HALFS(S, T, mode, 8, 8) __US_STORE_HALFS(S, T, mode, 16, 16)
#define __US_STORE_HALFS(S, T, mode, n, step)                                                                       \
    __US_FN void vstore_half##n##mode(T##n v, size_t at, S half *p)                                                 \
    {                                                                                                               \
        for (int i = 0; i < n; i++)                                                                                 \
            p[n * at + i] = convert_half##mode(v[i]);                                                               \
    }                                                                                                               \
    __US_FN void vstorea_half##n##mode(T##n v, size_t at, S half *p)                                                \
    {                                                                                                               \
        for (int i = 0; i < n; i++)                                                                                 \
            p[step * at + i] = convert_half##mode(v[i]);                                                            \
    }
#define __US_STORE_MODES(S, T)                                                                                      \
    __US_STORE_HALF(S, T, ) __US_STORE_HALF(S, T, _rte) __US_STORE_HALF(S, T, _rtz) __US_STORE_HALF(S, T, _rtp)     \
    __US_STORE_HALF(S, T, _rtn)
__US_STORE_MODES(global, float) __US_STORE_MODES(local, float) __US_STORE_MODES(private, float)
__US_STORE_MODES(global, double) __US_STORE_MODES(local, double) __US_STORE_MODES(private, double)
__US_GENERIC(__US_STORE_MODES(generic, float) __US_STORE_MODES(generic, double))

// ---- shuffles: of 2, 4, 8 and 16 elements, by the low bits of the mask ------------------------------------------------------------

#define __US_SHUFFLE(T, U, m, n)                                                                                    \
    __US_FN T##n shuffle(T##m a, U##n mask)                                                                         \
    {                                                                                                               \
        T##n r;                                                                                                     \
        for (int i = 0; i < n; i++)                                                                                 \
            r[i] = a[(uint)mask[i] & (m - 1)];                                                                      \
        return r;                                                                                                   \
    }                                                                                                               \
    __US_FN T##n shuffle2(T##m a, T##m b, U##n mask)                                                                \
    {                                                                                                               \
        T##n r;                                                                                                     \
        for (int i = 0; i < n; i++)                                                                                 \
            r[i] = (uint)mask[i] & m ? b[(uint)mask[i] & (m - 1)] : a[(uint)mask[i] & (m - 1)];                     \
        return r;                                                                                                   \
    }
#define __US_SHUFFLE_TO(T, U, n) \
    __US_SHUFFLE(T, U, 2, n) __US_SHUFFLE(T, U, 4, n) __US_SHUFFLE(T, U, 8, n) __US_SHUFFLE(T, U, 16, n)
#define __US_SHUFFLES(T, U) \
    __US_SHUFFLE_TO(T, U, 2) __US_SHUFFLE_TO(T, U, 4) __US_SHUFFLE_TO(T, U, 8) __US_SHUFFLE_TO(T, U, 16)
__US_SHUFFLES(char, uchar) __US_SHUFFLES(uchar, uchar) __US_SHUFFLES(short, ushort) __US_SHUFFLES(ushort, ushort)
__US_SHUFFLES(int, uint) __US_SHUFFLES(uint, uint) __US_SHUFFLES(long, ulong) __US_SHUFFLES(ulong, ulong)
__US_SHUFFLES(half, ushort) __US_SHUFFLES(float, uint) __US_SHUFFLES(double, ulong)

#endif
