// Compares the back end of the row attention with the evaluator: sizes around those of groups, blocks and panels, masks, a causal mask,
// heads that share keys, strided operands and results, symbolic sizes, several threads.
#include "backends/attention/attention.h"

#include <gmock/gmock.h>

#include <limits>
#include <sstream>

#include "src/backend/host_threads.h"
#include "src/base/cpu.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  int64_t batch = 1, heads = 2, key_heads = 2, rows = 5, keys = 5, depth = 8, width = 8;
  bool causal = false, symbolic = false, heads_last = false, gradient = false;
  std::string mask = {};  // its shape, of the letters b, h, l, s and 1
  DType dtype = DType::f32;
  bool dropout = false;
};

std::string dims(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t n : shape) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::string print(const Case& c) {
  return "batch " + std::to_string(c.batch) + ", heads " + std::to_string(c.heads) + " by " +
         std::to_string(c.key_heads) + ", rows " + std::to_string(c.rows) + ", keys " +
         std::to_string(c.keys) + ", depth " + std::to_string(c.depth) + ", width " +
         std::to_string(c.width) + (c.causal ? ", causal" : "") + ", mask " + c.mask +
         (c.dropout ? ", dropout, " : ", ") + std::string(name(c.dtype)) +
         (c.gradient ? ", the gradient" : "");
}

struct Built {
  std::string text;
  std::vector<HostTensor> inputs;
};

// How a graph is written: with sizes or symbols, and with strides of a view.
Built build(const Case& c, bool symbolic, const std::string& strides = "") {
  Built b;
  std::string params;
  const auto add_typed = [&](DType dtype, const std::string& name, std::vector<int64_t> shape,
                             const std::string& symbols, const std::string& view) {
    params += (params.empty() ? "%" : ", %") + name + ": " + std::string(tenon::name(dtype)) + "[" +
              (symbolic ? symbols : dims(shape)) + "]" + view;
    b.inputs.push_back(random_tensor(dtype, shape, static_cast<uint32_t>(b.inputs.size()) + 1));
  };
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, const std::string& symbols,
                       const std::string& view) {
    add_typed(c.dtype, name, std::move(shape), symbols, view);
  };
  const std::string h = std::to_string(c.heads), kh = std::to_string(c.key_heads),
                    d = std::to_string(c.depth), w = std::to_string(c.width);
  if (c.heads_last || c.gradient) {
    add("q", {c.batch, c.rows, c.heads, c.depth}, "B,L," + h + "," + d, strides);
    add("k", {c.batch, c.keys, c.key_heads, c.depth}, "B,S," + kh + "," + d, "");
    add("v", {c.batch, c.keys, c.key_heads, c.width}, "B,S," + kh + "," + w, "");
  } else {
    add("q", {c.batch, c.heads, c.rows, c.depth}, "B," + h + ",L," + d, strides);
    add("k", {c.batch, c.key_heads, c.keys, c.depth}, "B," + kh + ",S," + d, "");
    add("v", {c.batch, c.key_heads, c.keys, c.width}, "B," + kh + ",S," + w, "");
  }
  if (c.gradient) add("dy", {c.batch, c.rows, c.heads, c.width}, "B,L," + h + "," + w, "");
  if (!c.mask.empty()) {
    std::vector<int64_t> shape;
    std::string symbols;
    for (char axis : c.mask) {
      shape.push_back(axis == 'b'   ? c.batch
                      : axis == 'h' ? c.heads
                      : axis == 'l' ? c.rows
                      : axis == 's' ? c.keys
                                    : 1);
      symbols += (symbols.empty() ? "" : ",") + (axis == 'b'   ? "B"
                                                 : axis == 'h' ? h
                                                 : axis == 'l' ? "L"
                                                 : axis == 's' ? "S"
                                                               : "1");
    }
    add("m", shape, symbols, "");
  }
  if (c.dropout) add_typed(DType::b8, "kept", {c.batch, c.heads, c.rows, c.keys}, "B," + h + ",L,S", "");
  b.text = "graph @g(" + params + ") {\n  %y = attention" +
           (c.gradient ? "_gradient(%q, %k, %v, %dy" : "(%q, %k, %v") + (c.mask.empty() ? "" : ", %m") +
           (c.dropout ? ", %kept){dropout=0.3, " : "){") +
           "scale=0.3, causal=" + (c.causal ? "true" : "false") +
           (c.heads_last && !c.gradient ? ", layout=\"heads_last\"" : "") + "}\n  return %y\n}\n";
  return b;
}

