// Compares batches of products of tiny matrices with the evaluator: sizes, batches that broadcast, strided operands and results, one
// thread and two. Names the products that are left to other back ends.
#include <gmock/gmock.h>

#include <array>
#include <limits>

#include "backends/products/products.h"
#include "tests/support/compared_run.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-14 : 1e-6; }

ComparedRun check(const std::string& text, int threads = 2, const std::vector<int64_t>& strides = {}) {
  return compared_run(text, tolerance, threads, strides);
}

std::string batch(const std::string& a, const std::string& b, const std::string& dtype = "f32") {
  return "graph @f(%a: " + dtype + "[" + a + "], %b: " + dtype + "[" + b +
         "]) {\n  %y = matmul(%a, %b)\n  return %y\n}\n";
}

auto is_taken() { return HasSubstr("batch of tiny products"); }

TEST(TinyBatch, OfAllSizes) {
  for (const char* dtype : {"f32", "f64"})
    for (const int m : {2, 3, 4, 7, 16})
      for (const int k : {1, 2, 3, 8, 16})
        for (const int n : {2, 3, 4, 5, 8, 11, 16}) {
          const std::string depth = std::to_string(k);
          EXPECT_THAT(check(batch("17," + std::to_string(m) + "," + depth,
                                  "17," + depth + "," + std::to_string(n), dtype))
                          .explained,
                      AllOf(is_taken(), HasSubstr(" each " + std::to_string(m) + "x" + depth + " by " +
                                                  depth + "x" + std::to_string(n))));
        }
}

TEST(TinyBatch, OfBatchesThatBroadcast) {
  const char* const shapes[][2] = {
      {"5,7,3,4", "5,7,4,2"}, {"5,7,3,4", "7,4,2"}, {"5,1,3,4", "1,7,4,2"},   {"3,4", "20,4,2"},
      {"1,20,3,4", "20,4,2"}, {"1,3,4", "40,4,3"},  {"5,1,7,3,4", "2,7,4,2"}, {"2,5,1,3,4", "1,5,3,4,2"}};
  for (const auto& [a, b] : shapes)
    for (const char* dtype : {"f32", "f64"}) EXPECT_THAT(check(batch(a, b, dtype)).explained, is_taken());
  const char* const shared[][2] = {
      {"20,1,3,4", "1,4,2"}, {"40,3,4", "4,2"}, {"2,1,5,3,4", "1,3,1,4,2"}, {"2,3,5,3,4", "3,1,4,2"}};
  for (const auto& [a, b] : shared) EXPECT_THAT(check(batch(a, b, "f64")).explained, is_taken());
}

TEST(TinyBatch, OfStridedOperands) {
  const std::string before[] = {
      // transposed operands, as gradients of products have them
      R"(%x: f32[40,3,4], %w: f32[40,2,4]) {
  %b = transpose(%w){perm=[0,2,1]}
  %y = matmul(%x, %b))",
      R"(%x: f32[40,4,3], %w: f32[40,4,2]) {
  %a = transpose(%x){perm=[0,2,1]}
  %y = matmul(%a, %w))",
      R"(%x: f32[40,9,7], %w: f32[40,11,9]) {
  %a = transpose(%x){perm=[0,2,1]}
  %b = transpose(%w){perm=[0,2,1]}
  %y = matmul(%a, %b))",
      // the batch is the last axis
      R"(%x: f32[3,4,40], %w: f32[4,2,40]) {
  %a = transpose(%x){perm=[2,0,1]}
  %b = transpose(%w){perm=[2,0,1]}
  %y = matmul(%a, %b))",
      // parts, with offsets and steps
      R"(%x: f32[40,5,9], %w: f32[60,4,9]) {
  %p = slice(%x){axis=1, start=1, end=4}
  %a = slice(%p){axis=2, start=1, end=9, step=2}
  %q = slice(%w){axis=0, start=7, end=47}
  %b = slice(%q){axis=2, start=2, end=9, step=3}
  %y = matmul(%a, %b))",
      // the same matrix, and the same column, again and again
      R"(%x: f32[1,3,4], %w: f32[40,4,1]) {
  %a = expand(%x){shape=[40,3,4]}
  %b = expand(%w){shape=[40,4,5]}
  %y = matmul(%a, %b))",
      // two axes of the batch that are not one
      R"(%x: f32[6,9,3,4], %w: f32[9,6,4,2]) {
  %b = transpose(%w){perm=[1,0,2,3]}
  %y = matmul(%x, %b))",
  };
  for (const std::string& text : before)
    for (const bool wide : {false, true}) {
      std::string graph = "graph @f(" + text + "\n  return %y\n}\n";
      for (size_t at = 0; wide && (at = graph.find("f32", at)) != std::string::npos;)
        graph.replace(at, 3, "f64");
      EXPECT_THAT(check(graph).explained, AllOf(is_taken(), Not(HasSubstr("(cpu)"))));  // no copies
    }
}

