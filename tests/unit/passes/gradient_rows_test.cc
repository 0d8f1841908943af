// The gradient of every row of the op table, on the samples of op_samples.h: it equals finite differences in f64, and
// it has the operand's type in every float dtype.
#include <map>
#include <set>

#include "src/ir/verify.h"
#include "src/ops/gradients/gradients.h"
#include "src/ops/rows/names.h"
#include "src/passes/gradient.h"
#include "tests/support/gradient_check.h"
#include "tests/support/op_samples.h"

namespace tenon {
namespace {

// Rows, or operands of rows, whose derivative no rule knows.
const std::map<std::string, std::string> kUnknown = {
    {"airy_ai", "no row computes the derivative of Ai"},
    {"sin_far", "a part of the body of sin in kernels"},
    {"cos_far", "a part of the body of cos in kernels"},
    {"tan_far", "a part of the body of tan in kernels"},
    {"recurrent_gradient", "no row computes second derivatives of a layer"},
    {"zeta 0", "no row computes the derivative by the exponent"},
    {"igamma 0", "no row computes the derivative by the order"},
    {"igammac 0", "no row computes the derivative by the order"},
};
// Operands that are whole numbers and so have no derivative.
const std::set<std::string> kWhole = {"polygamma 0",   "chebyshev_t 1", "chebyshev_u 1",
                                      "chebyshev_v 1", "chebyshev_w 1", "hermite_h 1",
                                      "hermite_he 1",  "laguerre_l 1",  "legendre_p 1"};
// Where operands are sampled, if not in the row's range: there the row is not smooth or not finite.
const std::map<std::string, std::pair<double, double>> kRanges = {
    {"pow", {0.25, 3}},    {"zeta", {1.5, 6}},    {"acosh", {1.25, 8}},   {"erfinv", {-0.9, 0.9}},
    {"log1p", {-0.5, 8}},  {"tan", {-1.2, 1.2}},  {"digamma", {0.5, 8}},  {"lgamma", {0.5, 8}},
    {"asin", {-0.9, 0.9}}, {"acos", {-0.9, 0.9}}, {"atanh", {-0.9, 0.9}},
};

// Whether the node has neither a rule nor a body: a sequence of symbolic length.
bool lacks_gradient(const Op& row, const Graph& graph) {
  return !row.gradient && !row.has_body(graph, graph.node(graph.outputs[0].value));
}

std::string named(const Op& row, size_t operand) {
  return std::string(row.name) + " " + std::to_string(operand);
}

// Operands for a sample: floats in the row's range, indices within the axis.
std::vector<HostTensor> operands_for(const Op& row, const Graph& graph, unsigned seed) {
  Numbers numbers(seed);
  auto range = std::pair(row.low + (row.high - row.low) / 20, row.high - (row.high - row.low) / 20);
  if (auto it = kRanges.find(std::string(row.name)); it != kRanges.end()) range = it->second;
  const Node& node = graph.node(graph.outputs[0].value);
  std::vector<HostTensor> out;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.type(graph.inputs[i].value);
    const std::vector<int64_t> shape = shape_of(graph, type);
    const bool indexed = row.type == &types::indexed;
    if (is_float(type.dtype) && !kWhole.contains(named(row, i))) {
      // The statistic var of a norm is positive.
      const bool positive = row.shape == shapes::norm_channels && i == 2;
      out.push_back(numbers.floats(type.dtype, shape, positive ? 0.5 : range.first, range.second));
    } else if (indexed && i == 1) {
      const std::vector<int64_t>& x = out[0].shape;
      const int64_t size =
          x.empty() ? 1 : x[*normal_axis(attr_int(node, "axis"), static_cast<int>(x.size()))];
      out.push_back(numbers.whole(type.dtype, shape, -size, size - 1));
    } else {
      out.push_back(
          numbers.whole(type.dtype, shape, is_bool(type.dtype) ? 0 : 1, is_bool(type.dtype) ? 1 : 3));
    }
    if (row.type == &types::grouped && i == 1)
      for (int64_t g = 1; g < out[1].count(); ++g) out[1].set_number(g, out[1].number(g - 1) + 1);
  }
  return out;
}

TEST(GradientRows, EveryRowHasARuleOrABodyOrAReason) {
  for (OpId id = 0; id < ops::built_in_count; ++id) {
    const Op& row = op(id);
    EXPECT_TRUE(row.gradient || row.body || kUnknown.contains(std::string(row.name)))
        << row.name << ": name a rule of src/ops/gradients/gradients.h in its column gradient";
    EXPECT_FALSE(row.gradient && kUnknown.contains(std::string(row.name))) << row.name;
  }
}

TEST(GradientRows, EveryRowEqualsFiniteDifferences) {
  std::set<std::string> compared, unknown;
  for (OpId id = 0; id < ops::built_in_count; ++id) {
    const Op& row = op(id);
    unsigned seed = id;
    if (id == ops::stop_gradient) continue;
    for (const Sample& sample : samples_of(row)) {
      const auto graph = sample_graph(row, sample, DType::f64);
      if (!graph.ok() || graph->type(graph->outputs[0].value).dtype != DType::f64) continue;
      if (!verify(*graph).ok()) continue;  // no input determines a size of the result
      const std::vector<HostTensor> inputs = operands_for(row, *graph, ++seed);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!is_float(inputs[i].dtype) || kWhole.contains(named(row, i))) continue;
        SCOPED_TRACE(print(*graph) + " by operand " + std::to_string(i));
        const auto made = gradient(*graph, {.wrt = std::vector{static_cast<int>(i)}, .heads = true});
        const bool is_unknown = kUnknown.contains(named(row, i)) || kUnknown.contains(std::string(row.name));
        if (lacks_gradient(row, *graph)) {
          ASSERT_EQ(made.status().code(), Code::unsupported);
          if (!is_unknown) continue;
        }
        ASSERT_EQ(made.ok(), !is_unknown) << made.status().message();
        if (is_unknown) {
          EXPECT_EQ(made.status().code(), Code::unsupported);
          unknown.insert(kUnknown.contains(named(row, i)) ? named(row, i) : std::string(row.name));
          continue;
        }
        EXPECT_TRUE(verify(*made).ok()) << verify(*made).message();
        compare(*graph, *made, inputs, static_cast<int>(i), 0, seed);
        if (testing::Test::HasFatalFailure()) break;
        compared.insert(std::string(row.name));
      }
    }
  }
  EXPECT_EQ(unknown.size(), kUnknown.size());
  for (OpId id = 0; id < ops::built_in_count; ++id)
    if ((op(id).gradient && op(id).gradient != gradients::zero) && id != ops::cast) {
      EXPECT_TRUE(compared.contains(std::string(op(id).name))) << op(id).name;
    }
}