std::vector<float> floats(const HostTensor& t) {
  std::vector<float> v(static_cast<size_t>(t.count()));
  for (int64_t i = 0; i < t.count(); ++i) v[static_cast<size_t>(i)] = static_cast<float>(t.number(i));
  return v;
}

// Whether another back end has faster products for this type.
bool stays_elsewhere(DType dtype) { return dtype == DType::bf16 && cpu_lacks("amx-bf16").empty(); }

using Change = void (*)(std::vector<HostTensor>&);

// Runs a case. change: of its inputs before they are used.
void check_one(const Case& c, int threads, Change change) {
  SCOPED_TRACE(print(c));
  Built b = build(c, c.symbolic);
  if (change) change(b.inputs);
  auto graph = parse_graph(build(c, false).text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto expected = evaluate(*graph, b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  graph = parse_graph(b.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ProgramOptions options;
  options.threads = threads;
  auto program = Program::make(*graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  if (!stays_elsewhere(c.dtype)) {
    EXPECT_THAT((*program)->explain(false), HasSubstr("(attention): attention"));
  }
  std::vector<HostTensor> outputs = blank_like(*expected);
  const Status status = run(**program, b.inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto got = floats(outputs[0]), wanted = floats((*expected)[0]);
  // Gradients of k and v are sums over the rows, whose terms cancel.
  const double rounding = c.gradient ? 2e-5 * std::sqrt(static_cast<double>(1 + c.rows)) : 2e-5;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(wanted[i])) << "element " << i << " is " << got[i];
    if (std::isnan(wanted[i])) continue;
    // Both round the same sum, or neighbours of it, to the type.
    const double ulp =
        c.dtype == DType::f32 ? 0 : (c.dtype == DType::bf16 ? 0x1p-7 : 0x1p-10) * std::abs(wanted[i]);
    ASSERT_NEAR(got[i], wanted[i], rounding + ulp) << "element " << i;
  }
}

// Runs attention and its gradient, one of them with dropout.
void check(Case c, int threads = 2, Change change = nullptr) {
  for (const bool gradient : {false, true}) {
    c.gradient = gradient;
    c.dropout = gradient == ((c.rows + c.keys + c.depth) % 2 == 0);
    check_one(c, threads, change);
  }
}

TEST(Attention, SizesAroundGroupsBlocksAndPanels) {
  for (const int64_t rows : sampled<int64_t>({1, 4, 5, 48, 49, 97}))
    for (const int64_t keys : sampled<int64_t>({1, 15, 16, 33, 100}))
      for (const bool causal : {false, true}) check({.rows = rows, .keys = keys, .causal = causal});
  for (const int64_t depth : sampled<int64_t>({1, 3, 16, 33, 40, 64}))
    for (const int64_t width : sampled<int64_t>({1, 16, 31, 32, 48, 64}))
      for (const int64_t rows : {2, 7}) check({.rows = rows, .keys = 20, .depth = depth, .width = width});
}

TEST(Attention, SeveralBlocksOfKeys) {
  for (const int64_t keys : sampled<int64_t>({513, 511, 512, 1100}))
    for (const int64_t rows : {1, 3, 50})
      check({.heads = 1, .key_heads = 1, .rows = rows, .keys = keys, .width = 32});
  // The diagonal meets the second block.
  check({.heads = 1, .key_heads = 1, .rows = 600, .keys = 600, .depth = 4, .width = 4, .causal = true});
  check({.heads = 1, .key_heads = 1, .rows = 700, .keys = 530, .depth = 4, .width = 4, .causal = true});
  check({.heads = 1, .key_heads = 1, .rows = 40, .keys = 530, .depth = 4, .width = 4, .causal = true});
}

TEST(Attention, HeadsShareKeys) {
  for (const int64_t rows : {1, 2, 50})
    for (const int64_t key_heads : {1, 2, 6})
      for (const bool causal : {false, true})
        for (const char* mask : {"", "bhls", "b11s"})
          check({.batch = 2,
                 .heads = 6,
                 .key_heads = key_heads,
                 .rows = rows,
                 .keys = 21,
                 .causal = causal,
                 .mask = mask});
}

TEST(Attention, MasksOfAllShapes) {
  for (const char* mask : sampled<const char*>(
           {"bhls", "b11s", "1hls", "b1ls", "11ls", "bh1s", "bhl1", "ls", "s", "1", "hls", "l1"}))
    for (const bool causal : {false, true})
      for (const int64_t rows : {1, 9})
        check({.batch = 2,
               .heads = 3,
               .key_heads = 3,
               .rows = rows,
               .keys = 35,
               .causal = causal,
               .mask = mask});
}

TEST(Attention, RowsThatSeeNothingAreZero) {
  const auto hide = [](std::vector<HostTensor>& inputs) {
    HostTensor& mask =
        inputs[inputs.size() - (inputs.back().dtype == DType::b8 ? 2 : 1)];  // kept is the last one
    for (int64_t i = 0; i < mask.count(); ++i)
      if (i / mask.shape.back() % 3 != 1 || i % 2) mask.set_number(i, -kInf);
  };
  check({.rows = 7, .keys = 40, .mask = "bhls"}, 2, hide);
  check({.heads = 1, .key_heads = 1, .rows = 60, .keys = 600, .mask = "11ls"}, 2, hide);
}

TEST(Attention, InfinitiesAndNan) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), static_cast<double>(kInf)}) {
    static double value;
    value = bad;
    const auto spoil = [](std::vector<HostTensor>& inputs) { inputs[0].set_number(3, value); };
    check({.rows = 6, .keys = 600}, 2, spoil);
    check({.rows = 6, .keys = 9, .causal = true}, 2, spoil);
  }
}

