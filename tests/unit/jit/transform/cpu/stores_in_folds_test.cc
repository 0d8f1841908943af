// A reduction along columns stores the function that a loop behind it would compute again; results are the evaluator's, in one
// part and in several.
#include "jit/transform/cpu/stores_in_folds.h"

#include <gtest/gtest.h>

#include "jit/pipeline.h"
#include "tests/support/graph_check.h"
#include "tests/support/run_help.h"

namespace tenon {
namespace {

// The exponentials of columns and their sum. `loop`: the body of the loop behind the sum. `extent`: its rows.
std::string kernel(const std::string& loop, const std::string& extent = "N") {
  return "kernel @f(N, M, K; in %x: f32, out %y: f32, out %z: f32) {"
         R"(
  par simd %i in M {
    %s = reduce add %j in N {
      %v = load %x[M*%j + %i]
      %e = exp %v
      yield %e
    }
    for %k in )" +
         extent + " {\n" + loop + R"(    }
    store %z[%i], %s
  }
}
)";
}

std::string passed(const std::string& text) {
  const auto result = jit::run_kernel_pass("stores_in_folds", text);
  EXPECT_TRUE(result.ok()) << result.status().message() << "\n" << text;
  return result.ok() ? *result : "";
}

constexpr char kStores[] =
    "      %w = load %x[M*%k + %i]\n      %f = exp %w\n      store %y[M*%k + %i], %f\n";

TEST(StoresInFolds, TheLoopDisappears) {
  const std::string text = passed(kernel(kStores));
  EXPECT_NE(text.find("store %y[M*%j + %i], %e"), std::string::npos) << text;
  EXPECT_EQ(text.find("for "), std::string::npos) << text;
}

TEST(StoresInFolds, OtherStoresStayInTheLoop) {
  const std::string text = passed(
      kernel(std::string(kStores) + "      %d = sub %w, %s\n      store %y[M*%k + %i + 1000000], %d\n"));
  EXPECT_NE(text.find("store %y[M*%j + %i], %e"), std::string::npos) << text;
  EXPECT_NE(text.find("%d = sub %w, %s"), std::string::npos) << text;
  EXPECT_EQ(text.find("%f = exp"), std::string::npos) << text;
}

TEST(StoresInFolds, OtherLoopsStay) {
  const std::string other_rows = kernel(kStores, "K");
  const std::string other_function =
      kernel("      %w = load %x[M*%k + %i]\n      %f = tanh %w\n      store %y[M*%k + %i], %f\n");
  const std::string other_elements =
      kernel("      %w = load %x[M*%k + 2*%i]\n      %f = exp %w\n      store %y[M*%k + %i], %f\n");
  const std::string copy = kernel("      %w = load %x[M*%k + %i]\n      store %y[M*%k + %i], %w\n");
  // The loop needs the exponential for another value too.
  const std::string needed =
      kernel(std::string(kStores) + "      %d = div %f, %s\n      store %y[M*%k + %i + 1000000], %d\n");
  for (const std::string& text : {other_rows, other_function, other_elements, copy, needed})
    EXPECT_NE(passed(text).find("for %k"), std::string::npos) << text;
}

// Doublings of a value do not make the search exponential.
TEST(StoresInFolds, LongChainsAreComparedOnce) {
  std::string chain = "      %a0 = exp %v\n", again = "      %w = load %x[M*%k + %i]\n      %b0 = exp %w\n";
  for (int n = 1; n < 60; ++n) {
    const std::string to = std::to_string(n), from = std::to_string(n - 1);
    chain += "      %a" + to + " = mul %a" + from + ", %a" + from + "\n";
    again += "      %b" + to + " = mul %b" + from + ", %b" + from + "\n";
  }
  std::string text = kernel(again + "      store %y[M*%k + %i], %b59\n");
  text.replace(text.find("      %e = exp %v\n"), 18, chain);
  text.replace(text.find("yield %e"), 8, "yield %a59");
  EXPECT_EQ(passed(text).find("for "), std::string::npos);
}

// silu, its mean over the rows, and `more`.
std::string silu_and_mean(const std::string& type, const std::string& more) {
  return "graph @f(%x: " + type +
         "[N,M]) {\n  %a = sigmoid(%x)\n  %y = mul(%x, %a)\n  %m = mean(%y){axes=[0]}\n" + more + "}";
}

TEST(StoresInFolds, ResultsAreTheEvaluators) {
  using Shape = std::vector<int64_t>;
  for (const std::string type : {"f32", "bf16"})
    for (const std::string more : {"  return %y, %m\n", "  %d = sub(%y, %m)\n  return %m, %y, %d\n",
                                   "  %t = max(%y){axes=[0]}\n  return %y, %m, %t\n"}) {
      auto graph = parse_graph(silu_and_mean(type, more));
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      for (const Shape& shape :
           {Shape{1, 7}, Shape{49, 300}, Shape{129, 33}, Shape{1000, 5}, Shape{2, 1000}}) {
        std::vector<HostTensor> inputs{random_tensor(type == "f32" ? DType::f32 : DType::bf16, shape, 1)};
        const CheckResult result = check_program(*graph, inputs);
        EXPECT_EQ(result.kind, CheckResult::right) << result.message << type << more << shape[0];
      }
    }
}

}  // namespace
}  // namespace tenon
