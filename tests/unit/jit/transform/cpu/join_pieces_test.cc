// The pieces of a concatenation that read the same elements are one kernel; other kernels stay as they are.
#include "jit/transform/cpu/join_pieces.h"

#include <gtest/gtest.h>

#include "jit/kernel/walk.h"
#include "tests/support/graph_check.h"
#include "tests/support/group_kernels.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

using jit::LoweredKernel;

// A rotary embedding of rows of D elements, whose first part has `cut` elements.
std::string rotary(const std::string& d, const std::string& cut, const std::string& type = "f32") {
  const auto vector = "[N," + d + "]";
  return "graph @f(%x: " + type + "[B,N," + d + "], %c: " + type + vector + ", %s: " + type + vector +
         ") {\n  %a = slice(%x){axis=2, start=0, end=" + cut + "}\n  %b = slice(%x){axis=2, start=" + cut +
         ", end=" + d + R"(}
  %n = neg(%b)
  %r = concat(%n, %a){axis=2}
  %p = mul(%x, %c)
  %q = mul(%r, %s)
  %y = add(%p, %q)
  return %y
})";
}

// Each half of the result is a function of both inputs, or of one of them.
std::string halves(const std::string& second) {
  return R"(graph @f(%x: f32[N,8], %z: f32[N,8]) {
  %p = mul(%x, %z)
  %q = )" +
         second +
         R"(
  %y = concat(%p, %q){axis=1}
  return %y
})";
}

// A kernel over N elements. values: what its buffers hold, in order.
LoweredKernel map(const std::string& body, const std::string& buffers, std::vector<ValueId> values, Dim n) {
  auto kernel =
      jit::parse_kernel("kernel @k(N; " + buffers + ") {\n  par simd %i in N {\n" + body + "  }\n}\n");
  TENON_CHECK(kernel.ok(), kernel.status().message());
  TENON_CHECK(verify(*kernel).ok(), verify(*kernel).message());
  LoweredKernel lowered{*kernel, {n}, {}};
  lowered.buffers.assign(values.begin(), values.end());
  return lowered;
}

std::string negated(const std::string& in, const std::string& out) {
  return "    %v = load %" + in + "[%i]\n    %n = neg %v\n    store %" + out + "[%i], %n\n";
}

int statements(const LoweredKernel& kernel, jit::Stmt::Kind kind) {
  int count = 0;
  jit::each_stmt(kernel.kernel.body, [&](const jit::Stmt& s) { count += s.kind == kind; });
  return count;
}

TEST(JoinPieces, HalvesOfARotaryEmbeddingAreOneKernel) {
  const auto kernels = kernels_of(parsed(rotary("64", "32")));
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(statements(kernels[0], jit::Stmt::Kind::load), 6) << print(kernels[0].kernel);
  EXPECT_EQ(statements(kernels[0], jit::Stmt::Kind::store), 2);
  EXPECT_TRUE(verify(kernels[0].kernel).ok());
}

TEST(JoinPieces, OtherPiecesAreKernelsOfTheirOwn) {
  EXPECT_EQ(kernels_of(parsed(rotary("64", "24"))).size(), 2u);  // of different lengths
  EXPECT_EQ(kernels_of(parsed(halves("add(%x, %z)"))).size(), 1u);
  EXPECT_EQ(kernels_of(parsed(halves("neg(%z)"))).size(), 1u);
  EXPECT_EQ(kernels_of(parsed(halves("full{value=1.0, shape=[N,8], dtype=f32}"))).size(),
            2u);  // read nothing
}

// The parts of a stack along the last axis share no element, but every line of the output.
TEST(JoinPieces, PartsThatStoreBetweenEachOther) {
  const auto stacked = [](const std::string& parts, const std::string& axis) {
    return parsed(
        "graph @f(%x: f32[N,8], %z: f32[N,8], %v: f32[N,8], %w: f32[N,8]) {\n  %a = neg(%x)\n  %b = "
        "abs(%z)\n" +
        parts + "  %y = concat(%p, %q, %r){axis=" + axis + "}\n  return %y\n}");
  };
  const auto part = [](const std::string& name, const std::string& of, const std::string& shape) {
    return "  %" + name + " = reshape(%" + of + "){shape=" + shape + "}\n";
  };
  const auto parts = [&](const std::string& shape) {
    return part("p", "a", shape) + part("q", "b", shape) + part("r", "v", shape);
  };
  const Graph between = stacked(parts("[N,8,1]"), "2"), behind = stacked(parts("[N,1,8]"), "1");
  EXPECT_EQ(kernels_of(between).size(), 1u);
  EXPECT_EQ(kernels_of(behind).size(), 3u);
  std::vector<HostTensor> inputs = random_inputs(between);
  const CheckResult result = check_program(between, inputs);
  EXPECT_EQ(result.kind, CheckResult::right) << result.message;
}

