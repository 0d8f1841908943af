// Compares the back end of sort_order and search with the evaluator: lengths around the limits of each algorithm, equal elements,
// NaN and zeros of both signs, parts of the order, other axes, strided operands and several threads.
#include <limits>

#include "backends/rows/rows.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kComputed[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                               DType::i32, DType::i16, DType::i8,  DType::u8,   DType::b8};

// kinds: the number of different values; with few there are many equal elements. Floats include NaN, infinities and zeros of both
// signs.
HostTensor elements(DType dtype, const std::vector<int64_t>& shape, uint32_t seed, int64_t kinds) {
  HostTensor t(dtype, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < t.count(); ++i) {
    const auto kind = static_cast<int64_t>(random() % static_cast<uint64_t>(kinds));
    const double special[] = {kNan, kInf, -kInf, 0.0, -0.0, -kNan};
    const auto which = random() % 40;
    if (!is_float(dtype))
      t.set(i, {0, static_cast<int64_t>(static_cast<uint64_t>(kind) * 0x9E3779B97F4A7C1 -
                                        static_cast<uint64_t>(kind % 3) * 1000)});
    else
      t.set(i, {which < 6 ? special[which] : std::ldexp(static_cast<double>(kind) - kinds / 2.0, -3), 0});
  }
  return t;
}

void check(const std::string& text, std::vector<HostTensor> inputs, int threads = 0) {
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto expected = evaluate(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ProgramOptions options;
  options.threads = threads;
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ((*program)->stats().reference_steps, 0) << (*program)->explain(false);
  std::vector<HostTensor> outputs = blank_like(*expected);
  const Status status = run(**program, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t o = 0; o < outputs.size(); ++o)
    EXPECT_EQ(outputs[o].bytes, (*expected)[o].bytes) << text << (*program)->explain(false);
}

std::string order_of(DType dtype, const std::string& shape, int axis, int64_t start, int64_t end,
                     bool descending) {
  return "graph @g(%x: " + std::string(name(dtype)) + "[" + shape +
         "]) {\n  %y = sort_order(%x){axis=" + std::to_string(axis) + ", start=" + std::to_string(start) +
         ", end=" + std::to_string(end) + ", descending=" + (descending ? "true" : "false") +
         "}\n  return %y\n}\n";
}

TEST(Rows, OrdersOfEveryDTypeAndLength) {
  for (const DType dtype : kComputed)
    for (const int64_t length : {1, 2, 3, 5, 7, 8, 64, 65, 300, 4097})
      for (const int64_t kinds : {int64_t{3}, int64_t{1000}}) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(length));
        const HostTensor x = elements(dtype, {3, length}, static_cast<uint32_t>(length), kinds);
        for (const bool descending : {false, true})
          check(order_of(dtype, "N,M", 1, 0, length, descending), {x});
      }
}

TEST(Rows, PartsOfAnOrder) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::b8})
    for (const auto& [start, end] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 0}, {0, 1}, {0, 5}, {7, 20}, {99, 100}, {499, 500}, {350, 700}, {999, 1000}, {1000, 1000}})
      for (const int64_t kinds : {int64_t{2}, int64_t{100000}}) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(start) + " to " + std::to_string(end));
        const HostTensor x = elements(dtype, {2, 1000}, 7, kinds);
        for (const bool descending : {false, true})
          check(order_of(dtype, "N,M", 1, start, end, descending), {x});
      }
  for (const int64_t length : {65, 128, 129, 640, 1300})
    for (const int64_t end : {1, 2, 9, 10, 20})
      check(order_of(DType::f32, "N,M", 1, 0, end, false), {elements(DType::f32, {3, length}, 7, 30)});
  // Each element is smaller than all before it, so all enter the heap.
  HostTensor falling(DType::f32, {1, 5000});
  for (int64_t i = 0; i < 5000; ++i) falling.set_number(i, static_cast<double>(-i));
  check(order_of(DType::f32, "N,M", 1, 0, 9, false), {falling});
}

