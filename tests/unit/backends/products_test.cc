// Compares the back end of products of few rows with the evaluator: both orders of the matrix, strided operands and results, all
// dtypes, one thread and two. Likewise products of f64. Names the products that it leaves to other back ends.
#include "backends/products/products.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/support/compared_run.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
}

ComparedRun check(const std::string& text, int threads = 2, const std::vector<int64_t>& strides = {}) {
  return compared_run(text, tolerance, threads, strides);
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

// Parts of the depth are added up last.
TEST(Products, OfADeepMatrixWithDenseRows) {
  const std::string matrix = "[515,1301]";
  for (const std::string dtype : {"f32", "bf16", "f16"})
    for (const std::string rows : {"1", "2", "3", "4"}) {
      EXPECT_THAT(check(product(rows + ",515", "515,1301", "matmul", dtype), 3).explained,
                  HasSubstr("rows are dense"));
      // with a bias, a part of the matrix with offsets, and rows of x that are not dense
      const std::string text = "graph @f(%x: " + dtype + "[300," + rows + "], %w: " + dtype + matrix +
                               ", %b: " + dtype + R"([1290]) {
  %a = transpose(%x){perm=[1,0]}
  %c = slice(%w){axis=1, start=11, end=1301}
  %d = slice(%c){axis=0, start=7, end=307}
  %t = transpose(%d){perm=[1,0]}
  %y = linear(%a, %t, %b)
  return %y
})";
      EXPECT_THAT(check(text).explained, HasSubstr("rows are dense"));
      if (rows != "1") {
        std::string strided = text;
        strided.insert(strided.rfind("return %y") + 9, " strides=[1," + rows + "]");
        EXPECT_THAT(check(strided, 2, {1, std::stoll(rows)}).explained, HasSubstr("rows are dense"));
      }
    }
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

