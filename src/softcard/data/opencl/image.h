// Images and samplers: an image is the address of its resource (T#), a sampler that of its own (S#).
//
// Behind the 8 dwords of a resource stand the type and order of its channels, and the width of a 1D buffer, which has a V#.
#ifndef SOFTCARD_OPENCL_IMAGE_H
#define SOFTCARD_OPENCL_IMAGE_H
#include "types.h"
#include "convert.h"

#define CLK_NORMALIZED_COORDS_FALSE 0
#define CLK_NORMALIZED_COORDS_TRUE 1
#define CLK_ADDRESS_NONE 0
#define CLK_ADDRESS_CLAMP_TO_EDGE 2
#define CLK_ADDRESS_CLAMP 4
#define CLK_ADDRESS_REPEAT 6
#define CLK_ADDRESS_MIRRORED_REPEAT 8
#define CLK_FILTER_NEAREST 0x10
#define CLK_FILTER_LINEAR 0x20

#define CLK_SNORM_INT8 0x10D0
#define CLK_SNORM_INT16 0x10D1
#define CLK_UNORM_INT8 0x10D2
#define CLK_UNORM_INT16 0x10D3
#define CLK_UNORM_SHORT_565 0x10D4
#define CLK_UNORM_SHORT_555 0x10D5
#define CLK_UNORM_INT_101010 0x10D6
#define CLK_SIGNED_INT8 0x10D7
#define CLK_SIGNED_INT16 0x10D8
#define CLK_SIGNED_INT32 0x10D9
#define CLK_UNSIGNED_INT8 0x10DA
#define CLK_UNSIGNED_INT16 0x10DB
#define CLK_UNSIGNED_INT32 0x10DC
#define CLK_HALF_FLOAT 0x10DD
#define CLK_FLOAT 0x10DE
#define CLK_R 0x10B0
#define CLK_A 0x10B1
#define CLK_RG 0x10B2
#define CLK_RA 0x10B3
#define CLK_RGB 0x10B4
#define CLK_RGBA 0x10B5
#define CLK_BGRA 0x10B6
#define CLK_ARGB 0x10B7
#define CLK_INTENSITY 0x10B8
#define CLK_LUMINANCE 0x10B9
#define CLK_Rx 0x10BA
#define CLK_RGx 0x10BB
#define CLK_RGBx 0x10BC
#define CLK_DEPTH 0x10BD
#define CLK_sRGB 0x10BF
#define CLK_sRGBx 0x10C0
#define CLK_sRGBA 0x10C1
#define CLK_sBGRA 0x10C2

// The compiler's names of the instructions; since clang 22 they say the types of the resources as well.
#if __clang_major__ >= 22
#define __US_T ".v8i32"
#define __US_TS ".v8i32.v4i32"
#else
#define __US_T
#define __US_TS
#endif
#define __US_RESOURCE(image) (*__builtin_astype(image, constant int8 *))
#define __US_SAMPLER(s) (*__builtin_astype(s, constant int4 *))
#define __US_DWORD(image, n) (((constant uint *)__builtin_astype(image, constant int8 *))[n])

// Images that a kernel reads and writes: only standards since 2.0 have them.
#if __US_STANDARD >= 200
#define __US_READ_WRITE(declarations) declarations
#else
#define __US_READ_WRITE(declarations)
#endif

