// Random graphs: compiles them and compares with the evaluator. There are TENON_FUZZ_COUNT graphs (1200) with seeds from
// TENON_FUZZ_SEED (1) on. A failing graph is printed as text, ready to be pasted into a .tn file, together with its kernels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "src/ir/verify.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/placement.h"
#include "tests/support/graph_check.h"
#include "tests/support/graph_gen.h"

namespace tenon {
namespace {

uint64_t number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : fallback;
}

constexpr double kMostUnsupported = 0.02;  // share of the graphs
constexpr double kMostSaysNothing = 0.05;  // share of the elements
constexpr int kMostFailures = 10;          // then the test stops, since one bug makes many graphs fail

// How to run this seed alone, its sizes and its graph. count: of seeds that a test needs to run one.
std::string failing(uint64_t seed, int count, const RandomGraph& r, const std::string& text) {
  std::string out =
      "TENON_FUZZ_SEED=" + std::to_string(seed) + " TENON_FUZZ_COUNT=" + std::to_string(count) + "\n; sizes";
  for (size_t i = 0; i < r.symbols.size(); ++i)
    out += " " + r.graph.dims->symbol_name(r.graph.dims->symbol_at(static_cast<int>(i))) + "=" +
           std::to_string(r.symbols[i]);
  std::string frozen;
  for (size_t i = 0; i < r.frozen.size(); ++i)
    if (r.frozen[i]) frozen += " " + r.graph.value_name(r.graph.inputs[i].value);
  return out + (frozen.empty() ? "" : ", frozen" + frozen) + "\n" + text + "\n";
}

TEST(Fuzz, ProgramsMeanWhatTheEvaluatorSays) {
  const uint64_t seed = number("TENON_FUZZ_SEED", 1), count = number("TENON_FUZZ_COUNT", 1200);
  const bool verbose = number("TENON_FUZZ_VERBOSE", 0) != 0;
  int64_t unsupported = 0, elements = 0, says_nothing = 0, in_place = 0, failures = 0;
  std::map<std::string, int> reasons;
  for (uint64_t s = seed; s < seed + count && failures < kMostFailures; ++s) {
    RandomGraph r = GraphGen(s).make();
    const std::string text = print(r.graph);
    if (verbose) fprintf(stderr, "seed %llu\n%s", static_cast<unsigned long long>(s), text.c_str());
    auto again = parse_graph(text);
    ASSERT_TRUE(again.ok()) << text << again.status().message();
    ASSERT_EQ(print(*again), text);
    ProgramOptions options;
    if (s % 2) options.backends = {"cpu"};
    const CheckResult result = check_program(r.graph, r.inputs, r.frozen, options);
    elements += result.elements;
    says_nothing += result.says_nothing;
    in_place += result.in_place;
    if (result.kind == CheckResult::unsupported)
      ++unsupported, ++reasons[result.message + " (seed " + std::to_string(s) + ")"];
    if (result.kind != CheckResult::wrong) continue;
    ++failures;
    ADD_FAILURE() << failing(s, 1, r, text) << result.message;
  }
  std::string list;
  for (const auto& [reason, n] : reasons) list += "\n  " + std::to_string(n) + " times: " + reason;
  printf("%lld elements, %lld of them say nothing; %lld outputs in place; %lld graphs unsupported%s\n",
         static_cast<long long>(elements), static_cast<long long>(says_nothing),
         static_cast<long long>(in_place), static_cast<long long>(unsupported), list.c_str());
  EXPECT_GT(in_place, static_cast<int64_t>(count / 20));
  EXPECT_LE(static_cast<double>(unsupported), kMostUnsupported * static_cast<double>(count)) << list;
  EXPECT_LE(static_cast<double>(says_nothing), kMostSaysNothing * static_cast<double>(elements));
}

// A grouped graph on disk is its text (src/runtime/compile/kept_graph.h).
TEST(Fuzz, GroupedGraphsReadBack) {
  const uint64_t seed = number("TENON_FUZZ_SEED", 1), count = number("TENON_FUZZ_COUNT", 1200);
  const BackendPlacement placement(backends_of(DeviceId::kCpu), DeviceId::kCpu);
  for (uint64_t s = seed; s < seed + count; ++s) {
    const RandomGraph r = GraphGen(s).make();
    const Graph grouped = form_groups(optimize(r.graph), placement);
    const std::string text = print(grouped);
    const auto again = parse_graph(text);
    ASSERT_TRUE(again.ok()) << "seed " << s << "\n" << text << again.status().message();
    ASSERT_EQ(print(*again), text) << "seed " << s;
    ASSERT_TRUE(verify(*again).ok()) << "seed " << s << "\n" << text;
  }
}

TEST(Fuzz, RecurrentLayers) {
  const uint64_t seed = number("TENON_FUZZ_SEED", 1), count = number("TENON_FUZZ_COUNT", 1200) / 4;
  int64_t layers = 0, gradients = 0, unsupported = 0;
  for (uint64_t s = seed; s < seed + count; ++s) {
    RandomGraph r = GraphGen(s, GraphGen::Mix::sequences).make();
    const std::string text = print(r.graph);
    layers += text.find("recurrent(") != std::string::npos;
    gradients += text.find("recurrent_gradient(") != std::string::npos;
    ProgramOptions options;
    options.threads = 1 + static_cast<int>(s % 2);
    const CheckResult result = check_program(r.graph, r.inputs, r.frozen, options);
    unsupported += result.kind == CheckResult::unsupported;
    ASSERT_NE(result.kind, CheckResult::wrong) << failing(s, 4, r, text) << result.message;
  }
  EXPECT_GT(layers, static_cast<int64_t>(count / 3));
  EXPECT_GT(gradients, static_cast<int64_t>(count / 8));
  EXPECT_LE(static_cast<double>(unsupported), kMostUnsupported * static_cast<double>(count));
}

// The results of a graph do not depend on any single pass.
TEST(Fuzz, EachPassMayBeLeftOut) {
  const uint64_t seed = number("TENON_FUZZ_SEED", 1), count = number("TENON_FUZZ_COUNT", 1200) / 8;
  const auto passes = optional_passes();
  for (uint64_t s = seed; s < seed + count; ++s) {
    RandomGraph r = GraphGen(s).make();
    ProgramOptions options;
    options.without = {std::string(passes[s % passes.size()])};
    const CheckResult result = check_program(r.graph, r.inputs, r.frozen, options);
    ASSERT_NE(result.kind, CheckResult::wrong)
        << "without " << options.without[0] << ": " << failing(s, 8, r, print(r.graph)) << result.message;
  }
}

}  // namespace
}  // namespace tenon
