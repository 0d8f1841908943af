// See accuracy.h. Tested by tests/fuzz/fuzz_test.cc.
#include "src/runtime/accuracy.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "src/ir/op.h"
#include "src/ops/eval/eval.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

struct Rounding {
  double unit;   // half an ulp at 1
  double least;  // half the smallest number
  double most;
};
Rounding rounding_of(DType t) {
  switch (t) {
    case DType::f64: return {0x1p-53, 0x1p-1074, std::numeric_limits<double>::max()};
    case DType::bf16: return {0x1p-9, 0x1p-134, 0x1.fep127};
    case DType::f16: return {0x1p-12 * 2, 0x1p-25, 65504};
    default: return {0x1p-24, 0x1p-150, std::numeric_limits<float>::max()};
  }
}

// The largest absolute value that is finite; 0 without any.
double largest_of(const HostTensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.count(); ++i)
    if (std::isfinite(t.get(i).d)) largest = std::fmax(largest, std::fabs(t.get(i).d));
  return largest;
}

bool rounds(const Node& node, DType from) {
  const Op& row = op(node.op);
  if (!is_float(node.type.dtype)) return false;
  if (row.kind == Kind::reduce) return node.op == ops::sum || node.op == ops::prod;
  if (row.kind == Kind::scan) return node.op == ops::cumsum || node.op == ops::cumprod;
  if (node.op == ops::scatter || node.op == ops::index_put || node.op == ops::recurrent ||
      node.op == ops::recurrent_gradient)
    return true;
  if (row.kind != Kind::map) return false;
  if (node.op == ops::cast)
    return !is_float(from) || size_of(from) > size_of(node.type.dtype) ||
           (size_of(from) == 2 && from != node.type.dtype);
  for (OpId exact : {ops::neg, ops::abs, ops::sign, ops::maximum, ops::minimum, ops::clamp, ops::where,
                     ops::floor, ops::ceil, ops::round, ops::trunc, ops::bitcast})
    if (node.op == exact) return false;
  return true;
}

// The expanded graph at constant sizes, floats as f64. run 0 is the reference.
class Walker {
 public:
  Walker(const Graph& graph, int run) : g_(graph), run_(run), rng_(static_cast<uint64_t>(run)) {}

  Result<std::vector<HostTensor>> outputs(std::span<const HostTensor> inputs) {
    values_.resize(g_.nodes.size());
    for (size_t i = 0; i < inputs.size(); ++i) values_[g_.inputs[i].value] = widen(inputs[i]);
    for (ValueId v = 0; v < g_.nodes.size(); ++v)
      if (g_.node(v).op != ops::input) TENON_TRY(compute(v));
    std::vector<HostTensor> out;
    for (const OutputBinding& o : g_.outputs) out.push_back(values_[o.value]);
    return out;
  }

 private:
  static HostTensor convert(const HostTensor& t, DType to) {
    HostTensor out(to, t.shape);
    for (int64_t i = 0; i < t.count(); ++i) out.set(i, t.get(i));
    return out;
  }
  static HostTensor widen(const HostTensor& t) { return is_float(t.dtype) ? convert(t, DType::f64) : t; }

  Status compute(ValueId v) {
    Node node = g_.node(v);
    const DType type = node.type.dtype;
    const Op& row = op(node.op);
    std::vector<const HostTensor*> in;
    for (ValueId i : node.inputs) in.push_back(&values_[i]);
    const bool as_is = row.kind == Kind::input || node.op == ops::bitcast;
    if (!as_is && is_float(type)) {
      node.type.dtype = DType::f64;
      for (AttrValue& a : node.attrs)
        if (std::holds_alternative<DType>(a)) a = DType::f64;
    }
    HostTensor narrow;
    if (node.op == ops::bitcast) {
      narrow = convert(*in[0], g_.type(node.inputs[0]).dtype);
      in[0] = &narrow;
    }
    TENON_ASSIGN(HostTensor y, evaluate_node(g_, node, in));
    y = widen(y);
    if (is_float(type)) TENON_TRY(disturb(v, node, in, y));
    values_[v] = std::move(y);
    return {};
  }