// Kernels compare the elements of short rows, many rows at once.
TEST(Rows, ShortOrdersRunInLanes) {
  for (const bool descending : {false, true})
    for (const auto& [start, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {1, 3}, {2, 2}})
      for (const int axis : {0, 1, 2}) {
        const std::string text = order_of(DType::f32,
                                          axis == 0   ? "3,N,M"
                                          : axis == 1 ? "N,3,M"
                                                      : "N,M,3",
                                          axis, start, end, descending);
        EXPECT_EQ(program_of(text)->explain(false).find("(rows)"), std::string::npos) << text;
        std::vector<int64_t> shape{70, 70};
        shape.insert(shape.begin() + axis, 3);
        check(text, {elements(DType::f32, shape, 5, 4)});
      }
  EXPECT_EQ(program_of(order_of(DType::f32, "N,12,M", 1, 0, 12, false))->explain(false).find("(rows)"),
            std::string::npos);
  EXPECT_NE(program_of(order_of(DType::f32, "N,12,3", 1, 0, 12, false))->explain(false).find("(rows)"),
            std::string::npos);
  for (const int64_t length : {8, 13, 16})
    check(order_of(DType::bf16, "N,L,M", 1, 1, length, true), {elements(DType::bf16, {3, length, 33}, 5, 9)});
  for (const char* other : {"3]) {\n  %y = sort_order(%x){axis=1, end=3, select=true",
                            "8]) {\n  %y = sort_order(%x){axis=1, end=3, descending=true"}) {
    const std::string text = std::string("graph @g(%x: f32[N,") + other + "}\n  return %y\n}\n";
    EXPECT_NE(program_of(text)->explain(false).find("(rows)"), std::string::npos) << text;
  }
}

TEST(Rows, Selections) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64})
    for (const auto& [length, end] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {8, 4}, {8, 8}, {63, 1}, {64, 1}, {130, 2}, {130, 3}, {256, 8}, {5000, 900}, {9, 0}})
      for (const int64_t kinds : {int64_t{3}, int64_t{100000}})
        for (const char* descending : {"false", "true"}) {
          SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(end) + " of " +
                       std::to_string(length));
          check("graph @g(%x: " + std::string(name(dtype)) + "[N,M]) {\n  %y = sort_order(%x){axis=1, end=" +
                    std::to_string(end) + ", select=true, descending=" + descending + "}\n  return %y\n}\n",
                {elements(dtype, {3, length}, 11, kinds)});
        }
}

TEST(Rows, OrdersAlongAnyAxisOfStridedMemory) {
  for (const int axis : {0, 1, 2})
    for (const int threads : {1, 2}) {
      check(order_of(DType::f32, "N,M,K", axis, 1, 4, true), {elements(DType::f32, {5, 70, 90}, 3, 50)},
            threads);
      check(
          "graph @g(%x: f32[N,M,K]) {\n  %t = transpose(%x){perm=[2,0,1]}\n"
          "  %s = slice(%t){axis=0, start=1, end=9, step=3}\n  %f = flip(%s){axes=[1]}\n"
          "  %y = sort_order(%f){axis=" +
              std::to_string(axis) + ", start=0, end=3}\n  return %y\n}\n",
          {elements(DType::f32, {5, 70, 90}, 3, 50)}, threads);
    }
  check(
      "graph @g(%x: f32[N,M]) {\n  %e = expand(%x){shape=[4,N,M]}\n"
      "  %y = sort_order(%e){axis=2, end=M}\n  %z = sort_order(%e){axis=0, end=4}\n  return %y, %z\n}\n",
      {elements(DType::f32, {3, 11}, 3, 5)});
  check(order_of(DType::i32, "N,M", 1, 0, 0, false), {HostTensor(DType::i32, {3, 0})});
  check(order_of(DType::i32, "N,M", 1, 0, 4, false), {HostTensor(DType::i32, {0, 4})});
}

