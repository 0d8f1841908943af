// All graphs of up to three nodes over a few ops, one per kind of loop: compiles and fuses them and compares with the evaluator.
// Every value that no node reads is an output, so graphs with siblings and several outputs are included. Of the graphs of three
// nodes, every TENON_ENUMERATE_EVERY-th (8) runs; 1 runs them all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/support/graph_check.h"

namespace tenon {
namespace {

struct Choice {
  const char* text;  // with $a and $b for operands
  bool two = false;
  bool commutes = false;
};
constexpr Choice kChoices[] = {
    {"add($a, $b)", true, true},
    {"exp($a)"},
    {"sum($a){axes=[0]}"},
    {"sum($a){axes=[-1], keepdims=true}"},
    {"transpose($a){perm=[1,0]}"},
    {"reshape($a){shape=[2,-1]}"},
    {"slice($a){axis=-1, start=1, end=3}"},
    {"concat($a, $b){axis=0}", true},
    {"softmax($a){axis=-1}"},
};

class Enumeration {
 public:
  explicit Enumeration(int64_t every) : every_(every) {}

  int64_t graphs = 0, ran = 0, refused = 0, failures = 0;

  void extend(std::vector<std::string>& nodes, int most) {
    if (!nodes.empty() && !run(nodes)) return;  // the builder refuses the graph, and hence its extensions
    if (static_cast<int>(nodes.size()) == most || failures > 5) return;
    const int values = static_cast<int>(nodes.size()) + 1;
    for (const Choice& c : kChoices)
      for (int a = 0; a < values; ++a)
        for (int b = 0; b < (c.two ? c.commutes ? a + 1 : values : 1); ++b) {
          std::string text = c.text;
          auto put = [&](const char* what, int value) {
            if (size_t at = text.find(what); at != text.npos)
              text.replace(at, 2, "%" + std::to_string(value));
          };
          put("$a", a);
          put("$b", b);
          nodes.push_back(text);
          extend(nodes, most);
          nodes.pop_back();
        }
  }

 private:
  bool run(const std::vector<std::string>& nodes) {
    std::string text = "graph @all(%0: f32[4,4]) {\n", outputs;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::string value = "%" + std::to_string(i + 1);
      text += "  " + value + " = " + nodes[i] + "\n";
      bool read = false;
      for (size_t k = i + 1; k < nodes.size(); ++k) read = read || nodes[k].find(value) != std::string::npos;
      if (!read) outputs += (outputs.empty() ? "" : ", ") + value;
    }
    text += "  return " + outputs + "\n}\n";
    auto graph = parse_graph(text);
    if (!graph.ok()) return ++refused, false;
    if (graphs++ % every_ != 0 && nodes.size() == 3) return true;
    ++ran;
    std::vector<HostTensor> inputs{HostTensor(DType::f32, {4, 4})};
    for (int64_t i = 0; i < 16; ++i) inputs[0].set(i, {std::sin(static_cast<double>(3 * i + 1)), 0});
    ProgramOptions options;
    options.backends = {"cpu"};
    const CheckResult result = check_program(*graph, inputs, {}, options);
    if (result.kind != CheckResult::right) {
      ++failures;
      ADD_FAILURE() << text << result.message;
    }
    EXPECT_EQ(result.says_nothing, 0) << text;
    return true;
  }

  int64_t every_;
};

TEST(Enumerate, EveryGraphOfThreeNodes) {
  const char* every = std::getenv("TENON_ENUMERATE_EVERY");
  Enumeration all(every ? std::max(1, std::atoi(every)) : 8);
  std::vector<std::string> nodes;
  all.extend(nodes, 3);
  printf("%lld graphs, %lld run, %lld refused by the rules\n", static_cast<long long>(all.graphs),
         static_cast<long long>(all.ran), static_cast<long long>(all.refused));
  EXPECT_GT(all.graphs, 5000);
  EXPECT_GT(all.ran, 100);
}

}  // namespace
}  // namespace tenon