TEST(TinyBatch, OfStridedResults) {
  std::string text = batch("40,3,4", "40,4,5");
  text.insert(text.rfind("return %y") + 9, " strides=[15,1,3]");
  EXPECT_THAT(check(text, 2, {15, 1, 3}).explained, is_taken());
  text = batch("40,3,4", "40,4,5");
  text.insert(text.rfind("return %y") + 9, " strides=[1,40,120]");
  EXPECT_THAT(check(text, 2, {1, 40, 120}).explained, is_taken());
}

TEST(TinyBatch, AnyNumberOfThreadsHasTheSameBits) {
  for (const std::string& text :
       {batch("20001,3,3", "20001,3,3"), batch("3001,8,7", "3001,7,9", "f64"), batch("101,77,4,4", "77,4,5")})
    for (const int threads : {2, 3})
      EXPECT_EQ(check(text, 1).result.bytes, check(text, threads).result.bytes) << threads;
}

// Any batch may come in a call: none, one, or many.
TEST(TinyBatch, OfASymbolicBatch) {
  const std::string text =
      "graph @f(%a: f32[B,3,3], %b: f32[B,3,3]) {\n  %y = matmul(%a, %b)\n  return %y\n}\n";
  const auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok());
  const auto program = program_of(text, 2);
  EXPECT_THAT(program->explain(false), is_taken());
  for (const int64_t count : {0, 1, 2, 5000}) {
    std::vector<HostTensor> inputs = {random_tensor(DType::f32, {count, 3, 3}, 1),
                                      random_tensor(DType::f32, {count, 3, 3}, 2)};
    const auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok());
    std::vector<HostTensor> results = blank_like(*expected);
    const Status status = run(*program, inputs, results);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < results[0].count(); ++i)
      ASSERT_NEAR(results[0].number(i), (*expected)[0].number(i), 1e-5) << "element " << i;
  }
}

// An infinity or NaN stays in its row and column.
TEST(TinyBatch, OfNumbersThatAreNotFinite) {
  const auto program = program_of(batch("20,3,3", "20,3,3"));
  std::vector<HostTensor> inputs(2, HostTensor(DType::f32, {20, 3, 3}));
  for (HostTensor& t : inputs)
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, {1, 0});
  inputs[0].set(9, {std::numeric_limits<double>::infinity(), 0});    // matrix 1, row 0
  inputs[1].set(20, {std::numeric_limits<double>::quiet_NaN(), 0});  // matrix 2, column 2
  std::vector<HostTensor> results(1, HostTensor(DType::f32, {20, 3, 3}));
  ASSERT_TRUE(run(*program, inputs, results).ok());
  for (int64_t i = 0; i < results[0].count(); ++i) {
    const double number = results[0].number(i);
    if (i >= 9 && i < 12)
      EXPECT_EQ(number, std::numeric_limits<double>::infinity());
    else if (i / 9 == 2 && i % 3 == 2)
      EXPECT_TRUE(std::isnan(number));
    else
      EXPECT_EQ(number, 3);
  }
}

// The library would take the product and the map in one call, but takes neither.
TEST(TinyBatch, LeavesTheMapsBehindItToTheLoops) {
  for (const std::string map : {"silu", "relu"})
    EXPECT_THAT(check("graph @f(%a: f32[40,3,3], %b: f32[40,3,3]) {\n  %p = matmul(%a, %b)\n  %y = " + map +
                      "(%p)\n  return %y\n}\n")
                    .explained,
                AllOf(is_taken(), HasSubstr("(cpu)"), Not(HasSubstr("(onednn)"))));
}

TEST(TinyBatch, LeavesOtherProducts) {
  for (const std::string& text :
       {batch("15,3,3", "15,3,3"), batch("40,3,3", "40,3,17"), batch("40,17,3", "40,3,3"),
        batch("40,3,17", "40,17,3"), batch("40,1,3", "40,3,3"), batch("40,3,3", "40,3,1"),
        batch("40,3", "3,3"), batch("40,3,3", "40,3,3", "bf16"), batch("40,17,3", "40,3,3", "f64")})
    EXPECT_THAT(check(text).explained, Not(is_taken()));
  // one product of many rows, unless the rows lie in another order
  for (const std::string& text :
       {batch("40,3,3", "3,3"), batch("40,1,3,3", "1,3,3"), batch("9,20,3,3", "9,1,3,3")})
    EXPECT_THAT(check(text).explained, Not(is_taken()));
  EXPECT_THAT(check("graph @f(%x: f32[40,3,3], %w: f32[3,3]) {\n  %a = transpose(%x){perm=[0,2,1]}\n"
                    "  %y = matmul(%a, %w)\n  return %y\n}\n")
                  .explained,
              is_taken());
}

}  // namespace
}  // namespace tenon
