// A row that a later loop only copies is stored where it is computed; any other use of the local keeps it.
#include "jit/transform/cpu/direct_stores.h"

#include <gtest/gtest.h>

#include "jit/pipeline.h"

namespace tenon::jit {
namespace {

// Exponentials and their sum. `reader`: the loop behind the sum.
std::string kernel(const std::string& reader,
                   const std::string& buffers = "in %x: f32, out %y: f32, out %z: f32; local %t: f32[M]") {
  return "kernel @exponentials(N, M, K; " + buffers + R"() {
  par %i in N {
    %s = reduce add simd %j in M unroll 4 {
      %v = load %x[M*%i + %j]
      %e = exp %v
      store %t[%j], %e
      yield %e
    }
)" + reader +
         R"(    store %z[%i], %s
  }
}
)";
}

std::string passed(const std::string& text) {
  const auto result = run_kernel_pass("direct_stores", text);
  EXPECT_TRUE(result.ok()) << result.status().message() << "\n" << text;
  return result.ok() ? *result : "";
}

TEST(DirectStores, ACopyOfARowDisappears) {
  const std::string text = passed(
      kernel("    for simd %k in M {\n      %r = load %t[%k]\n      store %y[M*%i + %k], %r\n    }\n"));
  EXPECT_NE(text.find("store %y[s1*%i + %j], %e"), std::string::npos) << text;
  EXPECT_EQ(text.find("local"), std::string::npos) << text;
  EXPECT_EQ(text.find("for simd"), std::string::npos) << text;
}

TEST(DirectStores, TheRestOfTheLoopStays) {
  const std::string text =
      passed(kernel("    for simd %k in M {\n      %r = load %t[%k]\n      store %y[M*%i + %k], %r\n      %w "
                    "= load %x[M*%i + %k]\n"
                    "      %d = div %w, %s\n      store %q[M*%i + %k], %d\n    }\n",
                    "in %x: f32, out %y: f32, out %q: f32, out %z: f32; local %t: f32[M]"));
  EXPECT_NE(text.find("store %y[s1*%i + %j], %e"), std::string::npos) << text;
  EXPECT_NE(text.find("store %q[s1*%i + %k], %d"), std::string::npos) << text;
  EXPECT_EQ(text.find("local"), std::string::npos) << text;
}

TEST(DirectStores, OtherUsesKeepTheLocal) {
  for (const char* reader :
       {// another value of the row is stored
        "    for simd %k in M {\n      %r = load %t[%k]\n      %d = div %r, %s\n      store %y[M*%i + %k], "
        "%d\n    }\n",
        // the row is also used
        "    for simd %k in M {\n      %r = load %t[%k]\n      store %y[M*%i + %k], %r\n      %d = div %r, "
        "%s\n      store %x2[M*%i + %k], %d\n    }\n",
        // the row is read twice
        "    for simd %k in M {\n      %r = load %t[%k]\n      store %y[M*%i + %k], %r\n    }\n    for simd "
        "%l in M {\n      %u = load %t[%l]\n"
        "      store %x2[M*%i + %l], %u\n    }\n",
        // only a part of the row is copied
        "    for simd %k in K {\n      %r = load %t[%k]\n      store %y[M*%i + %k], %r\n    }\n",
        // the elements are read in another order
        "    for simd %k in M {\n      %r = load %t[2*%k]\n      store %y[M*%i + %k], %r\n    }\n"}) {
    const std::string text =
        kernel(reader, "in %x: f32, out %y: f32, out %x2: f32, out %z: f32; local %t: f32[M]");
    const std::string after = passed(text);
    EXPECT_NE(after.find("store %t[%j], %e"), std::string::npos) << after;
  }
}

}  // namespace
}  // namespace tenon::jit