TEST(Attention, NoRowsKeysOrColumns) {
  check({.rows = 0});
  check({.keys = 0});
  check({.depth = 0});
  check({.width = 0});
  check({.batch = 0});
  check({.heads = 0, .key_heads = 0});
  check({.keys = 0, .causal = true, .mask = "bhls"});
}

TEST(Attention, OneProgramForAllSizes) {
  Built b = build({}, /*symbolic=*/true);
  auto graph = parse_graph(b.text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  auto program = Program::make(*graph, {}, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const int64_t n : {1, 2, 5, 48, 100, 514}) {
    Built at = build({.batch = 1 + n % 3, .rows = n, .keys = n + 3}, false);
    auto expected = evaluate(*parse_graph(at.text), at.inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    std::vector<HostTensor> outputs = blank_like(*expected);
    const Status status = run(**program, at.inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto got = floats(outputs[0]), wanted = floats((*expected)[0]);
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-5) << n << ", element " << i;
  }
  EXPECT_LE((*program)->stats().kernels_compiled, 3) << "a new size compiles a kernel";
}

TEST(Attention, HeadsLast) {
  for (const bool causal : {false, true})
    check({.batch = 2,
           .heads = 4,
           .key_heads = 2,
           .rows = 50,
           .keys = 70,
           .causal = causal,
           .heads_last = true,
           .mask = "b11s"});
}

TEST(Attention, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const bool causal : {false, true})
      for (const char* mask : {"", "b11s", "bhls"})
        for (const int64_t rows : {1, 3, 50}) {
          check({.batch = 2,
                 .heads = 4,
                 .rows = rows,
                 .keys = 150,
                 .width = 40,
                 .causal = causal,
                 .mask = mask,
                 .dtype = dtype});
          check({.heads = 4,
                 .rows = rows,
                 .keys = 20,
                 .depth = 33,
                 .heads_last = true,
                 .mask = mask,
                 .dtype = dtype});
        }
}

// Keys and values that all heads share by a stride of 0, and results in other orders: rows that are not dense, and elements that are not.
TEST(Attention, ExpandedKeysAndStridedResult) {
  for (const char* result : {" strides=[144,8,16,1]", " strides=[144,72,1,9]"}) {
    SCOPED_TRACE(result);
    const std::string text =
        std::string("graph @g(%q: f32[2,2,9,8], %a: f32[2,1,9,8], %b: f32[2,1,9,8]) {\n") +
        "  %k = expand(%a){shape=[2,2,9,8]}\n  %v = expand(%b){shape=[2,2,9,8]}\n" +
        "  %y = attention(%q, %k, %v){scale=0.3}\n  return %y";
    std::vector<HostTensor> inputs = {random_tensor(DType::f32, {2, 2, 9, 8}, 1),
                                      random_tensor(DType::f32, {2, 1, 9, 8}, 2),
                                      random_tensor(DType::f32, {2, 1, 9, 8}, 3)};
    auto expected = evaluate(*parse_graph(text + "\n}\n"), inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    auto program = Program::make(*parse_graph(text + result + "\n}\n"), {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<Tensor> in;
    for (HostTensor& t : inputs) in.push_back(tensor_of(t));
    const bool rows = std::string_view(result).ends_with("1]");
    const std::vector<int64_t> strides =
        rows ? std::vector<int64_t>{144, 8, 16, 1} : std::vector<int64_t>{144, 72, 1, 9};
    std::vector<float> y(2 * 144, NAN);
    const std::vector<Tensor> out = {{y.data(), DType::f32, (*expected)[0].shape, strides}};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto wanted = floats((*expected)[0]);
    for (int64_t i = 0; i < 288; ++i) {
      const int64_t at =
          i / 144 * strides[0] + i / 72 % 2 * strides[1] + i / 8 % 9 * strides[2] + i % 8 * strides[3];
      ASSERT_NEAR(y[static_cast<size_t>(at)], wanted[static_cast<size_t>(i)], 2e-5) << "element " << i;
    }
  }
}

// A gradient whose elements are not dense.
TEST(Attention, StridedGradient) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    Built b = build({.rows = 50, .keys = 33, .gradient = true, .dtype = dtype}, false);
    auto expected = evaluate(*parse_graph(b.text), b.inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    b.text.insert(b.text.find("return %y") + 9, " strides=[3]");
    auto program = Program::make(*parse_graph(b.text), {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<Tensor> in;
    for (HostTensor& t : b.inputs) in.push_back(tensor_of(t));
    const auto wanted = floats((*expected)[0]);
    HostTensor spread(dtype, {static_cast<int64_t>(3 * wanted.size())});
    const std::vector<int64_t> strides = {3};
    const std::vector<Tensor> out = {{spread.bytes.data(), dtype, (*expected)[0].shape, strides}};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto got = floats(spread);
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(got[3 * i], wanted[i], 2e-4 + (dtype == DType::f16 ? 0x1p-10 * std::abs(wanted[i]) : 0))
          << i;
  }
}

// Operands of different types stay with other back ends.
TEST(Attention, OperandsOfDifferentTypes) {
  for (const char* types : {"bf16 f32 f32", "bf16 bf16 bf16 f32", "f16 f16 f32"}) {
    std::istringstream words(types);
    std::string params, operands;
    std::vector<HostTensor> inputs;
    for (std::string type; words >> type;) {
      const std::string name = "%x" + std::to_string(inputs.size());
      params += (params.empty() ? "" : ", ") + name + ": " + type + "[1,2,5,5]";
      operands += (operands.empty() ? "" : ", ") + name;
      inputs.push_back(
          random_tensor(*parse_dtype(type), {1, 2, 5, 5}, static_cast<uint32_t>(inputs.size()) + 1));
    }
    auto graph = parse_graph("graph @g(" + params + ") {\n  %y = attention(" + operands +
                             "){scale=0.3}\n  return %y\n}\n");
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    auto expected = evaluate(*graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<HostTensor> outputs = blank_like(*expected);
    const Status status = run(**program, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto got = floats(outputs[0]), wanted = floats((*expected)[0]);
    for (size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(got[i], wanted[i], 0x1p-6 * std::max(1.0f, std::abs(wanted[i]))) << types;
  }
}

// A query whose rows, heads or elements are not dense.
TEST(Attention, StridedQueries) {
  Case c{.batch = 2, .heads = 2, .key_heads = 2, .rows = 9, .keys = 9};
  Built b = build(c, false);
  auto expected = evaluate(*parse_graph(b.text), b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const std::vector<int64_t>& strides :
       {std::vector<int64_t>{2 * 9 * 16, 9 * 16, 16, 2}, std::vector<int64_t>{144, 8, 16, 1},
        std::vector<int64_t>{144, 72, 1, 9}}) {
    SCOPED_TRACE(dims(strides));
    auto graph = parse_graph(build(c, false, " strides=[" + dims(strides) + "]").text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    auto program = Program::make(*graph, {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<Tensor> in;
    for (HostTensor& t : b.inputs) in.push_back(tensor_of(t));
    std::vector<float> spread(2 * 2 * 9 * 16, NAN);
    const auto q = floats(b.inputs[0]);
    for (int64_t i = 0; i < b.inputs[0].count(); ++i)
      spread[static_cast<size_t>(i / 144 * strides[0] + i / 72 % 2 * strides[1] + i / 8 % 9 * strides[2] +
                                 i % 8 * strides[3])] = q[static_cast<size_t>(i)];
    in[0] = {spread.data(), DType::f32, b.inputs[0].shape, strides};
    std::vector<HostTensor> outputs = blank_like(*expected);
    const std::vector<Tensor> out = {tensor_of(outputs[0])};
    const Status status = (*program)->run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto got = floats(outputs[0]), wanted = floats((*expected)[0]);
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-5) << "element " << i;
  }
}

// No view is in front of these operands, so the step itself copies them.
TEST(Attention, OperandsWithGapsInRows) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (int which = 0; which < 5; ++which) {
      const auto operand = [&](int i, const std::string& shape, const std::string& strides) {
        return std::string(name(dtype)) + shape + (i == which ? " strides=" + strides : "");
      };
      const std::string head = "graph @g(%q: " + operand(0, "[5,4,2,8]", "[64,16,1,2]") +
                               ", %k: " + operand(1, "[5,3,2,8]", "[48,16,1,2]") +
                               ", %v: " + operand(2, "[5,3,2,4]", "[24,1,3,6]");
      const std::string mask =
          std::string(", %p: bool[5,2,4,3]") + (which == 4 ? " strides=[24,12,1,4]" : "");
      for (const std::string& text : {head + mask +
                                          ") {\n  %y = attention(%q, %k, %v, %p){scale=0.5, "
                                          "layout=\"heads_last\", dropout=0.5}\n  return %y\n}\n",
                                      head + ", %d: " + operand(3, "[5,4,2,4]", "[32,8,1,2]") + mask +
                                          ") {\n  %y = attention_gradient(%q, %k, %v, %d, %p){scale=0.5, "
                                          "dropout=0.5}\n  return %y\n}\n"}) {
        SCOPED_TRACE(text);
        const auto graph = parse_graph(text);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        std::vector<HostTensor> inputs = random_inputs(*graph);
        const CheckResult result = check_program(*graph, inputs);
        EXPECT_EQ(result.kind, CheckResult::right) << result.message;
      }
    }
}

TEST(Attention, ThreadsChangeNothing) {
  const int before = default_parallel().threads();
  for (const bool causal : {false, true}) {
    std::vector<float> first;
    set_host_threads(7);
    for (const int threads : {1, 2, 3, 7}) {
      Built b =
          build({.batch = 2, .heads = 3, .key_heads = 3, .rows = 300, .keys = 600, .causal = causal}, false);
      ProgramOptions options;
      options.threads = threads;
      auto program = Program::make(*parse_graph(b.text), options, {});
      ASSERT_TRUE(program.ok()) << program.status().message();
      std::vector<HostTensor> outputs = {HostTensor(DType::f32, {2, 3, 300, 8})};
      const Status status = run(**program, b.inputs, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      const auto got = floats(outputs[0]);
      if (first.empty()) first = got;
      ASSERT_EQ(std::memcmp(got.data(), first.data(), outputs[0].bytes.size()), 0) << threads << " threads";
    }
  }
  set_host_threads(before);
}

TEST(Attention, MemoryDoesNotGrowWithTheSquareOfTheLength) {
  int64_t before = 0;
  for (const int64_t length : {2000, 8000}) {
    Built b = build({.heads = 1, .key_heads = 1, .rows = length, .keys = length}, false);
    auto program = Program::make(*parse_graph(b.text), {}, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::vector<HostTensor> outputs = {HostTensor(DType::f32, {1, 1, length, 8})};
    ASSERT_TRUE(run(**program, b.inputs, outputs).ok());
    const int64_t bytes = (*program)->stats().workspace_bytes;
    if (before > 0) {
      EXPECT_EQ(bytes, before);
    }
    before = bytes;
  }
}

}  // namespace
}  // namespace tenon
