// Functions that are compiled for each instruction set.
//
//   TENON_EACH_ISA(FUNCTIONS, NAME)  defines plain_NAME(), avx2_NAME() and avx512_NAME() by FUNCTIONS(name, target attribute, vector)
//   TENON_BY_ISA(NAME)               the result of the one for the instruction set that kernels use
#pragma once

#include "backends/inner/lanes.h"
#include "jit/llvm/compiler.h"

#if defined(__x86_64__)
#define TENON_EACH_ISA(FUNCTIONS, NAME)                                      \
  FUNCTIONS(plain_##NAME, , tenon::inner::Vector4)                           \
  FUNCTIONS(avx2_##NAME, [[gnu::target("avx2,fma")]], tenon::inner::Vector8) \
  FUNCTIONS(avx512_##NAME, [[gnu::target("avx512f,avx512vl,avx512dq,avx512bw,fma")]], tenon::inner::Vector16)
#define TENON_BY_ISA(NAME)                                             \
  (tenon::jit::host_isa() == tenon::jit::Isa::avx512 ? avx512_##NAME() \
   : tenon::jit::host_isa() == tenon::jit::Isa::avx2 ? avx2_##NAME()   \
                                                     : plain_##NAME())
#else
#define TENON_EACH_ISA(FUNCTIONS, NAME) FUNCTIONS(plain_##NAME, , tenon::inner::Vector4)
#define TENON_BY_ISA(NAME) plain_##NAME()
#endif