TEST(Products, AnyNumberOfThreadsHasTheSameBits) {
  for (const std::string& text :
       {product("2,300", "4001,300", "linear"), product("2,300", "300,4001", "matmul"),
        product("2,300", "300,20001", "matmul"), product("3,300", "300,4001", "matmul", "bf16")})
    for (const int threads : {2, 3, 5})
      EXPECT_EQ(check(text, 1).result.bytes, check(text, threads).result.bytes) << threads;
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

// Loops read a quantized matrix for one row, and compute its numbers on the way.
TEST(Products, LeaveQuantizedMatricesOfOneRow) {
  const auto text = [](const std::string& rows, const std::string& matrix) {
    return "graph @f(%x: f32[" + rows + ",128], %w: i8[1300,128], %s: f32[1300,1], %f: f32[1300,128]) {\n" +
           matrix + "  %y = linear(%x, %m)\n  return %y\n}\n";
  };
  const std::string cast = "  %m = cast(%w){dtype=f32}\n",
                    scaled = "  %c = cast(%w){dtype=f32}\n  %m = mul(%c, %s)\n",
                    sum = "  %c = cast(%w){dtype=f32}\n  %m = mul(%c, %f)\n";
  for (const std::string& matrix : {cast, scaled})
    for (const char* rows : {"1", "1,1"})
      EXPECT_THAT(check(text(rows, matrix)).explained,
                  AllOf(HasSubstr("step 0 (cpu)"), Not(HasSubstr("step 1"))));
  EXPECT_THAT(check(text("2", scaled)).explained, HasSubstr("(products)"));
  EXPECT_THAT(check(text("1", sum)).explained, HasSubstr("(products)"));
}

TEST(Products, LeaveOtherProducts) {
  for (const std::string& text : {product("9,131", "131,1301", "matmul"), product("1,32", "32,33", "matmul"),
                                  product("2,2,131", "2,131,301", "matmul")})
    EXPECT_THAT(check(text).explained, Not(HasSubstr("(products)")));
}

// ---- products of f64 ----

TEST(ProductsOfDoubles, OfAllShapes) {
  const char* const shapes[][3] = {
      {"5,8", "8,8", "matmul"},         {"7,131", "131,29", "matmul"},
      {"7,131", "29,131", "linear"},    {"100,600", "600,33", "matmul"},
      {"2,3,4,70", "70,40", "matmul"},  {"2,3,4,70", "40,70", "linear"},
      {"3,9,20", "3,20,17", "matmul"},  {"2,1,9,20", "3,20,17", "matmul"},
      {"9,20", "3,20,17", "matmul"},    {"1,9,20", "4,20,16", "matmul"},
      {"2,3,9,20", "20,17", "matmul"},  {"2,3,9,20", "2,1,20,17", "matmul"},
      {"49,1100", "1100,16", "matmul"}, {"8,40", "40,64", "matmul"},
      {"6,40", "40,64", "matmul"},
  };
  for (const auto& [x, w, op] : shapes)
    EXPECT_THAT(check(product(x, w, op, "f64")).explained,
                HasSubstr("product of f64, by packed panels of columns"));
}

TEST(ProductsOfDoubles, WithABias) {
  for (const std::string rows : {"9", "2,3"})
    EXPECT_THAT(check("graph @f(%x: f64[" + rows +
                      ",600], %w: f64[37,600], %b: f64[37]) {\n  %y = linear(%x, %w, %b)\n  return %y\n}\n")
                    .explained,
                HasSubstr("(products)"));
}

TEST(ProductsOfDoubles, OfStridedOperandsAndResults) {
  const char* before[] = {
      // transposed operands
      "%x: f64[31,19], %w: f64[40,31]) {\n  %a = transpose(%x){perm=[1,0]}\n  %b = "
      "transpose(%w){perm=[1,0]}\n"
      "  %y = matmul(%a, %b)\n",
      // parts, with offsets and steps
      "%x: f64[25,80], %w: f64[40,90]) {\n  %a = slice(%x){axis=1, start=3, end=65, step=2}\n"
      "  %b = slice(%w){axis=0, start=5, end=36}\n  %c = slice(%b){axis=1, start=1, end=90, step=3}\n"
      "  %y = matmul(%a, %c)\n",
      // rows that are not at equal distances
      "%x: f64[3,4,50], %w: f64[50,24]) {\n  %a = slice(%x){axis=1, start=1, end=3}\n  %y = matmul(%a, %w)\n",
      // the same row, and the same matrix, again and again
      "%x: f64[1,50], %w: f64[1,50,24]) {\n  %a = expand(%x){shape=[6,50]}\n  %b = "
      "expand(%w){shape=[3,50,24]}\n"
      "  %y = matmul(%a, %b)\n",
      // axes in another order
      "%x: f64[9,2,50], %w: f64[50,2,24]) {\n  %a = transpose(%x){perm=[1,0,2]}\n  %b = "
      "transpose(%w){perm=[1,0,2]}\n"
      "  %y = matmul(%a, %b)\n"};
  for (const std::string text : before)
    EXPECT_THAT(check("graph @f(" + text + "  return %y\n}\n").explained, HasSubstr("(products)"));
  std::string text = product("9,131", "131,33", "matmul", "f64");
  text.insert(text.rfind("return %y") + 9, " strides=[1,9]");
  EXPECT_THAT(check(text, 2, {1, 9}).explained, HasSubstr("(products)"));
}

// Convolutions by windows of one pixel.
TEST(ProductsOfDoubles, OfPixels) {
  const std::string convolution =
      "padding=[0,0], padding_high=[0,0], dilations=[1,1], layout=\"channels_last\", ";
  const auto explained = [&](const std::string& weights, const std::string& attrs) {
    std::string result;
    for (const std::string operands : {"%x, %w", "%x, %w, %b"})
      result += check("graph @f(%x: f64[3,5,7,16], %w: f64[" + weights +
                      ",1,1], %b: f64[24]) {\n  %y = convolution(" + operands + "){" + convolution + attrs +
                      "}\n  %s = add(%y, %b)\n  return %s\n}\n")
                    .explained;
    return result;
  };
  EXPECT_THAT(explained("24,16", "strides=[1,1]"), HasSubstr("product of f64"));
  EXPECT_THAT(explained("16,24", "strides=[1,1], transposed=true"), HasSubstr("product of f64"));
  for (const std::string other : {"strides=[2,1]", "strides=[1,1], groups=2"})
    EXPECT_THAT(explained(other.back() == '2' ? "24,8" : "24,16", other), Not(HasSubstr("product of f64")));
}

TEST(ProductsOfDoubles, OneThreadAndManyHaveTheSameBits) {
  for (const std::string& text :
       {product("301,600", "600,100", "matmul", "f64"), product("500,300", "17,300", "linear", "f64"),
        product("4,150,300", "4,300,90", "matmul", "f64")})
    for (const int threads : {2, 5})
      EXPECT_EQ(check(text, 1).result.bytes, check(text, threads).result.bytes);
}

TEST(ProductsOfDoubles, LeaveSmallOnes) {
  for (const std::string& text :
       {product("4,131", "131,1301", "matmul", "f64"), product("100,3", "3,100", "matmul", "f64"),
        product("15,3,3", "15,3,3", "matmul", "f64"), product("131", "131,30", "matmul", "f64")})
    EXPECT_THAT(check(text).explained, Not(HasSubstr("(products)")));
}

// Any sizes may come in a call: none of rows, of summands or of columns, and few of them.
TEST(ProductsOfDoubles, OfSymbolicSizes) {
  const auto graph =
      parse_graph("graph @f(%x: f64[B,M,K], %w: f64[B,K,N]) {\n  %y = matmul(%x, %w)\n  return %y\n}\n");
  ASSERT_TRUE(graph.ok());
  const auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok());
  for (const auto& [b, m, k, n] : std::vector<std::array<int64_t, 4>>{{2, 1, 1, 1},
                                                                      {1, 50, 700, 20},
                                                                      {3, 4, 5, 6},
                                                                      {0, 2, 3, 4},
                                                                      {2, 0, 3, 4},
                                                                      {2, 3, 0, 4},
                                                                      {2, 3, 4, 0},
                                                                      {1, 97, 3, 16}}) {
    SCOPED_TRACE(testing::Message() << b << " " << m << " " << k << " " << n);
    std::vector<HostTensor> inputs = {random_tensor(DType::f64, {b, m, k}, 1),
                                      random_tensor(DType::f64, {b, k, n}, 2)};
    const std::vector<Tensor> in = {tensor_of(inputs[0]), tensor_of(inputs[1])};
    const auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok());
    std::vector<HostTensor> results = blank_like(*expected);
    const std::vector<Tensor> out = {tensor_of(results[0])};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 0; i < results[0].count(); ++i)
      ASSERT_NEAR(results[0].number(i), (*expected)[0].number(i), 1e-12) << "element " << i;
  }
}

}  // namespace
}  // namespace tenon
