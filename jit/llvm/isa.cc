// isa: the instruction sets that the emitter may use, and their lanes. TENON_ISA forces a lower one than the
// machine's best. Tested by tests/unit/jit/llvm/emit_test.cc.
#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "src/base/cpu.h"
#include "src/base/env.h"

namespace tenon::jit {

std::string_view isa_name(Isa isa) {
  static constexpr std::string_view kNames[] = {"sse2", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

// The instruction sets of LLVM's x86-64, x86-64-v3 and x86-64-v4, which the emitter names, beyond those that
// every x86-64 has.
std::string_view isa_needs(Isa isa) {
  static constexpr std::string_view kNeeds[] = {
      "x86-64", "avx2,fma,bmi,bmi2,f16c,lzcnt,movbe",
      "avx2,fma,bmi,bmi2,f16c,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"};
  return kNeeds[static_cast<int>(isa)];
}

int lanes(Isa isa) { return 4 << static_cast<int>(isa); }

namespace {

Isa machine_isa() {
  for (Isa isa : {Isa::avx512, Isa::avx2})
    if (cpu_lacks(isa_needs(isa)).empty()) return isa;
  return Isa::sse2;
}

}  // namespace

Isa host_isa() {
  static const Isa isa = [] {
    Isa best = machine_isa();
    const std::string wanted = env::isa();
    for (Isa lower : {Isa::sse2, Isa::avx2})
      if (wanted == isa_name(lower) && lower < best) best = lower;
    return best;
  }();
  return isa;
}

}  // namespace tenon::jit