TEST(Rows, NeighboursOfAnOrderAreFused) {
  check(
      "graph @g(%x: f32[N,M], %w: f32[M]) {\n  %m = mul(%x, %w)\n  %o = sort_order(%m){axis=1, end=M}\n"
      "  %s = take_along(%m, %o){axis=1, wrap=false}\n  %y = relu(%s)\n  return %y, %o\n}\n",
      {elements(DType::f32, {33, 65}, 3, 1000), elements(DType::f32, {65}, 4, 1000)});
}

TEST(Rows, Searches) {
  for (const DType dtype : kComputed)
    for (const bool right : {false, true})
      for (const char* shape : {"K", "N,K"}) {
        SCOPED_TRACE(name(dtype));
        const bool one = std::string(shape) == "K";
        // Rows need not be sorted and may have NaN anywhere: the answer is that of binary search.
        for (const int64_t length : {0, 1, 6, 333}) {
          HostTensor sorted =
              elements(dtype, one ? std::vector<int64_t>{length} : std::vector{4, length}, 5, 40);
          check("graph @g(%s: " + std::string(name(dtype)) + "[" + shape +
                    "], %v: " + std::string(name(dtype)) + "[N,M]) {\n  %y = search(%s, %v){right=" +
                    (right ? "true" : "false") + "}\n  return %y\n}\n",
                {sorted, elements(dtype, {4, 50}, 6, 40)});
        }
      }
  check("graph @g(%s: f32[K], %v: f32[]) {\n  %y = search(%s, %v)\n  return %y\n}\n",
        {elements(DType::f32, {9}, 5, 40), elements(DType::f32, {}, 6, 40)});
  check(
      "graph @g(%s: f32[K], %v: f32[N,M]) {\n  %r = flip(%s){axes=[0]}\n  %t = transpose(%v){perm=[1,0]}\n"
      "  %y = search(%r, %t)\n  return %y\n}\n",
      {elements(DType::f32, {9}, 5, 40), elements(DType::f32, {300, 70}, 6, 40)}, 2);
  // Threads share the values of a row in pieces, of which the last one is shorter.
  check(
      "graph @g(%s: f32[N,K], %v: f32[M,N]) {\n  %t = transpose(%v){perm=[1,0]}\n  %y = search(%s, %t)\n  "
      "return %y\n}\n",
      {elements(DType::f32, {2, 9}, 5, 40), elements(DType::f32, {20000, 2}, 6, 40)}, 2);
}

TEST(Rows, RefusesWhatIsNoRow) {
  const std::pair<const char*, const char*> cases[] = {
      {"graph @g(%x: f32[]) {\n  %y = sort_order(%x){axis=0, end=1}\n  return %y\n}\n", "no axis"},
      {"graph @g(%x: f32[4]) {\n  %y = sort_order(%x){axis=0, end=5}\n  return %y\n}\n", "bounds"},
      {"graph @g(%x: f32[4]) {\n  %y = sort_order(%x){axis=0, start=3, end=2}\n  return %y\n}\n", "bounds"},
      {"graph @g(%x: f32[4]) {\n  %y = sort_order(%x){axis=0, start=1, end=2, select=true}\n  return %y\n}\n",
       "starts at position 0"},
      {"graph @g(%x: f8e5m2[4]) {\n  %y = sort_order(%x){axis=0, end=2}\n  return %y\n}\n",
       "not computed with"},
      {"graph @g(%s: f32[], %v: f32[3]) {\n  %y = search(%s, %v)\n  return %y\n}\n", "needs an axis"},
      {"graph @g(%s: f32[2,4], %v: f32[3]) {\n  %y = search(%s, %v)\n  return %y\n}\n", "ranks differ"},
      {"graph @g(%s: f32[2,4], %v: f32[3,4]) {\n  %y = search(%s, %v)\n  return %y\n}\n", "2,4"},
      {"graph @g(%s: f32[4], %v: f64[3]) {\n  %y = search(%s, %v)\n  return %y\n}\n", "differ in dtype"},
  };
  for (const auto& [text, why] : cases) {
    const auto graph = parse_graph(text);
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_NE(graph.status().message().find(why), std::string::npos) << graph.status().message();
  }
}

}  // namespace
}  // namespace tenon
