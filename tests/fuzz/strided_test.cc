// Operands of library calls and of their epilogues with all memory layouts (tests/support/strided.h): compares oneDNN and loops on
// the CPU with the evaluator, and checks that nothing is written beside the elements of a result.
#include <algorithm>
#include <set>
#include <sstream>

#include "src/ops/rules/operand.h"
#include "tests/support/graph_check.h"
#include "tests/support/strided_cases.h"

namespace tenon {
namespace {

// The calls of oneDNN and of the back end of attention that were seen, in the words of explain().
struct Seen {
  int calls = 0;
  std::set<std::string> words;
  void add(const std::string& shown) {
    for (const std::string step : {"(onednn):", "(attention):"})
      for (size_t at = shown.find(step); at != shown.npos; at = shown.find(step, at + 1)) {
        ++calls;
        const size_t from = at + step.size();
        std::istringstream line(shown.substr(from, shown.find('\n', at) - from));
        for (std::string word; line >> word;) words.insert(word);
      }
  }
};

// "" if the error is that a symbol is only the size of broadcast axes.
std::string maybe_undetermined(const std::string& what, const Status& status) {
  if (status.message().find("no input determines") != std::string::npos) return "";
  return what + ": " + status.message();
}

// "" if the program's results are those of the evaluator.
std::string wrong(const std::string& text, const StridedInputs& inputs, Seen& seen) {
  auto graph = parse_graph(text);
  if (!graph.ok()) return maybe_undetermined("parse", graph.status());
  auto program = Program::make(*graph, {}, {});
  if (!program.ok()) return maybe_undetermined("make", program.status());
  const std::vector<HostTensor> dense = inputs.dense();
  auto expected = evaluate(*graph, dense);
  if (!expected.ok()) return "evaluator: " + expected.status().message();
  std::vector<std::unique_ptr<char[]>> blocks;
  const std::vector<Tensor> in = inputs.place([&](int64_t bytes) {
    blocks.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes) + 64));
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(blocks.back().get()) + 63) / 64 * 64);
  });
  std::vector<std::vector<int64_t>> shapes;
  for (const HostTensor& t : dense) shapes.push_back(t.shape);
  auto symbols = solve_symbols(*graph, shapes, [](size_t) { return 0; });
  if (!symbols.ok()) return "symbols: " + symbols.status().message();
  std::vector<check_help::Strided> out;
  std::vector<Tensor> out_tensors;
  for (size_t o = 0; o < expected->size(); ++o)
    out.emplace_back(
        (*expected)[o].dtype, (*expected)[o].shape,
        check_help::steps_of(*graph->dims, graph->outputs[o].strides, (*expected)[o].shape, *symbols));
  for (check_help::Strided& s : out) out_tensors.push_back(s.tensor());
  if (const Status status = (*program)->run(in, out_tensors); !status.ok()) return "run: " + status.message();
  const std::string shown = (*program)->explain(false);
  seen.add(shown);
  for (size_t o = 0; o < out.size(); ++o) {
    HostTensor got((*expected)[o].dtype, (*expected)[o].shape);
    if (!out[o].read(&got)) return "bytes beside the elements were written\n" + shown;
    for (int64_t i = 0; i < got.count(); ++i) {
      const double want = (*expected)[o].number(i), x = got.number(i);
      if (!(std::abs(x - want) <= 1e-4 * std::max(1.0, std::abs(want))))
        return "element " + std::to_string(i) + " is " + std::to_string(x) + ", wanted " +
               std::to_string(want) + "\n" + shown;
    }
  }
  return "";
}

class Strided : public testing::TestWithParam<const char*> {};

TEST_P(Strided, OperandsOfLibraryCalls) {
  const int count = std::getenv("TENON_STRIDED_COUNT") ? std::atoi(std::getenv("TENON_STRIDED_COUNT")) : 60;
  Seen seen;
  int failed = 0;
  for (int seed = 0; seed < count && failed < 5; ++seed) {
    const StridedCase c = StridedCases(static_cast<uint32_t>(seed), seed % 3 == 2).make(GetParam());
    const std::string why = wrong(c.text, c.inputs, seen);
    EXPECT_EQ(why, "") << "seed " << seed << "\n" << c.text;
    failed += !why.empty();
  }
  EXPECT_GE(seen.calls, count / 3);
}

// Checks operand_of(), which all libraries use: through any views, the base, offset and strides give the operand's elements.
TEST_P(Strided, OperandsAreDescribed) {
  int in_place = 0;
  for (uint32_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    const StridedCase c = StridedCases(seed, seed % 3 == 2).make(GetParam());
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + c.text);
    auto graph = parse_graph(c.text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const std::vector<HostTensor> dense = c.inputs.dense();
    std::vector<std::vector<int64_t>> shapes;
    for (const HostTensor& t : dense) shapes.push_back(t.shape);
    auto symbols = solve_symbols(*graph, shapes, [](size_t) { return 0; });
    if (!symbols.ok()) continue;
    std::vector<std::unique_ptr<char[]>> blocks;
    const std::vector<Tensor> in = c.inputs.place([&](int64_t bytes) {
      blocks.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
      return blocks.back().get();
    });
    Graph every = *graph;
    for (OutputBinding& out : every.outputs) out.strides.reset();
    for (ValueId v = 0; v < graph->nodes.size(); ++v) {
      const Operand o = operand_of(*graph, v, [&](ValueId u) { return bound_strides(*graph, u); });
      const auto input =
          std::ranges::find_if(graph->inputs, [&](const InputBinding& i) { return i.value == o.base; });
      if (input == graph->inputs.end()) continue;
      every.outputs.resize(1);
      every.outputs[0].value = v;
      auto want = evaluate(every, dense);
      if (!want.ok()) continue;  // a symbol that is only the size of broadcast axes
      std::vector<int64_t> strides;
      for (Dim d : o.strides) strides.push_back(*graph->dims->eval(d, *symbols));
      const int64_t offset = *graph->dims->eval(o.offset, *symbols);
      const auto* data =
          static_cast<const float*>(in[static_cast<size_t>(input - graph->inputs.begin())].data);
      int64_t i = 0;
      walk((*want)[0].shape, {strides}, [&](const auto& at) {
        const double w = (*want)[0].number(i++), x = data[offset + at[0]];
        EXPECT_TRUE(x == w || (std::isnan(w) && std::isnan(x)))
            << graph->value_name(v) << " element " << i - 1 << " is " << x << " and not " << w;
      });
      ++in_place;
    }
  }
  EXPECT_GE(in_place, 200);
}

std::string root_name(const testing::TestParamInfo<const char*>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Roots, Strided, testing::ValuesIn(StridedCases::kRoots), root_name);

}  // namespace
}  // namespace tenon
