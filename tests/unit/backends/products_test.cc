// Compares the back end of products of few rows with the evaluator: both orders of the matrix, strided operands and results, all
// dtypes, one thread and two. Names the products that it leaves to other back ends.
#include "backends/products/products.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/support/run_help.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Ran {
  HostTensor result;
  std::string explained;
};

// Runs a graph that has one output, whose rank is 2 if `y_strides` are given, and compares it with the evaluator.
Ran check(const std::string& text, int threads = 2, const std::vector<int64_t>& y_strides = {}) {
  SCOPED_TRACE(text);
  Ran ran;
  const auto graph = parse_graph(text);
  if (!graph.ok()) throw std::runtime_error(graph.status().message());
  std::vector<HostTensor> inputs;
  std::vector<Tensor> in;
  for (const InputBinding& input : graph->inputs) {
    const TensorType& type = graph->type(input.value);
    std::vector<int64_t> shape;
    for (const Dim d : type.shape) shape.push_back(d.value());
    inputs.push_back(random_tensor(type.dtype, shape, static_cast<uint32_t>(inputs.size()) + 1));
  }
  for (HostTensor& t : inputs) in.push_back(tensor_of(t));
  const auto expected = evaluate(*graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  ProgramOptions options;
  options.threads = threads;
  const auto program = Program::make(*graph, options, {});
  EXPECT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->stats().reference_steps, 0);
  std::vector<HostTensor> results = blank_like(*expected);
  std::vector<Tensor> out = {tensor_of(results[0])};
  out[0].strides = y_strides;
  const Status status = (*program)->run(in, out);
  EXPECT_TRUE(status.ok()) << status.message();
  const HostTensor& wanted = (*expected)[0];
  const double bound = wanted.dtype == DType::f32 ? 1e-5 : wanted.dtype == DType::f16 ? 1e-3 : 8e-3;
  for (int64_t i = 0, columns = wanted.shape.back(); i < wanted.count(); ++i) {
    const int64_t at = y_strides.empty() ? i : i / columns * y_strides[0] + i % columns * y_strides[1];
    EXPECT_NEAR(results[0].number(at), wanted.number(i), bound * (4 + std::abs(wanted.number(i))))
        << "element " << i;
  }
  ran.result = results[0];
  ran.explained = (*program)->explain(false);
  return ran;
}

// A product of x and w.
std::string product(const std::string& x, const std::string& w, const std::string& op,
                    const std::string& dtype = "f32") {
  return "graph @f(%x: " + dtype + "[" + x + "], %w: " + dtype + "[" + w + "]) {\n  %y = " + op +
         "(%x, %w)\n  return %y\n}\n";
}

TEST(Products, OfBothOrdersAndAllDtypes) {
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const char* rows : {"1,", "2,1,", "3,", "4,", ""})
      for (const bool linear : {true, false})
        EXPECT_THAT(
            check(product(std::string(rows) + "131", linear ? "1301,131" : "131,1301",
                          linear ? "linear" : "matmul", dtype))
                .explained,
            AllOf(HasSubstr("(products)"), HasSubstr(linear ? "columns are dense" : "rows are dense")));
}

TEST(Products, WithABias) {
  for (const std::string dtype : {"f32", "bf16", "f16"})
    EXPECT_THAT(check("graph @f(%x: " + dtype + "[2,131], %w: " + dtype + "[1301,131], %b: " + dtype +
                      "[1301]) {\n  %y = linear(%x, %w, %b)\n  return %y\n}\n")
                    .explained,
                HasSubstr("(products)"));
}

TEST(Products, OfStridedOperands) {
  const char* before[] = {
      // the transpose of the matrix
      "%x: f32[3,131], %w: f32[1301,131]) {\n  %b = transpose(%w){perm=[1,0]}\n  %y = matmul(%x, %b)\n",
      // rows of x that are not dense
      "%x: f32[131,3], %w: f32[131,1301]) {\n  %a = transpose(%x){perm=[1,0]}\n  %y = matmul(%a, %w)\n",
      // a part of the matrix, with offsets
      "%x: f32[3,131], %w: f32[150,1400]) {\n  %b = slice(%w){axis=1, start=11, end=1312}\n"
      "  %c = slice(%b){axis=0, start=7, end=138}\n  %y = matmul(%x, %c)\n",
      // a matrix without a dense axis is stored first
      "%x: f32[3,131], %w: f32[131,2602]) {\n  %b = slice(%w){axis=1, start=0, end=2602, step=2}\n"
      "  %y = matmul(%x, %b)\n",
      // the same row again and again
      "%x: f32[1,131], %w: f32[131,1301]) {\n  %a = expand(%x){shape=[3,131]}\n  %y = matmul(%a, %w)\n"};
  for (const std::string text : before)
    EXPECT_THAT(check("graph @f(" + text + "  return %y\n}\n").explained, HasSubstr("(products)"));
}

TEST(Products, OfAStridedResult) {
  std::string text = product("3,131", "131,1301", "matmul");
  text.insert(text.rfind("return %y") + 9, " strides=[1,3]");
  EXPECT_THAT(check(text, 2, {1, 3}).explained, HasSubstr("(products)"));
}

TEST(Products, OneThreadAndTwoHaveTheSameBits) {
  for (const std::string& text :
       {product("2,300", "4001,300", "linear"), product("2,300", "300,4001", "matmul")})
    EXPECT_EQ(check(text, 1).result.bytes, check(text, 2).result.bytes);
}

// The library would take the product and the map in one call, but takes neither. A map alone belongs in a loop, with its neighbours.
TEST(Products, LeaveTheMapsBehindThemToTheLoops) {
  for (const std::string map : {"silu", "gelu", "relu"})
    EXPECT_THAT(check("graph @f(%x: f32[2,131], %w: f32[1301,131], %b: f32[1301]) {\n  %p = linear(%x, %w, "
                      "%b)\n  %y = " +
                      map + "(%p)\n  return %y\n}\n")
                    .explained,
                AllOf(HasSubstr("(products)"), HasSubstr("(cpu)"), Not(HasSubstr("(onednn)"))));
}

TEST(Products, LeaveOtherProducts) {
  for (const std::string& text :
       {product("9,131", "131,1301", "matmul"), product("1,32", "32,33", "matmul"),
        product("1,131", "131,1301", "matmul", "f64"), product("2,2,131", "2,131,301", "matmul")})
    EXPECT_THAT(check(text).explained, Not(HasSubstr("(products)")));
}

}  // namespace
}  // namespace tenon
