// Specs and problems of cuBLASLt: which groups the library can express, and the matrices of a problem at concrete sizes: transposes
// and views that are read in place, batches, vectors, empty sums.
#include "backends/nvidia/cublaslt/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "backends/nvidia/cublaslt/problem.h"
#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon::cublaslt {
namespace {

using testing::HasSubstr;

Graph parsed(const std::string& text) {
  auto graph = parse_graph(text);
  TENON_CHECK(graph.ok(), graph.status().message());
  return *graph;
}

std::optional<Dims> dense(const Graph& g, ValueId v) {
  if (op(g.node(v).op).view || is_literal(g, v)) return std::nullopt;
  for (const OutputBinding& out : g.outputs)
    if (out.value == v && out.strides) return out.strides;
  return stored_strides(g, v);
}

// The group consists of the values %m, %m1, %m2 ...
Result<Spec> spec_of(const Graph& g) {
  std::vector<ValueId> members;
  for (ValueId v = 0; v < g.nodes.size(); ++v)
    if (g.value_name(v)[1] == 'm') members.push_back(v);
  return make_spec(g, members, [&](ValueId v) { return dense(g, v); });
}

std::string why_not(const std::string& text) {
  const Graph g = parsed(text);
  const auto spec = spec_of(g);
  return spec.ok() ? "" : spec.status().message();
}

BatchedCall work_of(const std::string& text, std::vector<int64_t> symbols = {}) {
  const Graph g = parsed(text);
  auto spec = spec_of(g);
  TENON_CHECK(spec.ok(), spec.status().message());
  auto work = at_sizes(*spec, Sizes{g.dims.get(), std::move(symbols)});
  TENON_CHECK(work.ok(), work.status().message());
  return *work;
}

std::string text_of(const Matrix& m) {
  std::ostringstream out;
  out << (m.transposed ? "T" : "N") << m.rows << "x" << m.columns << " ld " << m.ld;
  if (m.batch_stride) out << " by " << m.batch_stride;
  return out.str();
}
std::vector<std::string> text_of(const BatchedCall& w) {
  return {text_of(w.problem.a), text_of(w.problem.b), text_of(w.problem.d)};
}
using Texts = std::vector<std::string>;

TEST(CublasLtSpec, Product) {
  const BatchedCall w =
      work_of("graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  // For row-major matrices the library's first operand is our second one.
  EXPECT_EQ(text_of(w), (Texts{"N3x5 ld 3", "N5x4 ld 5", "N3x4 ld 3"}));
  EXPECT_EQ(w.problem.c, w.problem.d);
  EXPECT_EQ(w.problem.text(), "4x3x5 f32");
  EXPECT_EQ(w.calls(), 1);
  EXPECT_EQ(w.alpha, 1);
  EXPECT_EQ(w.beta, 0);
}

TEST(CublasLtSpec, TransposesAreRead) {
  const char* text =
      "graph @f(%x: f32[5,4], %w: f32[3,5]) {\n %xt = transpose(%x){perm=[1,0]}\n %wt = "
      "transpose(%w){perm=[1,0]}\n %m = matmul(%xt, %wt)\n return %m\n}";
  EXPECT_EQ(text_of(work_of(text)), (Texts{"T5x3 ld 5", "T4x5 ld 4", "N3x4 ld 3"}));
}

TEST(CublasLtSpec, Linear) {
  const BatchedCall w = work_of(
      "graph @f(%x: f32[2,4,5], %w: f32[3,5], %b: f32[3]) {\n %m = linear(%x, %w, %b)\n %m1 = relu(%m)\n "
      "return "
      "%m1\n}");
  EXPECT_EQ(text_of(w), (Texts{"T5x3 ld 5", "N5x8 ld 5", "N3x8 ld 3"}));
  EXPECT_EQ(w.problem.text(), "8x3x5 f32, bias relu");
}

TEST(CublasLtSpec, ViewsAreRead) {
  const char* text =
      "graph @f(%x: f32[4,10], %w: f32[9,3]) {\n %xs = slice(%x){axis=1, start=2, end=7, step=1}\n %ws = "
      "slice(%w){axis=0, start=4, end=9, step=1}\n %m = matmul(%xs, %ws)\n return %m\n}";
  const BatchedCall w = work_of(text);
  EXPECT_EQ(text_of(w), (Texts{"N3x5 ld 3", "N5x4 ld 10", "N3x4 ld 3"}));
  EXPECT_EQ(w.places[0].offset, 4 * 3 * 4);  // offset of the library's first operand
  EXPECT_EQ(w.places[1].offset, 2 * 4);
}

// Views that the library does not read are treated as dense copies.
TEST(CublasLtSpec, ViewsThatAreNotRead) {
  const BatchedCall odd = work_of(
      "graph @f(%x: f32[4,10], %w: f32[5,3]) {\n %s = slice(%x){axis=1, end=10, step=2}\n %m = matmul(%s, "
      "%w)\n "
      "return %m\n}");
  EXPECT_EQ(text_of(odd), (Texts{"N3x5 ld 3", "N5x4 ld 5", "N3x4 ld 3"}));
  const BatchedCall back = work_of(
      "graph @f(%x: f32[6,4,5], %w: f32[6,5,3]) {\n %s = flip(%w){axes=[0]}\n %m = matmul(%x, %s)\n return "
      "%m\n}");
  EXPECT_EQ(text_of(back), (Texts{"N3x5 ld 3 by 15", "N5x4 ld 5 by 20", "N3x4 ld 3 by 12"}));
  EXPECT_EQ(back.places[0].offset, 0);
  EXPECT_EQ(
      why_not("graph @f(%x: f32[4,5] strides=[20,2], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}"),
      "its first operand has no contiguous axis, or repeats its rows");
}

TEST(CublasLtSpec, StridesOfInputsAndOutputs) {
  // The first operand is column-major; the second operand and the result have gaps between their rows.
  const char* text =
      "graph @f(%x: f32[N,M] strides=[1,N], %w: f32[M,K] strides=[2*K,1]) {\n %m = matmul(%x, %w)\n "
      "return %m strides=[K+3,1]\n}";
  EXPECT_EQ(text_of(work_of(text, {4, 5, 3})), (Texts{"N3x5 ld 6", "T4x5 ld 4", "N3x4 ld 6"}));
  // A column-major result is the product of the transposes.
  const char* columns =
      "graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m strides=[1,4]\n}";
  EXPECT_EQ(text_of(work_of(columns)), (Texts{"T5x4 ld 5", "T3x5 ld 3", "N4x3 ld 4"}));
  EXPECT_EQ(
      why_not("graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m strides=[6,2]\n}"),
      "cuBLASLt cannot write its result with these strides");
}

TEST(CublasLtSpec, Batches) {
  const BatchedCall both =
      work_of("graph @f(%x: f32[6,2,4,5], %w: f32[6,2,5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(both.problem.batch, 12);
  EXPECT_EQ(text_of(both), (Texts{"N3x5 ld 3 by 15", "N5x4 ld 5 by 20", "N3x4 ld 3 by 12"}));
  // One second matrix for the whole batch: the batch becomes rows.
  const BatchedCall rows =
      work_of("graph @f(%x: f32[6,2,4,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(rows.problem.batch, 1);
  EXPECT_EQ(text_of(rows), (Texts{"N3x5 ld 3", "N5x48 ld 5", "N3x48 ld 3"}));
  const BatchedCall single =
      work_of("graph @f(%x: f32[B,1,5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}", {9});
  EXPECT_EQ(text_of(single), (Texts{"N3x5 ld 3", "N5x9 ld 5", "N3x9 ld 3"}));
  const BatchedCall apart = work_of(
      "graph @f(%x: f32[9,1,5] strides=[7,1,1], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(text_of(apart), (Texts{"N3x5 ld 3", "N5x9 ld 7", "N3x9 ld 3"}));
  // One first matrix for the whole batch.
  const BatchedCall first =
      work_of("graph @f(%x: f32[4,5], %w: f32[6,5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(first.problem.batch, 6);
  EXPECT_EQ(text_of(first), (Texts{"N3x5 ld 3 by 15", "N5x4 ld 5", "N3x4 ld 3 by 12"}));
}

TEST(CublasLtSpec, HeadsOfAttention) {
  // [batch, length, heads, depth], read as [batch, heads, length, depth]: two axes of the batch that no single stride covers.
  const char* text =
      "graph @f(%q: f32[2,7,12,8], %k: f32[2,7,12,8]) {\n %qh = transpose(%q){perm=[0,2,1,3]}\n %kh = "
      "transpose(%k){perm=[0,2,3,1]}\n %m = matmul(%qh, %kh)\n return %m\n}";
  BatchedCall w = work_of(text);
  EXPECT_EQ(w.problem.batch, 12);
  EXPECT_EQ(text_of(w), (Texts{"T8x7 ld 96 by 8", "N8x7 ld 96 by 8", "N7x7 ld 7 by 49"}));
  EXPECT_EQ(w.calls(), 2);
  ASSERT_EQ(w.outer.size(), 1u);
  EXPECT_EQ(w.outer[0].bytes[0], 7 * 96 * 4);
  EXPECT_EQ(w.outer[0].bytes[3], 12 * 49 * 4);
  w.unroll_batch();
  EXPECT_EQ(w.calls(), 24);
  EXPECT_EQ(w.problem.batch, 1);
  EXPECT_EQ(w.outer[1].bytes[0], 8 * 4);
}

TEST(CublasLtSpec, Vectors) {
  const BatchedCall row =
      work_of("graph @f(%x: f32[5], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(text_of(row), (Texts{"N3x5 ld 3", "N5x1 ld 5", "N3x1 ld 3"}));
  const BatchedCall column =
      work_of("graph @f(%x: f32[4,5], %w: f32[5]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(text_of(column), (Texts{"T5x4 ld 5", "N5x1 ld 5", "N4x1 ld 4"}));
  const BatchedCall both = work_of("graph @f(%x: f32[5], %w: f32[5]) {\n %m = matmul(%x, %w)\n return %m\n}");
  EXPECT_EQ(text_of(both), (Texts{"T5x1 ld 5", "N5x1 ld 5", "N1x1 ld 1"}));
  const BatchedCall strided = work_of(
      "graph @f(%x: f32[4,5], %w: f32[5,3]) {\n %s = slice(%w){axis=1, start=1, end=2, step=1}\n %v = "
      "reshape(%s){shape=[5]}\n %m = matmul(%x, %v)\n return %m\n}");
  EXPECT_EQ(strided.problem.d.rows * strided.problem.d.columns, 4);
  EXPECT_EQ(strided.places[0].offset + strided.places[1].offset, 4);
}

TEST(CublasLtSpec, NothingToDo) {
  const char* text = "graph @f(%x: f32[N,K], %w: f32[K,M]) {\n %m = matmul(%x, %w)\n return %m\n}";
  EXPECT_TRUE(work_of(text, {0, 5, 3}).empty);
  EXPECT_TRUE(work_of(text, {4, 5, 0}).empty);
  EXPECT_EQ(work_of(text, {4, 5, 0}).calls(), 0);
  // An empty sum becomes a sum of zeros.
  const BatchedCall none = work_of(text, {4, 0, 3});
  EXPECT_FALSE(none.empty);
  EXPECT_EQ(none.zeros, 4 * 8 * 4);
  EXPECT_EQ(text_of(none), (Texts{"N3x8 ld 3", "N8x4 ld 8", "N3x4 ld 3"}));
}

std::string with_epilogue(const std::string& lines, const std::string& type = "f32",
                          const std::string& last = "m2") {
  std::string text =
      "graph @f(%x: T[N,5], %w: T[5,3], %b: T[3], %c: T[N,3], %r: T[3,N], %k: T[N,1]) {\n %m = "
      "matmul(%x, %w)\n" +
      lines + " return %" + last + "\n}";
  for (size_t at; (at = text.find("T[")) != text.npos;) text.replace(at, 1, type);
  return text;
}

TEST(CublasLtSpec, Epilogues) {
  const BatchedCall bias =
      work_of(with_epilogue(" %m1 = add(%m, %b)\n %m2 = gelu(%m1){approximate=\"tanh\"}\n"), {4});
  EXPECT_EQ(bias.problem.text(), "4x3x5 f32, bias gelu");
  EXPECT_EQ(bias.beta, 0);
  const BatchedCall all = work_of(
      with_epilogue(
          " %h = full(){value=0.5, dtype=bf16, shape=[]}\n %m1 = mul(%m, %h)\n %m2 = add(%m1, %b)\n %m3 "
          "= add(%c, %m2)\n %m4 = relu(%m3)\n",
          "bf16", "m4"),
      {4});
  EXPECT_EQ(all.problem.text(), "4x3x5 bf16, bias add relu");
  EXPECT_EQ(all.alpha, 0.5);
  EXPECT_EQ(all.beta, 1);
  const BatchedCall less = work_of(with_epilogue(" %m2 = sub(%m, %c)\n"), {4});
  EXPECT_EQ(less.beta, -1);
  EXPECT_EQ(text_of(less.problem.c), "N3x4 ld 3");
  // alpha is rounded to the dtype.
  const BatchedCall rounded = work_of(
      with_epilogue(" %h = full(){value=0.1, dtype=bf16, shape=[]}\n %m2 = mul(%m, %h)\n", "bf16"), {4});
  EXPECT_EQ(rounded.alpha, 0.10009765625);
}

TEST(CublasLtSpec, WhyNot) {
  const std::string half = " %h = full(){value=0.5, dtype=f32, shape=[]}\n";
  EXPECT_EQ(why_not("graph @f(%x: i32[4,5], %w: i32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}"),
            "cuBLASLt is not used for i32");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = gelu(%m)\n")), "cuBLASLt's gelu is the one by tanh");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = silu(%m)\n")), "silu is no epilogue of cuBLASLt");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = relu(%m)\n", "f64")), "cuBLASLt has no activations of f64");
  EXPECT_EQ(why_not(with_epilogue(" %m1 = relu(%m)\n %m2 = add(%m1, %b)\n")),
            "the library does nothing after its activation");
  EXPECT_EQ(why_not(with_epilogue(half + " %m1 = add(%m, %b)\n %m2 = mul(%m1, %h)\n")),
            "mul with a number is no epilogue of cuBLASLt here");
  EXPECT_EQ(why_not(with_epilogue(half + " %m1 = add(%m, %c)\n %m2 = mul(%m1, %h)\n")),
            "mul with a number is no epilogue of cuBLASLt here");
  EXPECT_EQ(why_not(with_epilogue(half + " %m1 = mul(%m, %h)\n %m2 = mul(%m1, %h)\n")),
            "mul with a number is no epilogue of cuBLASLt here");
  EXPECT_EQ(why_not(with_epilogue(half + " %m2 = add(%m, %h)\n")),
            "add with a number is no epilogue of cuBLASLt here");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = mul(%m, %c)\n")), "mul with a tensor is no epilogue of cuBLASLt");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = sub(%c, %m)\n")), "sub with a tensor is no epilogue of cuBLASLt");
  EXPECT_EQ(why_not(with_epilogue(" %m1 = add(%m, %c)\n %m2 = add(%m1, %c)\n")),
            "cuBLASLt adds one tensor of the result's shape");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = add(%m, %k)\n")),
            "its other operand has no contiguous axis, or repeats its rows");
  EXPECT_EQ(why_not(with_epilogue(" %t = transpose(%r){perm=[1,0]}\n %m2 = add(%m, %t)\n")),
            "cuBLASLt adds a tensor that lies in memory as its result does");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = cast(%m){dtype=f16}\n")), "it changes the result's shape or dtype");
  EXPECT_EQ(why_not(with_epilogue(" %m2 = add(%m, %m)\n")), "it reads the library's result twice");
}

// TF32 applies only to f32, and to a linear as to a matmul.
TEST(CublasLtSpec, Tf32) {
  auto text_of = [](const std::string& type, const std::string& product) {
    std::string text = "graph @f(%x: T[4,5], %w: T[5,5]) {\n %m = " + product + "\n return %m\n}";
    for (size_t at; (at = text.find("T[")) != text.npos;) text.replace(at, 1, type);
    return work_of(text).problem.text();
  };
  for (const char* product : {"matmul(%x, %w){tf32=true}", "linear(%x, %w){tf32=true}"}) {
    EXPECT_EQ(text_of("f32", product), "4x5x5 f32 tf32");
    EXPECT_EQ(text_of("bf16", product), "4x5x5 bf16");
    EXPECT_EQ(text_of("f64", product), "4x5x5 f64");
  }
  EXPECT_EQ(text_of("f32", "matmul(%x, %w){tf32=false}"), "4x5x5 f32");
  const Graph linear =
      parsed("graph @f(%x: f32[4,5], %w: f32[3,5]) {\n %m = linear(%x, %w){tf32=true}\n return %m\n}");
  const auto is_matmul = [](const Graph& g, ValueId v) { return g.node(v).op == ops::matmul; };
  EXPECT_THAT(print(expand(linear, is_matmul)), HasSubstr("{tf32=true} : f32[4,3]"));
}

// Errors that are found only at run time.
TEST(CublasLtSpec, StridesThatOverlap) {
  const Graph g =
      parsed("graph @f(%x: f32[N,5] strides=[S,1], %w: f32[5,3]) {\n %m = matmul(%x, %w)\n return %m\n}");
  const auto spec = spec_of(g);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_TRUE(at_sizes(*spec, Sizes{g.dims.get(), {4, 5}}).ok());
  EXPECT_TRUE(at_sizes(*spec, Sizes{g.dims.get(), {1, 0}}).ok());
  const auto overlap = at_sizes(*spec, Sizes{g.dims.get(), {4, 2}});
  EXPECT_EQ(overlap.status().code(), Code::unsupported);
  EXPECT_EQ(overlap.status().message(), "rows that overlap in memory, or are not contiguous");
}

TEST(CublasLtSpec, KeysTellProblemsApart) {
  const char* text = "graph @f(%x: f32[N,K], %w: f32[K,M]) {\n %m = matmul(%x, %w)\n return %m\n}";
  const Problem p = work_of(text, {4, 5, 3}).problem;
  EXPECT_EQ(p.key(), work_of(text, {4, 5, 3}).problem.key());
  EXPECT_NE(p.key(), work_of(text, {5, 4, 3}).problem.key());
  std::string tf32 = text;
  tf32.replace(tf32.find("%w)\n"), 3, "%w){tf32=true}");
  EXPECT_NE(p.key(), work_of(tf32, {4, 5, 3}).problem.key());
  EXPECT_NE(p.key(), work_of(with_epilogue(" %m2 = add(%m, %b)\n"), {4}).problem.key());
  EXPECT_NE(work_of(with_epilogue(" %m2 = add(%m, %c)\n"), {4}).problem.key(),
            work_of(with_epilogue(" %m2 = add(%m, %b)\n"), {4}).problem.key());
  EXPECT_NE(work_of(with_epilogue(" %m2 = relu(%m)\n", "f16"), {4}).problem.key(),
            work_of(with_epilogue(" %m2 = relu(%m)\n", "bf16"), {4}).problem.key());
}

}  // namespace
}  // namespace tenon::cublaslt
