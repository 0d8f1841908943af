// Compares a kernel with its rewritten form, in the interpreter and as machine code. Used by the tests of jit/transform/cpu.
#pragma once

#include <functional>
#include <string>

#include "tests/support/kernel_run.h"
#include "tests/support/sanitized.h"

namespace tenon::jit {

inline Kernel parsed_kernel(const std::string& text) {
  Result<Kernel> k = parse_kernel(text);
  TENON_CHECK(k.ok(), k.status().message());
  TENON_CHECK(verify(*k).ok(), verify(*k).message());
  return *k;
}

// Checks that the kernel and its rewritten form give the same bits, in the interpreter and as machine code, for all values of two sizes.
inline void expect_same(const std::string& text, const std::function<Kernel(Kernel)>& rewritten) {
  const Kernel plain = parsed_kernel(text), changed = rewritten(plain);
  ASSERT_NE(print(plain), print(changed));
  ASSERT_EQ(verify(changed).message(), "") << print(changed);
  auto compiled = compile_for_all(changed);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (int64_t n : sampled<int64_t>({0, 1, 3, 4, 5, 17, 65, 63, 64, 130}))
    for (int64_t m : sampled<int64_t>({0, 1, 2, 7, 8, 9, 31, 33})) {
      KernelCase c;
      c.kernel = plain;
      c.sizes = {n, m};
      fill_tightly(c, static_cast<unsigned>(n + 1));
      BufferBytes want = c.data;
      ASSERT_EQ(interpret(plain, views(c, want), c.sizes).message(), "");
      c.kernel = changed;
      BufferBytes got = c.data;
      ASSERT_EQ(interpret(changed, views(c, got), c.sizes).message(), "") << print(changed);
      ASSERT_EQ(first_difference(c, got, want), "") << n << " " << m << print(changed);
      ASSERT_EQ(disagreement(c, *compiled), "") << n << " " << m << print(changed);
    }
}

}  // namespace tenon::jit
