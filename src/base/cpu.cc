// See cpu.h.
#include "src/base/cpu.h"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

struct Feature {
  std::string_view name;
  bool here;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = [] {
    std::vector<Feature> list;
#if defined(__x86_64__)
    __builtin_cpu_init();
    list.push_back({"x86-64", true});
#define FEATURE(feature) list.push_back({feature, __builtin_cpu_supports(feature) != 0});
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
#endif
    return list;
  }();
  return all;
}

bool has(std::string_view name) {
  const auto found = std::ranges::find(features(), name, &Feature::name);
  return found != features().end() && found->here;
}

}  // namespace

std::string cpu_lacks(std::string_view names) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (!has(names.substr(0, comma))) return std::string(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return {};
}

std::string cpu_has() {
  std::string list;
  for (const Feature& feature : features())
    if (feature.here) list += (list.empty() ? "" : ",") + std::string(feature.name);
  return list;
}

}  // namespace tenon
