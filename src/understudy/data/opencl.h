// OpenCL C for AMD GPUs without a device library: the built-in functions, as code that is inlined. Understudy's compile()
// puts it in front of a source; any clang with the AMDGPU target takes it, together with -cl-no-stdinc -nogpulib.
// __UNDERSTUDY_CODE_OBJECT__ is the code object version.
#ifndef UNDERSTUDY_OPENCL_H
#define UNDERSTUDY_OPENCL_H

#ifndef __UNDERSTUDY_CODE_OBJECT__
#define __UNDERSTUDY_CODE_OBJECT__ 5
#endif
#pragma OPENCL FP_CONTRACT OFF
#include "opencl/types.h"
#include "opencl/work_item.h"
#include "opencl/atomic.h"
#include "opencl/integer.h"
#include "opencl/relational.h"
#include "opencl/convert.h"
#include "opencl/math.h"
#include "opencl/memory.h"
#include "opencl/group.h"
#include "opencl/image.h"
#include "opencl/printf.h"
#pragma OPENCL FP_CONTRACT ON

#endif