// The derivatives of polynomials divide by what is 0 at some points: they are right there and close to them.
TEST(GradientRows, PolynomialsNearTheEnds) {
  struct Case {
    const char* row;
    double degree;
    double (*slope)(double);
  };
  const Case cases[] = {
      {"chebyshev_u", 3, [](double x) { return 24 * x * x - 4; }},
      {"chebyshev_u", 2, [](double x) { return 8 * x; }},
      {"chebyshev_v", 2, [](double x) { return 8 * x - 2; }},
      {"chebyshev_v", 3, [](double x) { return 24 * x * x - 8 * x - 4; }},
      {"chebyshev_w", 2, [](double x) { return 8 * x + 2; }},
      {"chebyshev_w", 3, [](double x) { return 24 * x * x + 8 * x - 4; }},
      {"laguerre_l", 3, [](double x) { return -3 + 3 * x - x * x / 2; }},
      {"legendre_p", 3, [](double x) { return (15 * x * x - 3) / 2; }},
      {"legendre_p", 4, [](double x) { return (35 * x * x * x - 15 * x) / 2; }},
      {"legendre_p", 0, [](double) { return 0.0; }},
      {"chebyshev_u", -2, [](double) { return 0.0; }},
  };
  for (const Case& one : cases)
    for (const DType dtype : {DType::f64, DType::f32})
      for (const double end : {-1.0, 0.0, 1.0})
        for (const double away : {0.0, 1e-7, -1e-7, 1e-6, -1e-6, 1e-5, -1e-4, 0.25}) {
          const std::string name(dtype == DType::f64 ? "f64" : "f32");
          const auto graph = parse_graph("graph @g(%x: " + name + "[1], %n: " + name +
                                         "[1]) {\n  %y = " + one.row + "(%x, %n)\n  return %y\n}\n");
          ASSERT_TRUE(graph.ok()) << graph.status().message();
          const auto made = gradient(*graph, {.wrt = std::vector{0}});
          ASSERT_TRUE(made.ok()) << made.status().message();
          HostTensor x(dtype, {1}), n(dtype, {1});
          x.set_number(0, end + away), n.set_number(0, one.degree);
          const double want = one.slope(x.number(0));
          const auto result = evaluate(*made, std::vector{x, n});
          ASSERT_TRUE(result.ok()) << result.status().message();
          const double got = (*result)[0].number(0);
          EXPECT_NEAR(got, want, (dtype == DType::f64 ? 1e-8 : 1e-6) * std::max(std::fabs(want), 1.0))
              << one.row << " " << one.degree << " at " << end << " + " << away;
        }
}

// Every float dtype: the gradient of an operand has the operand's type, and is close to the f64 gradient.
TEST(GradientRows, EveryRowInNarrowTypes) {
  int compared = 0;
  for (OpId id = 0; id < ops::built_in_count; ++id) {
    const Op& row = op(id);
    if (!row.gradient && !row.body) continue;
    for (const Sample& sample : samples_of(row))
      for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const auto graph = sample_graph(row, sample, dtype);
        if (!graph.ok() || !is_float(graph->type(graph->outputs[0].value).dtype)) continue;
        if (!verify(*graph).ok() || lacks_gradient(row, *graph)) continue;
        for (size_t i = 0; i < graph->inputs.size(); ++i) {
          if (!is_float(graph->type(graph->inputs[i].value).dtype) || kUnknown.contains(named(row, i)))
            continue;
          SCOPED_TRACE(print(*graph) + " by operand " + std::to_string(i));
          const auto made = gradient(*graph, {.wrt = std::vector{static_cast<int>(i)}});
          ASSERT_TRUE(made.ok()) << made.status().message();
          EXPECT_TRUE(verify(*made).ok()) << verify(*made).message();
          EXPECT_EQ(made->type(made->outputs[0].value).dtype, dtype);
          ++compared;
        }
      }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace tenon