  Status disturb(ValueId v, const Node& node, std::span<const HostTensor* const> in, HostTensor& y) {
    const Node& original = g_.node(v);
    const DType type = original.type.dtype;
    const Rounding r = rounding_of(type);
    const bool rounding =
        rounds(original, original.inputs.empty() ? type : g_.type(original.inputs[0]).dtype);
    std::optional<HostTensor> scale;  // for a sum: the sum of absolute values
    std::optional<HostTensor> reach;  // for a product: a bound of its partial products
    double factor = 1;
    // Evaluates the node on the operand's absolute values; values below `least`, NaN and infinities become
    // `least`.
    const auto magnitudes = [&](double least) {
      HostTensor a = *in[0];
      for (int64_t i = 0; i < a.count(); ++i) {
        const double size = std::fabs(a.get(i).d);
        a.set(i, {size < HUGE_VAL ? std::fmax(size, least) : least, 0});
      }
      const HostTensor* one[] = {&a};
      return evaluate_node(g_, node, one);
    };
    if (rounding && (node.op == ops::sum || node.op == ops::cumsum)) {
      TENON_ASSIGN(scale, magnitudes(0));
    }
    if (rounding && (node.op == ops::prod || node.op == ops::cumprod)) {
      TENON_ASSIGN(reach, magnitudes(1));
    }
    if (rounding && (node.op == ops::sum || node.op == ops::prod || node.op == ops::cumsum))
      factor =
          1 +
          (y.count() ? std::sqrt(static_cast<double>(in[0]->count()) / static_cast<double>(y.count())) : 0);
    if (node.op == ops::cumsum && in[0]->rank()) factor = 1 + std::sqrt(static_cast<double>(in[0]->count()));
    if (node.op == ops::cumprod && in[0]->rank()) factor = 1 + static_cast<double>(in[0]->count());
    if (node.op == ops::prod) factor *= factor;
    // Every step rounds, and sums that are as large as the largest state, or in a gradient as the largest product of a given gradient
    // and a state.
    if (node.op == ops::recurrent || node.op == ops::recurrent_gradient) {
      double largest = std::fmax(1, largest_of(y));
      if (node.op == ops::recurrent_gradient) {
        const double cell = in.size() > 6 ? largest_of(*in[6]) : 0,
                     of_cell = in.size() > 7 ? largest_of(*in[7]) : 0;
        const double state = std::fmax(std::fmax(1, largest_of(*in[0])), std::fmax(largest_of(*in[2]), cell));
        largest = std::fmax(largest, state * std::fmax(largest_of(*in[1]), of_cell));
      }
      scale = y;
      for (int64_t i = 0; i < y.count(); ++i) scale->set(i, {largest, 0});
      factor = 8 + 4 * static_cast<double>(in[0]->shape[0]);
    }
    if (node.op == ops::scatter || node.op == ops::index_put) factor = 4;
    // Kernels compute in f32 or f64 and round to 16 bits when they store.
    const Rounding inner = rounding_of(compute_type(type));
    const double unit = r.unit + inner.unit * (factor + 2 * op(node.op).ulp);
    for (int64_t i = 0; i < y.count(); ++i) {
      double x = y.get(i).d;
      if (rounding && run_ > 0 && (std::isfinite(x) || ((scale || reach) && std::isinf(x)))) {
        const double size = scale ? scale->get(i).d : std::fabs(x);
        const double u = run_ == 1   ? 1
                         : run_ == 2 ? -1
                                     : 2 * (static_cast<double>(rng_() >> 11) * 0x1p-53) - 1;
        if ((reach ? reach->get(i).d : size) > r.most)
          x = NAN;  // partial sums and products may overflow
        else if (std::isfinite(x) && size != 0) {
          const double error = size * unit + (size < r.least / r.unit * 4 ? r.least * 2 : 0);
          x = run_ == 3 && std::fabs(x) <= error ? 0 : x + u * error;  // a sum that cancels may be exactly 0
        }
      }
      if (type == DType::f16 ? run_ % 2 == 1 && std::fabs(x) > r.most * 1.0001
                             : std::fabs(x) > r.most * (1 + r.unit))
        x = std::copysign(INFINITY, x);
      y.set(i, {x, 0});
    }
    return {};
  }