// Of one shape. floats, ints: types of coordinates; takes_*: parameters of instructions; gives: their arguments.
#define __US_IMAGE(shape, image, floats, ints, takes_floats, takes_ints, gives)                                          \
    __attribute__((const)) float4 __us_sample_##shape(int mask, takes_floats, int8 resource, int4 sampler, bool unorm,  \
                                                      int fail, int cache)                                              \
        __asm("llvm.amdgcn.image.sample.lz." #shape ".v4f32.f32" __US_TS);                                              \
    __attribute__((pure)) float4 __us_load_##shape(int mask, takes_ints, int8 resource, int fail, int cache)            \
        __asm("llvm.amdgcn.image.load." #shape ".v4f32.i32" __US_T);                                                    \
    void __us_store_##shape(float4 v, int mask, takes_ints, int8 resource, int fail, int cache)                         \
        __asm("llvm.amdgcn.image.store." #shape ".v4f32.i32" __US_T);                                                   \
    __US_FN float4 read_imagef(read_only image i, sampler_t s, floats c)                                                \
    {                                                                                                                   \
        return __us_sample_##shape(15, gives(c), __US_RESOURCE(i), __US_SAMPLER(s), 0, 0, 0);                              \
    }                                                                                                                   \
    __US_FN float4 read_imagef(read_only image i, sampler_t s, ints at)                                                 \
    {                                                                                                                   \
        floats c = convert_##floats(at);                                                                                \
        return __us_sample_##shape(15, gives(c), __US_RESOURCE(i), __US_SAMPLER(s), 0, 0, 0);                              \
    }                                                                                                                   \
    __US_READ(image, read_only, sampler_t s, floats c, (i, s, c))                                                       \
    __US_READ(image, read_only, sampler_t s, ints c, (i, s, c))                                                         \
    __US_LOAD(shape, image, read_only, ints, gives) __US_STORE(shape, image, write_only, ints, gives)                   \
    __US_READ_WRITE(__US_LOAD(shape, image, read_write, ints, gives) __US_STORE(shape, image, read_write, ints, gives))
#define __US_LOAD(shape, image, access, ints, gives)                                                                    \
    __US_FN float4 read_imagef(access image i, ints c) { return __us_load_##shape(15, gives(c), __US_RESOURCE(i), 0, 0); } \
    __US_FN int4 read_imagei(access image i, ints c) { return as_int4(read_imagef(i, c)); }                             \
    __US_FN uint4 read_imageui(access image i, ints c) { return as_uint4(read_imagef(i, c)); }                          \
    __US_FN half4 read_imageh(access image i, ints c) { return convert_half4(read_imagef(i, c)); }
#define __US_READ(image, access, sampler, coordinate, call)                                                             \
    __US_FN int4 read_imagei(access image i, sampler, coordinate) { return as_int4(read_imagef call); }                 \
    __US_FN uint4 read_imageui(access image i, sampler, coordinate) { return as_uint4(read_imagef call); }              \
    __US_FN half4 read_imageh(access image i, sampler, coordinate) { return convert_half4(read_imagef call); }
#define __US_STORE(shape, image, access, ints, gives)                                                                   \
    __US_FN void write_imagef(access image i, ints c, float4 v)                                                         \
    {                                                                                                                   \
        __us_store_##shape(v, 15, gives(c), __US_RESOURCE(i), 0, 0);                                                       \
    }                                                                                                                   \
    __US_FN void write_imagei(access image i, ints c, int4 v) { write_imagef(i, c, as_float4(v)); }                     \
    __US_FN void write_imageui(access image i, ints c, uint4 v) { write_imagef(i, c, as_float4(v)); }                   \
    __US_FN void write_imageh(access image i, ints c, half4 v) { write_imagef(i, c, convert_float4(v)); }

#define __US_GIVES1(c) c
#define __US_GIVES2(c) c.x, c.y
#define __US_GIVES3(c) c.x, c.y, c.z
#define __US_TAKES1(T) T x
#define __US_TAKES2(T) T x, T y
#define __US_TAKES3(T) T x, T y, T z
__US_IMAGE(1d, image1d_t, float, int, __US_TAKES1(float), __US_TAKES1(int), __US_GIVES1)
__US_IMAGE(1darray, image1d_array_t, float2, int2, __US_TAKES2(float), __US_TAKES2(int), __US_GIVES2)
__US_IMAGE(2d, image2d_t, float2, int2, __US_TAKES2(float), __US_TAKES2(int), __US_GIVES2)
__US_IMAGE(2darray, image2d_array_t, float4, int4, __US_TAKES3(float), __US_TAKES3(int),
           __US_GIVES3)
__US_IMAGE(3d, image3d_t, float4, int4, __US_TAKES3(float), __US_TAKES3(int), __US_GIVES3)

// 1D buffers: by a V#.
__attribute__((pure)) float4 __us_load_buffer(int4 resource, int index, int offset, int base, int cache)
    __asm("llvm.amdgcn.struct.buffer.load.format.v4f32");
void __us_store_buffer(float4 v, int4 resource, int index, int offset, int base, int cache)
    __asm("llvm.amdgcn.struct.buffer.store.format.v4f32");
#define __us_load_1dbuffer(mask, at, resource, fail, cache) __us_load_buffer(resource.lo, at, 0, 0, 0)
#define __us_store_1dbuffer(v, mask, at, resource, fail, cache) __us_store_buffer(v, resource.lo, at, 0, 0, 0)
__US_LOAD(1dbuffer, image1d_buffer_t, read_only, int, __US_GIVES1)
__US_STORE(1dbuffer, image1d_buffer_t, write_only, int, __US_GIVES1)
__US_READ_WRITE(__US_LOAD(1dbuffer, image1d_buffer_t, read_write, int, __US_GIVES1)
                __US_STORE(1dbuffer, image1d_buffer_t, read_write, int, __US_GIVES1))

// Images of depths: a texel is one number.
#ifdef cl_khr_depth_images
#define __US_DEPTH_LOAD(shape, image, access, ints, gives)                                                              \
    __US_FN float read_imagef(access image i, ints c)                                                                   \
    {                                                                                                                   \
        return __us_load_##shape(15, gives(c), __US_RESOURCE(i), 0, 0).x;                                               \
    }
#define __US_DEPTH_STORE(shape, image, access, ints, gives)                                                             \
    __US_FN void write_imagef(access image i, ints c, float v)                                                          \
    {                                                                                                                   \
        __us_store_##shape((float4)(v), 15, gives(c), __US_RESOURCE(i), 0, 0);                                          \
    }
#define __US_DEPTH(shape, image, floats, ints, gives)                                                                   \
    __US_FN float read_imagef(read_only image i, sampler_t s, floats c)                                                 \
    {                                                                                                                   \
        return __us_sample_##shape(15, gives(c), __US_RESOURCE(i), __US_SAMPLER(s), 0, 0, 0).x;                         \
    }                                                                                                                   \
    __US_FN float read_imagef(read_only image i, sampler_t s, ints at)                                                  \
    {                                                                                                                   \
        return read_imagef(i, s, convert_##floats(at));                                                                 \
    }                                                                                                                   \
    __US_DEPTH_LOAD(shape, image, read_only, ints, gives) __US_DEPTH_LOAD(shape, image, read_write, ints, gives)        \
    __US_DEPTH_STORE(shape, image, write_only, ints, gives) __US_DEPTH_STORE(shape, image, read_write, ints, gives)
__US_DEPTH(2d, image2d_depth_t, float2, int2, __US_GIVES2)
__US_DEPTH(2darray, image2d_array_depth_t, float4, int4, __US_GIVES3)
#endif

// ---- what an image says of itself ----------------------------------------------------------------------------------------------

// Types and orders of channels stand in an object by HSA's numbers: the low bytes of OpenCL's.
static constant uchar __us_types[16] = {0xd0, 0xd1, 0xd2, 0xd3, 0xdf, 0xd5, 0xd4, 0xd6,
                                        0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde};
static constant uchar __us_orders[32] = {0xb1, 0xb0, 0xba, 0xb2, 0xbb, 0xb3, 0xb4, 0xbc, 0xb5, 0xb6,
                                         0xb7, 0xc3, 0xbf, 0xc0, 0xc1, 0xc2, 0xb8, 0xb9, 0xbd, 0xbe};
#define __US_IMAGE_SIZE(f, T, image, expression)                                                                        \
    __US_FN T f(read_only image i) { return expression; }                                                               \
    __US_FN T f(write_only image i) { return expression; }                                                              \
    __US_READ_WRITE(__US_FN T f(read_write image i) { return expression; })
#define __US_IMAGE_WIDTH (int)((__US_DWORD(i, 2) & 0x3fff) + 1)
#define __US_IMAGE_HEIGHT (int)((__US_DWORD(i, 2) >> 14 & 0x3fff) + 1)
#define __US_IMAGE_SLICES (int)((__US_DWORD(i, 4) & 0x1fff) + 1)
#define __US_IMAGE_FACTS(image, width)                                                                                  \
    __US_IMAGE_SIZE(get_image_width, int, image, width)                                                                 \
    __US_IMAGE_SIZE(get_image_channel_data_type, int, image, 0x1000 | __us_types[__US_DWORD(i, 8) & 15])                                     \
    __US_IMAGE_SIZE(get_image_channel_order, int, image, 0x1000 | __us_orders[__US_DWORD(i, 9) & 31])
__US_IMAGE_FACTS(image1d_t, __US_IMAGE_WIDTH) __US_IMAGE_FACTS(image1d_array_t, __US_IMAGE_WIDTH)
__US_IMAGE_FACTS(image2d_t, __US_IMAGE_WIDTH) __US_IMAGE_FACTS(image2d_array_t, __US_IMAGE_WIDTH)
__US_IMAGE_FACTS(image3d_t, __US_IMAGE_WIDTH) __US_IMAGE_FACTS(image1d_buffer_t, (int)__US_DWORD(i, 10))
__US_IMAGE_SIZE(get_image_height, int, image2d_t, __US_IMAGE_HEIGHT)
__US_IMAGE_SIZE(get_image_height, int, image2d_array_t, __US_IMAGE_HEIGHT)
__US_IMAGE_SIZE(get_image_height, int, image3d_t, __US_IMAGE_HEIGHT)
__US_IMAGE_SIZE(get_image_depth, int, image3d_t, __US_IMAGE_SLICES)
__US_IMAGE_SIZE(get_image_array_size, size_t, image1d_array_t, __US_IMAGE_SLICES)
__US_IMAGE_SIZE(get_image_array_size, size_t, image2d_array_t, __US_IMAGE_SLICES)
__US_IMAGE_SIZE(get_image_dim, int2, image2d_t, (int2)(__US_IMAGE_WIDTH, __US_IMAGE_HEIGHT))
__US_IMAGE_SIZE(get_image_dim, int2, image2d_array_t, (int2)(__US_IMAGE_WIDTH, __US_IMAGE_HEIGHT))
__US_IMAGE_SIZE(get_image_dim, int4, image3d_t, (int4)(__US_IMAGE_WIDTH, __US_IMAGE_HEIGHT, __US_IMAGE_SLICES, 0))
#ifdef cl_khr_depth_images
__US_IMAGE_FACTS(image2d_depth_t, __US_IMAGE_WIDTH) __US_IMAGE_FACTS(image2d_array_depth_t, __US_IMAGE_WIDTH)
__US_IMAGE_SIZE(get_image_height, int, image2d_depth_t, __US_IMAGE_HEIGHT)
__US_IMAGE_SIZE(get_image_height, int, image2d_array_depth_t, __US_IMAGE_HEIGHT)
__US_IMAGE_SIZE(get_image_array_size, size_t, image2d_array_depth_t, __US_IMAGE_SLICES)
__US_IMAGE_SIZE(get_image_dim, int2, image2d_depth_t, (int2)(__US_IMAGE_WIDTH, __US_IMAGE_HEIGHT))
__US_IMAGE_SIZE(get_image_dim, int2, image2d_array_depth_t, (int2)(__US_IMAGE_WIDTH, __US_IMAGE_HEIGHT))
#endif

#endif
