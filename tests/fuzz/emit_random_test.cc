// Random kernels (kernel_gen.h): compares machine code with the interpreter, bit for bit, on every instruction set.
// TENON_TEST_KERNELS is the number of kernels (default 60), TENON_TEST_SEED the seed of the first one.
#include <gtest/gtest.h>

#include "tests/support/kernel_run.h"

namespace tenon::jit {
namespace {

int64_t environment_number(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : fallback;
}

TEST(EmitRandom, MachineCodeAgrees) {
  const int64_t first = environment_number("TENON_TEST_SEED", 1),
                count = environment_number("TENON_TEST_KERNELS", 60);
  int failures = 0;
  for (int64_t seed = first; seed < first + count && failures < 5; ++seed) {
    KernelCase c = random_kernel(static_cast<uint64_t>(seed), seed % 2, seed % 4 < 2);
    auto compiled = compile_for_all(c.kernel);
    std::string wrong = compiled.ok() ? disagreement(c, *compiled) : compiled.status().message();
    if (wrong.empty()) continue;
    ++failures;
    std::string sizes;
    for (size_t i = 0; i < c.sizes.size(); ++i)
      sizes += c.kernel.sizes[i] + "=" + std::to_string(c.sizes[i]) + " ";
    ADD_FAILURE() << "TENON_TEST_SEED=" << seed << " " << sizes << "\n" << wrong << "\n" << print(c.kernel);
  }
}

}  // namespace
}  // namespace tenon::jit
