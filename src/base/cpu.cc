// See cpu.h.
#include "src/base/cpu.h"

#include <algorithm>

namespace tenon {
namespace {

bool cpu_has(std::string_view name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#define FEATURE(feature) \
  if (name == feature) return __builtin_cpu_supports(feature);
  FEATURE("avx2")
  FEATURE("fma")
  FEATURE("bmi")
  FEATURE("bmi2")
  FEATURE("f16c")
  FEATURE("lzcnt")
  FEATURE("movbe")
  FEATURE("avx512f")
  FEATURE("avx512bw")
  FEATURE("avx512cd")
  FEATURE("avx512dq")
  FEATURE("avx512vl")
  FEATURE("amx-bf16")
#undef FEATURE
  return name == "x86-64";
#else
  return name.empty();
#endif
}

}  // namespace

std::string cpu_lacks(std::string_view names) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (!cpu_has(names.substr(0, comma))) return std::string(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return {};
}

}  // namespace tenon
