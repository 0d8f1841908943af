// Which instruction sets the emitter may use, and how many lanes they have. TENON_ISA names a lower one than the
// machine's best. Tested by tests/emit_test.cc.
#include "jit/kernel.h"
#include "src/base/env.h"

namespace tenon::jit {

std::string_view isa_name(Isa isa) {
  static constexpr std::string_view kNames[] = {"sse2", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

int lanes(Isa isa) { return 4 << static_cast<int>(isa); }

namespace {

// __builtin_cpu_supports asks the operating system too: AVX counts only if its registers are saved.
Isa machine_isa() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
                    __builtin_cpu_supports("movbe");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::sse2;
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