  const Graph& g_;
  int run_;
  std::mt19937_64 rng_;
  std::vector<HostTensor> values_;
};

}  // namespace

Result<std::vector<Wanted>> wanted(const Graph& symbolic, std::span<const HostTensor> inputs) {
  TENON_ASSIGN(std::vector<HostTensor> expected, evaluate(symbolic, inputs));
  std::vector<std::vector<int64_t>> shapes;
  for (const HostTensor& t : inputs) shapes.push_back(t.shape);
  TENON_ASSIGN(auto symbols, solve_symbols(symbolic, shapes, [&](size_t i) { return inputs[i].get(0).i; }));
  TENON_ASSIGN(const Graph sized, at_sizes(symbolic, symbols));
  const Graph graph = expand(sized, [](const Graph&, ValueId) { return false; });
  std::vector<bool> rounded(graph.nodes.size()), moved(graph.nodes.size());
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    const Node& node = graph.node(v);
    const Kind kind = op(node.op).kind;
    rounded[v] = !node.inputs.empty() && rounds(node, graph.type(node.inputs[0]).dtype);
    moved[v] = kind == Kind::move || kind == Kind::input;
    for (ValueId i : node.inputs) {
      rounded[v] = rounded[v] || rounded[i];
      moved[v] = moved[v] && moved[i];
    }
  }
  std::vector<Wanted> out(expected.size());
  bool any = false;
  for (size_t o = 0; o < out.size(); ++o) {
    out[o].expected = std::move(expected[o]);
    out[o].rounded = rounded[graph.outputs[o].value];
    out[o].moved = moved[graph.outputs[o].value];
    any = any || out[o].rounded;
  }
  for (int run = 0; any && run < 6; ++run) {
    TENON_ASSIGN(auto results, Walker(graph, run).outputs(inputs));
    for (size_t o = 0; o < out.size(); ++o) out[o].runs.push_back(std::move(results[o]));
  }
  return out;
}

std::string compare(const Wanted& w, const HostTensor& got, int64_t i, bool* says_nothing) {
  const DType type = got.dtype;
  auto fail = [&](const std::string& want) {
    char text[80];
    if (is_float(type))
      std::snprintf(text, sizeof text, "%.9g", got.get(i).d);
    else
      std::snprintf(text, sizeof text, "%lld", static_cast<long long>(got.get(i).i));
    return "element " + std::to_string(i) + " is " + text + ", wanted " + want;
  };
  if (!is_float(type)) {
    const int64_t want = w.expected.get(i).i;
    for (const HostTensor& run : w.runs)
      if (w.rounded && run.get(i).i != want) return *says_nothing = true, "";
    return got.get(i).i == want ? "" : fail(std::to_string(want));
  }
  const double want = w.expected.get(i).d, x = got.get(i).d;
  auto number = [](double d) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", d);
    return std::string(text);
  };
  if (!w.rounded) {
    const bool same =
        want != want ? x != x : x == want && (!w.moved || std::signbit(x) == std::signbit(want));
    return same ? "" : fail(number(want));
  }
  const double reference = w.runs[0].get(i).d;
  double spread = 0;
  auto include = [&](double run) {
    if (std::isfinite(run) && std::isfinite(reference))
      spread = std::max(spread, std::fabs(run - reference));
    else if (std::isnan(run) != std::isnan(reference) || (!std::isnan(run) && run != reference))
      *says_nothing = true;
  };
  for (const HostTensor& run : w.runs) include(run.get(i).d);
  include(want);
  if (*says_nothing) return "";
  if (!std::isfinite(reference))
    return (reference != reference ? x != x : x == reference) ? "" : fail(number(reference));
  const Rounding r = rounding_of(type);
  const double tolerance = kSpread * spread + 4 * r.unit * std::fabs(reference) + 4 * r.least;
  // If the tolerance reaches the largest number, inf may be the right answer.
  if (std::fabs(reference) + tolerance > r.most) return *says_nothing = true, "";
  return std::fabs(x - reference) <= tolerance ? "" : fail(number(reference) + " +- " + number(tolerance));
}

}  // namespace tenon
