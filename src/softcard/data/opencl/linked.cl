// Atomic functions for sources of OpenCL C before 2.0, which lacks atomic types: compiled as 2.0, and linked with them.
#define __US_LINKED
#include "atomic.h"
