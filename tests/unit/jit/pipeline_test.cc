// The script of the kernel compiler: single passes on texts, and random kernels, which give the same bits after passes that keep every
// bit.
#include "jit/pipeline.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/kernel_gen.h"
#include "tests/support/kernel_run.h"
#include "tests/support/nvidia/cuda_variant.h"
#include "tests/support/sanitized.h"

namespace tenon::jit {
namespace {

constexpr const char* kColumns =
    "kernel @columns(N, M; in %x: f32, out %y: f32) {\n"
    "  par simd %j in M {\n"
    "    %s = reduce add %i in N {\n"
    "      %v = load %x[M*%i + %j]\n"
    "      yield %v\n"
    "    }\n"
    "    store %y[%j], %s\n"
    "  }\n"
    "}\n";

TEST(KernelPass, RunsOnText) {
  const auto tiled = run_kernel_pass("tile_columns", kColumns);
  ASSERT_TRUE(tiled.ok()) << tiled.status().message();
  EXPECT_NE(tiled->find("in M by 256"), std::string::npos) << *tiled;
  const auto halves = run_kernel_pass("split_reduction_gpu", kColumns);
  ASSERT_TRUE(halves.ok()) << halves.status().message();
  EXPECT_NE(halves->find("kernel @columns"), std::string::npos);
  const auto same = run_kernel_pass("merge_map", kColumns);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(*same, kColumns) << "a pass that changes nothing prints the kernel";
}

TEST(KernelPass, RefusesOtherNamesAndTexts) {
  const auto unknown = run_kernel_pass("tile_column", kColumns);
  EXPECT_EQ(unknown.status().code(), tenon::Code::invalid);
  EXPECT_NE(unknown.status().message().find("tile_columns"), std::string::npos) << unknown.status().message();
  EXPECT_EQ(run_kernel_pass("merge_map", "kernel @k").status().code(), tenon::Code::invalid);
}

TEST(KernelPass, RandomKernelsKeepEveryBit) {
  int changed = 0;
  for (int seed = 1; seed <= rounds(400); ++seed) {
    const KernelCase c = random_kernel(seed);
    BufferBytes want = c.data;
    ASSERT_TRUE(interpret(c.kernel, views(c, want), c.sizes).ok());
    for (const char* pass : {"merge_map", "expand_math"}) {
      const auto text = run_kernel_pass(pass, print(c.kernel));
      ASSERT_TRUE(text.ok()) << text.status().message();
      const auto kernel = parse_kernel(*text);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      changed += *text != print(c.kernel);
      BufferBytes got = c.data;
      ASSERT_TRUE(interpret(*kernel, views(c, got), c.sizes).ok()) << *text;
      ASSERT_EQ(first_difference(c, got, want), "") << seed << " " << pass << "\n" << *text;
    }
  }
  EXPECT_GT(changed, rounds(50));
}

TEST(KernelVariant, NamesThePassesThatMadeIt) {
  const auto kernel = parse_kernel(
      "kernel @rows(N, M; in %x: f32, in %b: f32, out %y: f32) {\n"
      "  par %i in N {\n"
      "    for simd %j in M {\n"
      "      %v = load %x[M*%i + %j]\n"
      "      %w = load %b[%j]\n"
      "      %s = add %v, %w\n"
      "      store %y[M*%i + %j], %s\n"
      "    }\n"
      "  }\n"
      "}\n");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const KernelVariant few = variant_of(*kernel, std::vector<int64_t>{2, 1 << 20}, {}),
                      many = variant_of(*kernel, std::vector<int64_t>{1 << 12, 64}, {});
  EXPECT_EQ(describe(few).substr(describe(few).find(" after")), " after merge_map") << describe(few);
  EXPECT_TRUE(few.kernel->body[0].simd);
  EXPECT_TRUE(many.passes.empty()) << describe(many);
  EXPECT_FALSE(same_code(few, many));
  EXPECT_TRUE(same_code(few, variant_of(*kernel, std::vector<int64_t>{2, 1 << 20}, {})));
}

}  // namespace
}  // namespace tenon::jit
