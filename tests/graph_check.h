// A compiled Program against the evaluator, with a tolerance that the graph itself gives.
//
// Integers, bools and whatever is only moved must agree bit for bit. For values that were rounded anywhere the graph is
// evaluated again in double: once as it is (the reference), and a few times with every rounding operation's result
// changed by as much as the operation may be off (half an ulp of the node's dtype, the row's ulp, for a sum that times
// the sum of absolute values and the square root of the count). The largest distance of these runs, and of the evaluator
// itself, from the reference says how much the answer depends on rounding: where subtraction cancels or a comparison is
// close, that is much, elsewhere a few ulps. The rule, with k = kSpread:
//   |got - reference| <= k * max |run - reference| + 2 ulps of the dtype
// An element on whose NaN, infinity or (for integers computed from floats) value the runs disagree says nothing; such
// elements are counted. Kernels may keep 16-bit floats in f32 between nodes, so an overflow of f16 is such a case too.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/ir/text.h"
#include "src/ops/eval.h"
#include "src/ops/names.h"
#include "src/ops/rules.h"
#include "src/passes/passes.h"
#include "src/runtime/program.h"

namespace tenon {

inline constexpr double kSpread = 4;

// What the runs say about one output.
struct Wanted {
  HostTensor expected;  // the evaluator's
  bool rounded = false;
  bool moved = true;             // by moves alone: signs of zeros too
  std::vector<HostTensor> runs;  // floats in f64; the first is the reference
};

namespace check_help {

struct Rounding {
  double unit;   // half an ulp at 1
  double least;  // half the smallest number
  double most;
};
inline Rounding rounding_of(DType t) {
  switch (t) {
    case DType::f64: return {0x1p-53, 0x1p-1074, std::numeric_limits<double>::max()};
    case DType::bf16: return {0x1p-9, 0x1p-134, 0x1.fep127};
    case DType::f16: return {0x1p-12 * 2, 0x1p-25, 65504};
    default: return {0x1p-24, 0x1p-150, std::numeric_limits<float>::max()};
  }
}

inline bool rounds(const Node& node, DType from) {
  const Op& row = op(node.op);
  if (!is_float(node.type.dtype)) return false;
  if (row.kind == Kind::reduce) return node.op == ops::sum || node.op == ops::prod;
  if (row.kind == Kind::scan || node.op == ops::scatter || node.op == ops::index_put) return true;
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
    std::optional<HostTensor> scale;  // of a sum: the sum of absolute values
    double factor = 1;
    if (rounding && (node.op == ops::sum || node.op == ops::cumsum)) {
      HostTensor a = *in[0];
      for (int64_t i = 0; i < a.count(); ++i) a.set(i, {std::fabs(a.get(i).d), 0});
      const HostTensor* one[] = {&a};
      TENON_ASSIGN(scale, evaluate_node(g_, node, one));
    }
    if (rounding && (node.op == ops::sum || node.op == ops::prod || node.op == ops::cumsum))
      factor =
          1 +
          (y.count() ? std::sqrt(static_cast<double>(in[0]->count()) / static_cast<double>(y.count())) : 0);
    if (node.op == ops::cumsum && in[0]->rank()) factor = 1 + std::sqrt(static_cast<double>(in[0]->count()));
    if (node.op == ops::prod) factor *= factor;
    if (node.op == ops::scatter || node.op == ops::index_put) factor = 4;
    // Kernels compute in f32 or f64 and round to 16 bits when they store.
    const Rounding inner = rounding_of(compute_type(type));
    const double unit = r.unit + inner.unit * (factor + 2 * op(node.op).ulp);
    for (int64_t i = 0; i < y.count(); ++i) {
      double x = y.get(i).d;
      if (rounding && run_ > 0 && std::isfinite(x)) {
        const double size = scale ? scale->get(i).d : std::fabs(x);
        const double u = run_ == 1   ? 1
                         : run_ == 2 ? -1
                                     : 2 * (static_cast<double>(rng_() >> 11) * 0x1p-53) - 1;
        if (size > r.most)
          x = NAN;  // partial sums may overflow
        else if (size != 0)
          x += u * (size * unit + (size < r.least / r.unit * 4 ? r.least * 2 : 0));
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

}  // namespace check_help

inline Result<std::vector<Wanted>> wanted(const Graph& symbolic, std::span<const HostTensor> inputs) {
  using namespace check_help;
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

// "" when element i of got is right; *says_nothing is set where the runs disagree.
inline std::string compare(const Wanted& w, const HostTensor& got, int64_t i, bool* says_nothing) {
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
  const check_help::Rounding r = check_help::rounding_of(type);
  const double tolerance = kSpread * spread + 4 * r.unit * std::fabs(reference) + 4 * r.least;
  // Where the tolerance reaches the largest number, inf may be meant.
  if (std::fabs(reference) + tolerance > r.most) return *says_nothing = true, "";
  return std::fabs(x - reference) <= tolerance ? "" : fail(number(reference) + " +- " + number(tolerance));
}

struct CheckResult {
  enum Kind { right, wrong, unsupported } kind = right;
  std::string message;
  int64_t elements = 0, says_nothing = 0;
};

namespace check_help {

// A tensor in memory as its binding wants it, with bytes of 0xA5 between the elements and around them.
struct Strided {
  std::vector<int64_t> shape, strides;
  std::vector<std::byte> bytes;
  DType dtype = DType::f32;
  static constexpr size_t kMargin = 64;

  Strided(DType type, std::vector<int64_t> sizes, std::vector<int64_t> steps)
      : shape(std::move(sizes)), strides(std::move(steps)), dtype(type) {
    int64_t last = 0;
    bool none = false;
    for (size_t i = 0; i < shape.size(); ++i) {
      none = none || shape[i] == 0;
      last += (shape[i] - 1) * strides[i];
    }
    bytes.assign(2 * kMargin + static_cast<size_t>(none ? 0 : last + 1) * size_of(type), std::byte{0xA5});
  }
  Tensor tensor() { return {bytes.data() + kMargin, dtype, shape, strides}; }
  template <class F>
  void each(F f) const {
    int64_t i = 0;
    walk(shape, {strides},
         [&](const auto& at) { f(i++, kMargin + static_cast<size_t>(at[0]) * size_of(dtype)); });
  }
  void write(const HostTensor& t) {
    each(
        [&](int64_t i, size_t at) { std::memcpy(&bytes[at], &t.bytes[i * size_of(dtype)], size_of(dtype)); });
  }
  // The elements; false when a byte that belongs to none has changed.
  bool read(HostTensor* t) const {
    std::vector<std::byte> rest = bytes;
    each([&](int64_t i, size_t at) {
      std::memcpy(&t->bytes[i * size_of(dtype)], &bytes[at], size_of(dtype));
      std::fill_n(&rest[at], size_of(dtype), std::byte{0xA5});
    });
    return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0xA5}; });
  }
};

inline std::vector<int64_t> steps_of(const DimTable& dims, const std::optional<Dims>& strides,
                                     const std::vector<int64_t>& shape, std::span<const int64_t> symbols) {
  if (!strides) return dense_strides(shape);
  std::vector<int64_t> out;
  for (Dim d : *strides) out.push_back(*dims.eval(d, symbols));
  return out;
}

}  // namespace check_help

// Compiles the graph and runs it twice. A difference, a refusal other than unsupported, or an InternalError is wrong.
// An input of stride 0 has in all its places what it has in the first: `inputs` are changed accordingly.
inline CheckResult check_program(const Graph& graph, std::vector<HostTensor>& inputs,
                                 const std::vector<bool>& frozen = {},
                                 std::vector<std::string> backends = {}) {
  using namespace check_help;
  CheckResult result;
  auto wrong = [&](std::string message) {
    result.kind = CheckResult::wrong;
    result.message = std::move(message);
    return result;
  };
  std::shared_ptr<Program> program;
  try {
    std::vector<std::vector<int64_t>> shapes;
    for (const HostTensor& t : inputs) shapes.push_back(t.shape);
    auto symbols = solve_symbols(graph, shapes, [&](size_t i) { return inputs[i].get(0).i; });
    if (!symbols.ok()) return wrong("symbols: " + symbols.status().message());
    std::vector<Strided> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.emplace_back(inputs[i].dtype, inputs[i].shape,
                      steps_of(*graph.dims, graph.inputs[i].strides, inputs[i].shape, *symbols));
      in.back().write(inputs[i]);
      in.back().read(&inputs[i]);
    }
    auto want = wanted(graph, inputs);
    if (!want.ok()) return wrong("evaluator: " + want.status().message());
    ProgramOptions options;
    options.backends = std::move(backends);
    std::vector<Tensor> params, in_tensors, out_tensors;
    for (size_t i = 0; i < in.size(); ++i) {
      in_tensors.push_back(in[i].tensor());
      const bool freeze = i < frozen.size() && frozen[i];
      options.freeze = options.freeze || freeze;
      params.push_back(in_tensors.back());
      if (!freeze) params.back().data = nullptr;
    }
    auto made = Program::make(graph, options, params);
    if (!made.ok()) {
      if (made.status().code() != Code::unsupported) return wrong("make: " + made.status().message());
      result.kind = CheckResult::unsupported;
      result.message = made.status().message();
      return result;
    }
    program = *made;
    for (int round = 0; round < 2; ++round) {
      out.clear();
      out_tensors.clear();
      for (size_t o = 0; o < want->size(); ++o) {
        const HostTensor& e = (*want)[o].expected;
        out.emplace_back(e.dtype, e.shape,
                         steps_of(*graph.dims, graph.outputs[o].strides, e.shape, *symbols));
      }
      for (Strided& s : out) out_tensors.push_back(s.tensor());
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): in_tensors point into `in`
      const auto before = in;
      Status status = program->run(in_tensors, out_tensors);
      if (!status.ok()) return wrong("run: " + status.message() + "\n" + program->explain(false));
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].bytes != before[i].bytes)
          return wrong("input " + std::to_string(i) + " was written\n" + program->explain(false));
      for (size_t o = 0; o < out.size(); ++o) {
        HostTensor got((*want)[o].expected.dtype, (*want)[o].expected.shape);
        const std::string where =
            "output " + std::to_string(o) + " " + graph.value_name(graph.outputs[o].value) + ": ";
        if (!out[o].read(&got))
          return wrong(where + "bytes beside the elements were written\n" + program->explain(false));
        for (int64_t i = 0; i < got.count(); ++i) {
          bool nothing = false;
          const std::string message = compare((*want)[o], got, i, &nothing);
          if (!message.empty()) return wrong(where + message + "\n" + program->explain(false));
          ++result.elements;
          result.says_nothing += nothing;
        }
      }
    }
  } catch (const std::exception& error) {
    return wrong(std::string("exception: ") + error.what() + (program ? "\n" + program->explain(false) : ""));
  }
  return result;
}

}  // namespace tenon