TEST(JoinPieces, KernelsThatDependOnEachOtherOrLoopOtherwiseStay) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  const std::string buffers = "in %x: f32, out %y: f32";
  const LoweredKernel first = map(negated("x", "y"), buffers, {0, 1}, n);
  EXPECT_EQ(jit::join_pieces({first, map(negated("x", "y"), buffers, {0, 2}, n)}).size(), 1u);
  EXPECT_EQ(jit::join_pieces({first, map(negated("x", "y"), buffers, {1, 2}, n)}).size(), 2u);
  EXPECT_EQ(jit::join_pieces({first, map(negated("x", "y"), buffers, {3, 2}, n)}).size(), 2u);
  EXPECT_EQ(jit::join_pieces({first, map(negated("x", "y"), buffers, {0, 2}, dims.symbol("M"))}).size(), 2u);
  LoweredKernel again = map(negated("x", "y"), buffers, {0, 1}, n);
  again.writes_again = true;
  EXPECT_EQ(jit::join_pieces({first, again}).size(), 2u);
}

TEST(JoinPieces, OnlyInputsThatBothKernelsReadInPlaceStaySo) {
  DimTable dims;
  const Dim n = dims.symbol("N");
  const std::string buffers = "in %x: f32, in %z: f32, out %y: f32";
  const std::string body = "    %w = load %z[%i]\n" + negated("x", "y");
  for (const bool both : {false, true}) {
    LoweredKernel first = map(body, buffers, {0, 1, 2}, n), second = map(body, buffers, {0, 3, 4}, n);
    first.inplace = {0, 1};
    second.inplace = {3};
    if (both) second.inplace.push_back(0);
    const auto joined = jit::join_pieces({first, second});
    ASSERT_EQ(joined.size(), 1u);
    std::vector<ValueId> inplace = joined[0].inplace;
    std::ranges::sort(inplace);
    EXPECT_EQ(inplace, both ? (std::vector<ValueId>{0, 1, 3}) : (std::vector<ValueId>{1, 3}));
  }
}

TEST(JoinPieces, ManyPiecesAreSeveralKernels) {
  DimTable dims;
  std::vector<LoweredKernel> pieces;
  for (ValueId i = 1; i <= 20; ++i)
    pieces.push_back(map(negated("x", "y"), "in %x: f32, out %y: f32", {0, i}, dims.symbol("N")));
  const auto joined = jit::join_pieces(pieces);
  EXPECT_GT(joined.size(), 1u);
  EXPECT_LT(joined.size(), 4u);
  for (const LoweredKernel& k : joined) EXPECT_TRUE(verify(k.kernel).ok()) << print(k.kernel);
}

TEST(JoinPieces, BuffersOfOneNameAreRenamed) {
  const Graph graph = parsed(R"(graph @f(%x: f32[N,8], %a: f32[], %b: f32[], %c: f32[]) {
  %p = mul(%x, %a)
  %q = mul(%x, %b)
  %r = mul(%x, %c)
  %y = concat(%p, %q, %r){axis=1}
  return %y
})");
  const auto kernels = kernels_of(graph);
  ASSERT_EQ(kernels.size(), 1u);
  const Status valid = verify(kernels[0].kernel);
  EXPECT_TRUE(valid.ok()) << valid.message() << "\n" << print(kernels[0].kernel);
  std::vector<HostTensor> inputs = random_inputs(graph);
  const CheckResult result = check_program(graph, inputs);
  EXPECT_EQ(result.kind, CheckResult::right) << result.message;
}

TEST(JoinPieces, ResultsAreTheEvaluators) {
  for (const char* type : {"f32", "bf16", "f16", "f64"})
    for (const int64_t rows : {1, 3, 70})
      for (const auto& [d, cut] : {std::pair{"6", "3"}, {"64", "32"}, {"64", "24"}}) {
        const Graph graph = parsed(rotary(d, cut, type));
        const DType dtype = graph.type(graph.inputs[0].value).dtype;
        const int64_t width = std::stoll(d);
        std::vector<HostTensor> inputs{random_tensor(dtype, {2, rows, width}, 1),
                                       random_tensor(dtype, {rows, width}, 2),
                                       random_tensor(dtype, {rows, width}, 3)};
        const CheckResult result = check_program(graph, inputs);
        EXPECT_EQ(result.kind, CheckResult::right) << type << rows << d << result.message;
      }
}

}  // namespace
}  // namespace tenon
