// Index arithmetic: random compositions of views (reshape, transpose, flip, slice, expand, windows), assemblies (concat, pad),
// gathers and scans over dense, strided, offset, overlapping and empty inputs, constant and symbolic. Lowers them to kernels for
// the CPU and for a GPU, interprets these with every address checked, and compares with the evaluator.
// There are TENON_INDEX_COUNT graphs (20000) with seeds from TENON_INDEX_SEED (1) on. A failing graph is printed as text.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "backends/cpu/threads.h"
#include "backends/reference/reference.h"
#include "tests/support/graph_check.h"
#include "tests/support/graph_gen.h"
#include "tests/support/interpreter_backend.h"
#include "tests/support/sanitized.h"

namespace tenon {

InterpreterBackend& interpreter() {
  static InterpreterBackend& backend = *new InterpreterBackend;
  return backend;
}

// Replaces backends/list.cc.
std::span<Backend* const> all_backends() {
  static Backend* const backends[] = {&interpreter(), &reference_backend()};
  return backends;
}
Backend* find_backend(std::string_view name) {
  for (Backend* b : all_backends())
    if (b->name() == name) return b;
  return nullptr;
}
std::vector<ReportLine> gpu_report() { return {}; }
Parallel& default_parallel() { return openmp_parallel(); }

namespace {

uint64_t number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : fallback;
}

constexpr int kMostFailures = 10;  // then the test stops, since one bug makes many graphs fail

TEST(Index, CompositionsMeanWhatTheEvaluatorSays) {
  const uint64_t seed = number("TENON_INDEX_SEED", 1), count = number("TENON_INDEX_COUNT", rounds(20000));
  int failures = 0;
  int64_t evaluated = 0;
  for (uint64_t s = seed; s < seed + count && failures < kMostFailures; ++s) {
    RandomGraph r = GraphGen(s, GraphGen::Mix::indices).make();
    const std::string text = print(r.graph);
    if (number("TENON_FUZZ_VERBOSE", 0))
      fprintf(stderr, "seed %llu\n%s", static_cast<unsigned long long>(s), text.c_str());
    interpreter().target = s % 2 ? jit::Target::cpu : jit::Target::gpu;
    const CheckResult result = check_program(r.graph, r.inputs, r.frozen);
    if (result.kind == CheckResult::right) continue;
    if (result.kind == CheckResult::unsupported) {
      ++evaluated;
      continue;
    }
    ++failures;
    std::string sizes;
    for (size_t i = 0; i < r.symbols.size(); ++i)
      sizes += " " + r.graph.dims->symbol_name(r.graph.dims->symbol_at(static_cast<int>(i))) + "=" +
               std::to_string(r.symbols[i]);
    ADD_FAILURE() << "TENON_INDEX_SEED=" << s << " TENON_INDEX_COUNT=1\n; sizes" << sizes << "\n"
                  << text << "\n"
                  << result.message;
  }
  EXPECT_EQ(evaluated, 0) << "graphs were refused";
}

}  // namespace
}  // namespace tenon
