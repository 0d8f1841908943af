// backends/cpu/cpu.h: groups of equal outlines share kernels, but not their operands, strides and messages.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/runtime/program.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

HostTensor numbers(DType dtype, std::vector<int64_t> shape, int64_t least) {
  HostTensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) t.set_number(i, static_cast<double>(least + i % 7));
  return t;
}

// The program of a text gives the bytes of the evaluator.
void check(Program& program, const std::string& text, std::vector<HostTensor> inputs) {
  const auto expected = evaluate(*parse_graph(text), inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  std::vector<HostTensor> outputs = blank_like(*expected);
  EXPECT_EQ(run(program, inputs, outputs).message(), "");
  for (size_t o = 0; o < outputs.size(); ++o)
    EXPECT_EQ(outputs[o].bytes, (*expected)[o].bytes) << "output " << o << "\n" << program.explain(false);
}
void check(const std::string& text, std::vector<HostTensor> inputs) {
  check(*program_of(text), text, std::move(inputs));
}

// The operands of the second group are in another order in the graph than those of the first group.
TEST(Cpu, GroupsThatReadInAnotherOrder) {
  for (const char* second : {"fmod(%m, %p)", "fmod(%p, %m)", "fmod(%m, %m)"})
    for (const char* returned : {"%n", "%n, %a, %b", "%b, %n, %a"}) {
      SCOPED_TRACE(std::string(second) + " returned: " + returned);
      check(std::string("graph @f(%x: f32[6,6], %y: f32[6,6]) {\n  %p = matmul(%x, %y)\n  %q = matmul(%y, "
                        "%y)\n  %a = fmod(%p, %q)\n  %m = matmul(%a, %x)\n  %b = ") +
                second + "\n  %n = matmul(%b, %x)\n  return " + returned + "\n}",
            {numbers(DType::f32, {6, 6}, 1), numbers(DType::f32, {6, 6}, 5)});
    }
}

TEST(Cpu, GroupsOfOtherStrides) {
  const auto program = program_of(
      "graph @f(%x: f32[5,5]) {\n  %p = matmul(%x, %x)\n  %a = square(%p)\n  %m = matmul(%a, %x)\n  %b = "
      "square(%m)\n"
      "  return %a, %b strides=[1,5]\n}");
  std::vector<HostTensor> inputs = {numbers(DType::f32, {5, 5}, 0)};
  const auto expected = evaluate(*parse_graph("graph @f(%x: f32[5,5]) {\n  %p = matmul(%x, %x)\n  %a = "
                                              "square(%p)\n  %m = matmul(%a, %x)\n  %b = square(%m)\n"
                                              "  %t = transpose(%b){perm=[1,0]}\n  return %a, %t\n}"),
                                 inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  std::vector<HostTensor> outputs = blank_like(*expected);
  Tensor b = tensor_of(outputs[1]);
  const std::vector<int64_t> columns = {1, 5};
  b.strides = columns;
  ASSERT_EQ(program->run(std::vector{tensor_of(inputs[0])}, std::vector{tensor_of(outputs[0]), b}).message(),
            "");
  for (size_t o = 0; o < 2; ++o) EXPECT_EQ(outputs[o].bytes, (*expected)[o].bytes) << "output " << o;
}

// The message of a fault names the node of its own group.
TEST(Cpu, BitsOfTheSameType) {
  for (const DType dtype : {DType::b8, DType::u8, DType::f32}) {
    const std::string type(name(dtype));
    check("graph @g(%x: " + type + "[5]) {\n  %y = bitcast(%x){dtype=" + type +
              "}\n  %z = concat(%y, %x){axis=0}\n  return %z\n}\n",
          {random_tensor(dtype, {5}, 1)});
  }
}

TEST(Cpu, FaultsOfGroupsThatShareKernels) {
  const auto program = program_of(
      "graph @f(%x: i64[11], %y: i64[11]) {\n  %o = sort_order(%x){axis=0, end=11}\n  %q = floor_div(%o, "
      "%y)\n"
      "  %p = sort_order(%q){axis=0, end=11}\n  %r = floor_div(%p, %x)\n  return %r\n}");
  EXPECT_EQ(program->stats().kernels_compiled, 1) << program->explain(false);
  const HostTensor whole = numbers(DType::i64, {11}, 1), zeros = numbers(DType::i64, {11}, 0);
  std::vector<HostTensor> outputs = {HostTensor(DType::i64, {11})};
  std::vector<HostTensor> fine = {whole, whole}, first = {whole, zeros}, second = {zeros, whole};
  EXPECT_EQ(run(*program, fine, outputs).message(), "");
  EXPECT_TRUE(run(*program, first, outputs).message().starts_with("%q = floor_div"));
  EXPECT_TRUE(run(*program, second, outputs).message().starts_with("%r = floor_div"));
}

// Two groups share kernels in each of their versions.
constexpr const char* kRows =
    "graph @f(%x: i64[N,M], %y: i64[N,M]) {\n  %q = floor_div(%x, %y)\n  %s = sum(%q){axes=[1]}\n"
    "  %o = sort_order(%s){axis=0, end=1}\n  %z = mul(%y, %x)\n  %r = floor_div(%z, %x)\n"
    "  %t = sum(%r){axes=[1]}\n  return %s, %o, %t\n}";

TEST(Cpu, ShortRowsHaveKernelsOfTheirOwn) {
  const auto program = program_of(kRows);
  const int64_t at_first = program->stats().kernels_compiled;
  for (const int64_t length : {100, 24, 11, 3, 1, 0, 33}) {
    SCOPED_TRACE(length);
    check(*program, kRows, {numbers(DType::i64, {37, length}, 5), numbers(DType::i64, {37, length}, 1)});
    EXPECT_EQ(program->stats().kernels_compiled, at_first) << program->explain(false);
  }
  // The kernels of each group of rows, and those for short ones.
  EXPECT_EQ(at_first, 4);
}

// Lanes run across columns however many there are, so folds of columns have one version, which cuts long columns in parts.
TEST(Cpu, FoldsOfColumnsHaveOneVersion) {
  const char* const text = "graph @f(%x: f32[N,M]) {\n  %s = sum(%x){axes=[0]}\n  return %s\n}";
  const auto program = program_of(text);
  EXPECT_EQ(program->stats().kernels_compiled, 2);  // parts, and their sums
  for (const int64_t columns : {100, 3}) check(*program, text, {numbers(DType::f32, {5000, columns}, 1)});
}

TEST(Cpu, FaultsInShortRows) {
  const auto program = program_of(kRows);
  for (const int64_t length : {100, 3}) {
    const HostTensor whole = numbers(DType::i64, {37, length}, 1),
                     zeros = numbers(DType::i64, {37, length}, 0);
    std::vector<HostTensor> outputs = {HostTensor(DType::i64, {37}), HostTensor(DType::i64, {1}),
                                       HostTensor(DType::i64, {37})};
    std::vector<HostTensor> first = {whole, zeros}, second = {zeros, whole};
    EXPECT_TRUE(run(*program, first, outputs).message().starts_with("%q = floor_div"));
    EXPECT_TRUE(run(*program, second, outputs).message().starts_with("%r = floor_div"));
  }
}

}  // namespace
}  // namespace tenon
