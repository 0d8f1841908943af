// Gradients of random graphs: compiles them and compares with the evaluator. A failing graph is printed as text.
#include <gtest/gtest.h>

#include <map>

#include "src/ir/verify.h"
#include "src/passes/gradient.h"
#include "tests/support/graph_check.h"
#include "tests/support/graph_gen.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

TEST(GradientFuzz, ProgramsMeanWhatTheEvaluatorSays) {
  int compared = 0, failures = 0;
  std::map<std::string, int> reasons;
  for (uint64_t seed = 1; seed <= rounds(200) && failures < 5; ++seed) {
    RandomGraph r = GraphGen(seed).make();
    const auto made = gradient(r.graph, {.keep_outputs = true});
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), Code::unsupported) << made.status().message();
      continue;
    }
    ASSERT_TRUE(verify(*made).ok()) << verify(*made).message() << print(*made);
    ProgramOptions options;
    if (seed % 2) options.backends = {"cpu"};
    const CheckResult result = check_program(*made, r.inputs, r.frozen, options);
    compared += result.kind != CheckResult::unsupported;
    if (result.kind == CheckResult::unsupported) ++reasons[result.message];
    if (result.kind != CheckResult::wrong) continue;
    ++failures;
    ADD_FAILURE() << "seed " << seed << "\n"
                  << print(r.graph) << "\n"
                  << print(*made) << "\n"
                  << result.message;
  }
  for (auto& [why, n] : reasons) printf("%d times: %s\n", n, why.c_str());
  EXPECT_GT(compared, rounds(150));
}

}  // namespace
}  // namespace tenon
