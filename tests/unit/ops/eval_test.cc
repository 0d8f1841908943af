// The evaluator on graphs in text form, compared with numbers computed by hand: dtypes and rounding, special values, moves, symbols,
// refusals. table_test.cc tests it row by row.
#include "src/ops/eval/eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/ir/text.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

HostTensor tensor(DType dtype, std::vector<int64_t> shape, const std::vector<double>& numbers) {
  HostTensor out(dtype, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(out.count()), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) out.set_number(static_cast<int64_t>(i), numbers[i]);
  return out;
}

std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.count(); ++i) out.push_back(t.number(i));
  return out;
}

Result<std::vector<HostTensor>> run(const std::string& text, const std::vector<HostTensor>& inputs) {
  TENON_ASSIGN(const Graph graph, parse_graph(text));
  return evaluate(graph, inputs);
}

// Evaluates one node on one input.
HostTensor one_node(const std::string& node, const HostTensor& x) {
  std::string shape;
  for (int64_t size : x.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
  auto y = run("graph @g(%x: " + std::string(name(x.dtype)) + "[" + shape + "]) {\n  %y = " + node +
                   "\n  return %y\n}\n",
               {x});
  EXPECT_TRUE(y.ok()) << y.status().message();
  return y.ok() ? (*y)[0] : HostTensor();
}

MATCHER_P(SameAs, expected, "") { return std::isnan(expected) ? std::isnan(arg) : arg == expected; }

std::vector<testing::Matcher<double>> same(const std::vector<double>& expected) {
  std::vector<testing::Matcher<double>> out;
  for (double e : expected) out.push_back(SameAs(e));
  return out;
}

TEST(Eval, RoundsOncePerNode) {
  // 1 + 2^-24 is a tie in f32 and rounds to even; in f64 it stays.
  EXPECT_THAT(numbers(one_node("add(%x, %x)", tensor(DType::f16, {1}, {40000}))), ElementsAre(kInf));
  auto y = run("graph @g(%x: f32[], %y: f32[]) {\n  %z = add(%x, %y)\n  return %z\n}\n",
               {tensor(DType::f32, {}, {1}), tensor(DType::f32, {}, {0x1p-24})});
  EXPECT_EQ((*y)[0].number(0), 1);
  y = run("graph @g(%x: f64[], %y: f64[]) {\n  %z = add(%x, %y)\n  return %z\n}\n",
          {tensor(DType::f64, {}, {1}), tensor(DType::f64, {}, {0x1p-24})});
  EXPECT_EQ((*y)[0].number(0), 1 + 0x1p-24);
}

TEST(Eval, ReductionsAccumulateInDouble) {
  EXPECT_THAT(numbers(one_node("sum(%x){axes=[0]}", tensor(DType::f32, {3}, {1e8, 1, -1e8}))),
              ElementsAre(1));
  EXPECT_THAT(numbers(one_node("cumsum(%x){axis=0}", tensor(DType::f32, {3}, {1e8, 1, -1e8}))),
              ElementsAre(1e8, 1e8, 1));
  EXPECT_THAT(numbers(one_node("sum(%x){axes=[0]}", tensor(DType::i8, {3}, {100, 100, 100}))),
              ElementsAre(44));
}

TEST(Eval, ReductionsOfNothing) {
  const HostTensor none(DType::f32, {2, 0});
  EXPECT_THAT(numbers(one_node("sum(%x){axes=[1]}", none)), ElementsAre(0, 0));
  EXPECT_THAT(numbers(one_node("prod(%x){axes=[1]}", none)), ElementsAre(1, 1));
  EXPECT_THAT(numbers(one_node("max(%x){axes=[1]}", none)), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(numbers(one_node("any(%x){axes=[1]}", none)), ElementsAre(0, 0));
  EXPECT_THAT(numbers(one_node("all(%x){axes=[1]}", none)), ElementsAre(1, 1));
  EXPECT_THAT(numbers(one_node("mean(%x){axes=[1]}", none)), ElementsAreArray(same({kNan, kNan})));
  EXPECT_THAT(numbers(one_node("logsumexp(%x){axes=[1]}", none)), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(numbers(one_node("min(%x){axes=[0]}", HostTensor(DType::i64, {0}))),
              ElementsAre(0x1p63));  // 2^63 - 1 as a double
}

TEST(Eval, ArgExtremes) {
  EXPECT_THAT(numbers(one_node("argmax(%x){axis=0}", tensor(DType::f32, {5}, {1, 3, 2, 3, 0}))),
              ElementsAre(1));
  EXPECT_THAT(numbers(one_node("argmax(%x){axis=0}", tensor(DType::f32, {5}, {1, kNan, kInf, kNan, 0}))),
              ElementsAre(1));
  EXPECT_THAT(numbers(one_node("argmin(%x){axis=0}", tensor(DType::f32, {4}, {1, -kInf, kNan, -kInf}))),
              ElementsAre(2));
  EXPECT_THAT(numbers(one_node("argmax(%x){axis=0}", tensor(DType::f32, {3}, {-kInf, -kInf, -kInf}))),
              ElementsAre(0));
  EXPECT_THAT(
      numbers(one_node("argmin(%x){axis=1, keepdims=true}", tensor(DType::i8, {2, 2}, {-1, -128, 5, 5}))),
      ElementsAre(1, 0));
}

TEST(Eval, SoftmaxOfInfinities) {
  EXPECT_THAT(numbers(one_node("softmax(%x){axis=-1}", tensor(DType::f32, {2}, {-kInf, -kInf}))),
              ElementsAreArray(same({kNan, kNan})));
  EXPECT_THAT(numbers(one_node("softmax(%x){axis=-1}", tensor(DType::f32, {3}, {1e30, -1e30, -kInf}))),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(numbers(one_node("softmax(%x){axis=0}", tensor(DType::f32, {}, {-5}))), ElementsAre(1));
  EXPECT_THAT(numbers(one_node("logsumexp(%x){axes=[0]}", tensor(DType::f32, {3}, {-kInf, -kInf, -kInf}))),
              ElementsAre(-kInf));
  EXPECT_THAT(numbers(one_node("logsumexp(%x){axes=[0]}", tensor(DType::f32, {3}, {1, kInf, -kInf}))),
              ElementsAre(kInf));
}

TEST(Eval, AttentionOverNothingIsZero) {
  const char* text =
      "graph @g(%q: f32[1,1,2,1], %k: f32[1,1,2,1], %v: f32[1,1,2,1], %m: f32[2,2]) {\n"
      "  %y = attention(%q, %k, %v, %m){scale=1.0}\n  return %y\n}\n";
  const auto y = run(
      text, {tensor(DType::f32, {1, 1, 2, 1}, {1, 1}), tensor(DType::f32, {1, 1, 2, 1}, {0, 0}),
             tensor(DType::f32, {1, 1, 2, 1}, {3, 5}), tensor(DType::f32, {2, 2}, {-kInf, -kInf, 0, -kInf})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_THAT(numbers((*y)[0]), ElementsAre(0, 3));
}

TEST(Eval, CausalAttentionSeesUpToItsOwnColumn) {
  const char* text =
      "graph @g(%q: f32[1,1,3,1], %v: f32[1,1,2,1]) {\n"
      "  %y = attention(%q, %v, %v){causal=true, scale=0.0}\n  return %y\n}\n";
  const auto y =
      run(text, {tensor(DType::f32, {1, 1, 3, 1}, {1, 1, 1}), tensor(DType::f32, {1, 1, 2, 1}, {2, 4})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_THAT(numbers((*y)[0]), ElementsAre(2, 3, 3));
}

TEST(Eval, AttentionWithHeadsLast) {
  const auto text = [](const std::string& sizes, const std::string& layout) {
    return "graph @g(%q: f32[" + sizes + ",1], %k: f32[" + sizes +
           ",1]) {\n  %y = attention(%q, %k, %k){causal=true, scale=0.5" + layout + "}\n  return %y\n}\n";
  };
  const std::vector<double> q{1, 2, 3, 4, 5, 6}, k{-1, 2, 1, 3, 0, 2}, last_q{1, 4, 2, 5, 3, 6},
      last_k{-1, 3, 2, 0, 1, 2};
  const auto first =
      run(text("1,2,3", ""), {tensor(DType::f32, {1, 2, 3, 1}, q), tensor(DType::f32, {1, 2, 3, 1}, k)});
  const auto last = run(text("1,3,2", ", layout=\"heads_last\""),
                        {tensor(DType::f32, {1, 3, 2, 1}, last_q), tensor(DType::f32, {1, 3, 2, 1}, last_k)});
  ASSERT_TRUE(first.ok() && last.ok());
  const std::vector<double> y = numbers((*first)[0]);
  EXPECT_THAT(numbers((*last)[0]), ElementsAre(y[0], y[3], y[1], y[4], y[2], y[5]));
}

TEST(Eval, NanWinsInPoolsAndPaddingNever) {
  const char* pool = "max_pool(%x){kernel=[2], strides=[2], padding=[1], padding_high=[1]}";
  EXPECT_THAT(numbers(one_node(pool, tensor(DType::f32, {1, 1, 4}, {-5, -7, kNan, -1}))),
              ElementsAreArray(same({-5, kNan, -1})));
  EXPECT_THAT(numbers(one_node(pool, tensor(DType::i8, {1, 1, 4}, {-128, -7, -6, -128}))),
              ElementsAre(-128, -6, -128));
  EXPECT_THAT(numbers(one_node(pool, tensor(DType::u8, {1, 1, 4}, {0, 7, 6, 0}))), ElementsAre(0, 7, 0));
}

TEST(Eval, AveragePoolCountsItsCells) {
  const HostTensor x = tensor(DType::f32, {1, 1, 4}, {6, 6, 6, 6});
  const std::string pool = "avg_pool(%x){kernel=[3], strides=[2], padding=[1], padding_high=[2]";
  EXPECT_THAT(numbers(one_node(pool + "}", x)),
              ElementsAre(4, 6, 3));  // the last window reaches one cell beyond the padding
  EXPECT_THAT(numbers(one_node(pool + ", count_include_pad=false}", x)), ElementsAre(6, 6, 6));
  EXPECT_THAT(numbers(one_node(pool + ", divisor=2}", x)), ElementsAre(6, 9, 3));
}

TEST(Eval, IndicesWrap) {
  const std::string head = "graph @g(%x: f32[3], %i: i64[3]) {\n  %y = gather(%x, %i){axis=0",
                    tail = "}\n  return %y\n}\n";
  const HostTensor x = tensor(DType::f32, {3}, {10, 20, 30});
  const auto y = run(head + tail, {x, tensor(DType::i64, {3}, {-1, -3, 1})});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_THAT(numbers((*y)[0]), ElementsAre(30, 10, 20));
  const std::string fault = "%y = gather(%x: f32[3], %i: i64[3]): index out of range";
  for (int wrong : {-4, 3, 1000})
    EXPECT_EQ(run(head + tail, {x, tensor(DType::i64, {3}, {1.0, double(wrong), 0})}).status().message(),
              fault);
  const std::string unwrapped = head + ", wrap=false" + tail;
  EXPECT_TRUE(run(unwrapped, {x, tensor(DType::i64, {3}, {0, 2, 1})}).ok());
  EXPECT_EQ(run(unwrapped, {x, tensor(DType::i64, {3}, {0, -1, 1})}).status().message(), fault);
}

TEST(Eval, ScatterSetsTheLastAndFoldsAll) {
  const std::string head =
      "graph @g(%x: i32[3], %i: i64[4], %u: i32[4]) {\n  %y = scatter(%x, %i, %u){axis=0";
  const std::vector<HostTensor> inputs = {tensor(DType::i32, {3}, {1, 1, 1}),
                                          tensor(DType::i64, {4}, {2, 0, 2, -1}),
                                          tensor(DType::i32, {4}, {5, 6, 7, 8})};
  EXPECT_THAT(numbers((*run(head + "}\n  return %y\n}\n", inputs))[0]), ElementsAre(6, 1, 8));
  auto of_mode = [&](const std::string& mode) {
    return numbers((*run(head + ", mode=\"" + mode + "\"}\n  return %y\n}\n", inputs))[0]);
  };
  EXPECT_THAT(of_mode("add"), ElementsAre(7, 1, 21));
  EXPECT_THAT(of_mode("mul"), ElementsAre(6, 1, 280));
  EXPECT_THAT(of_mode("max"), ElementsAre(6, 1, 8));
  EXPECT_THAT(of_mode("min"), ElementsAre(1, 1, 1));
}

TEST(Eval, IntegersKeepAllBits) {
  HostTensor big(DType::i64, {2});
  big.set(0, {0, (int64_t{1} << 53) + 1});
  big.set(1, {0, std::numeric_limits<int64_t>::max()});
  const HostTensor sum = one_node("add(%x, %x)", big);
  EXPECT_EQ(sum.get(0).i, (int64_t{1} << 54) + 2);
  EXPECT_EQ(sum.get(1).i, -2);
  EXPECT_EQ(one_node("max(%x){axes=[0]}", big).get(0).i, std::numeric_limits<int64_t>::max());
  HostTensor third(DType::i64, {1});
  third.set(0, {0, (int64_t{1} << 60) + (int64_t{1} << 36) +
                       1});  // as a double this is a tie, which f32 would round down
  EXPECT_EQ(one_node("cast(%x){dtype=f32}", third).get(0).d, 0x1p60 + 0x1p37);
}

TEST(Eval, BoolIsZeroOrOne) {
  const HostTensor x = tensor(DType::b8, {2}, {0, 1});
  EXPECT_THAT(numbers(one_node("bit_not(%x)", x)), ElementsAre(1, 0));
  EXPECT_THAT(numbers(one_node("cast(%x){dtype=f16}", x)), ElementsAre(0, 1));
  EXPECT_THAT(numbers(one_node("cast(%x){dtype=bool}", tensor(DType::f32, {4}, {0.1, kNan, -0.0, -1}))),
              ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(numbers(one_node("max(%x){axes=[0]}", x)), ElementsAre(1));
  EXPECT_THAT(numbers(one_node("where(%x, %x, %x)", x)), ElementsAre(0, 1));
}

TEST(Eval, SourcesInEveryDType) {
  EXPECT_THAT(
      numbers((*run(
          "graph @g() {\n  %y = iota{shape=[2,3], dtype=i8, axis=1, start=126, step=1}\n  return %y\n}\n",
          {}))[0]),
      ElementsAre(126, 127, -128, 126, 127, -128));
  EXPECT_THAT(numbers((*run(
                  "graph @g() {\n  %y = iota{shape=[3], dtype=f32, start=0.5, step=-0.25}\n  return %y\n}\n",
                  {}))[0]),
              ElementsAre(0.5, 0.25, 0));
  EXPECT_THAT(numbers((*run("graph @g() {\n  %y = full{value=-inf, shape=[1], dtype=bf16}\n  return %y\n}\n",
                            {}))[0]),
              ElementsAre(-kInf));
  EXPECT_THAT(numbers((*run("graph @g(%x: f32[2*N+1]) {\n  %y = dim{value=N*N, dtype=f16}\n  return %y\n}\n",
                            {HostTensor(DType::f32, {7})}))[0]),
              ElementsAre(9));
}

TEST(Symbols, AreSolvedFromSizesAndScalars) {
  const auto graph =
      parse_graph("graph @g(%x: f32[N*M,3*M+1], %y: f32[M,N], %k: i64[] = K) {\n  return %x\n}\n");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto solve = [&](std::vector<std::vector<int64_t>> shapes) {
    return solve_symbols(*graph, shapes, [](size_t) { return 9; });
  };
  const auto values = solve({{8, 13}, {4, 2}, {}});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(values->at(graph->dims->symbol_number(*graph->dims->find_symbol("N"))), 2);
  EXPECT_EQ(values->at(graph->dims->symbol_number(*graph->dims->find_symbol("M"))), 4);
  EXPECT_EQ(values->at(graph->dims->symbol_number(*graph->dims->find_symbol("K"))), 9);
  EXPECT_THAT(solve({{9, 13}, {4, 2}, {}}).status().message(), HasSubstr("%x"));
  EXPECT_THAT(solve({{8, 12}, {4, 2}, {}}).status().message(), HasSubstr("is not 12"));
  EXPECT_THAT(solve({{8}, {4, 2}, {}}).status().message(), HasSubstr("given [8]"));
  EXPECT_FALSE(solve({{0, -2}, {-1, 0}, {}}).ok());
}

TEST(Symbols, ThatTheSizesDoNotTellAreRefused) {
  const auto graph = parse_graph("graph @g(%x: f32[N*M]) {\n  return %x\n}\n");
  ASSERT_TRUE(graph.ok());
  const auto values = solve_symbols(*graph, std::vector<std::vector<int64_t>>{{6}}, [](size_t) { return 0; });
  EXPECT_EQ(values.status().code(), Code::invalid);
  EXPECT_THAT(values.status().message(), HasSubstr("do not tell"));
}

TEST(Eval, RefusesWhatDoesNotFit) {
  const std::string text = "graph @g(%x: f32[2]) {\n  %y = neg(%x)\n  return %y\n}\n";
  EXPECT_THAT(run(text, {}).status().message(), HasSubstr("1 inputs needed, given 0"));
  EXPECT_THAT(run(text, {HostTensor(DType::f64, {2})}).status().message(),
              HasSubstr("f32[2] needed, given f64"));
  EXPECT_THAT(run(text, {HostTensor(DType::f32, {3})}).status().message(),
              HasSubstr("f32[2] needed, given [3]"));
  const auto huge = run(
      "graph @g() {\n  %y = full{value=0, shape=[1048576,1048576,1048576], dtype=u8}\n  return %y\n}\n", {});
  EXPECT_EQ(huge.status().code(), Code::invalid);
  EXPECT_THAT(huge.status().message(), HasSubstr("too large"));
}

}  // namespace
}  // namespace tenon
