// TENON_BY_ISA(NAME): the result of plain_NAME(), avx2_NAME() or avx512_NAME(), whose code is for the instruction set that kernels use.
#pragma once

#include "jit/llvm/compiler.h"

#if defined(__x86_64__)
#define TENON_BY_ISA(NAME)                                             \
  (tenon::jit::host_isa() == tenon::jit::Isa::avx512 ? avx512_##NAME() \
   : tenon::jit::host_isa() == tenon::jit::Isa::avx2 ? avx2_##NAME()   \
                                                     : plain_##NAME())
#else
#define TENON_BY_ISA(NAME) plain_##NAME()
#endif
