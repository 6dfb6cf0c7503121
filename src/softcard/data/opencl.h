// OpenCL C for AMD GPUs without a device library: the built-in functions, as code that is inlined. Softcard's compile()
// puts it in front of a source; any clang with the AMDGPU target takes it, together with -cl-no-stdinc -nogpulib.
// __SOFTCARD_CODE_OBJECT__ is the code object version.
#ifndef SOFTCARD_OPENCL_H
#define SOFTCARD_OPENCL_H

#ifndef __SOFTCARD_CODE_OBJECT__
#define __SOFTCARD_CODE_OBJECT__ 5
#endif
// Warnings are for the user's code: with -Werror, those of these headers would refuse every source.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#pragma OPENCL FP_CONTRACT OFF
// The functions carry rounding errors along, which reassociation would take for 0.
#ifdef __SOFTCARD_REASSOCIATE__
#pragma clang fp reassociate(off)
#endif
#include "opencl/types.h"
#include "opencl/work_item.h"
#include "opencl/atomic.h"
#include "opencl/integer.h"
#include "opencl/relational.h"
#include "opencl/convert.h"
#include "opencl/math.h"
#include "opencl/media.h"
#include "opencl/memory.h"
#include "opencl/group.h"
#if __US_STANDARD >= 200
#include "opencl/bits.h"
#include "opencl/sub_group.h"
#endif
#include "opencl/image.h"
#include "opencl/printf.h"
#include "opencl/standard_end.h"
#ifdef __SOFTCARD_REASSOCIATE__
#pragma clang fp reassociate(on)
#endif
#pragma OPENCL FP_CONTRACT ON
#pragma clang diagnostic pop

#endif
