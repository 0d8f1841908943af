// See difference.h.
#include "src/runtime/difference.h"

#include <algorithm>
#include <utility>

#include "src/ir/op.h"
#include "src/ir/text.h"
#include "src/ops/eval/eval.h"
#include "src/ops/eval/placed.h"
#include "src/ops/rows/names.h"
#include "src/passes/pipeline.h"
#include "src/runtime/accuracy.h"

namespace tenon {
namespace {

constexpr int kMostTries = 400;        // smaller graphs to try
constexpr int64_t kMostElements = 16;  // the most elements of a tensor that a report prints

Result<std::vector<int64_t>> values_of(const Graph& graph, std::span<const HostTensor> inputs) {
  std::vector<std::vector<int64_t>> shapes;
  for (const HostTensor& t : inputs) shapes.push_back(t.shape);
  return solve_symbols(graph, shapes, [&](size_t i) { return inputs[i].get(0).i; });
}

Result<std::vector<int64_t>> eval_all(const DimTable& dims, const Dims& sizes,
                                      std::span<const int64_t> values) {
  std::vector<int64_t> out;
  for (Dim d : sizes) {
    const auto n = dims.eval(d, values);
    if (!n) return invalid("the size " + dims.print(d) + " has no value that fits into 64 bits");
    out.push_back(*n);
  }
  return out;
}

// The inputs as they are in memory: elements that strides put in one place become equal.
Result<std::vector<HostTensor>> as_placed(const Graph& graph, std::span<const HostTensor> inputs) {
  TENON_ASSIGN(const std::vector<int64_t> values, values_of(graph, inputs));
  std::vector<HostTensor> result(inputs.begin(), inputs.end());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!graph.inputs[i].strides) continue;
    TENON_ASSIGN(std::vector<int64_t> steps, eval_all(*graph.dims, *graph.inputs[i].strides, values));
    TENON_ASSIGN(Placed p, Placed::make(result[i].dtype, result[i].shape, std::move(steps)));
    p.write(result[i]);
    p.read(result[i]);
  }
  return result;
}

Result<std::vector<HostTensor>> compute(const Graph& graph, std::span<const HostTensor> inputs,
                                        const ProgramOptions& options) {
  TENON_ASSIGN(const std::vector<int64_t> values, values_of(graph, inputs));
  std::vector<Placed> placed;
  auto place = [&](const TensorType& type, const std::optional<Dims>& strides) -> Status {
    TENON_ASSIGN(std::vector<int64_t> shape, eval_all(*graph.dims, type.shape, values));
    std::vector<int64_t> steps = dense_strides(shape);
    if (strides) {
      TENON_ASSIGN(steps, eval_all(*graph.dims, *strides, values));
    }
    TENON_ASSIGN(Placed p, Placed::make(type.dtype, std::move(shape), std::move(steps)));
    placed.push_back(std::move(p));
    return {};
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    TENON_TRY(place(graph.type(graph.inputs[i].value), graph.inputs[i].strides));
    placed.back().write(inputs[i]);
  }
  for (const OutputBinding& o : graph.outputs) TENON_TRY(place(graph.type(o.value), o.strides));
  std::vector<Tensor> in, out;
  for (size_t i = 0; i < placed.size(); ++i) {
    Placed& p = placed[i];
    (i < inputs.size() ? in : out).push_back({p.data(), p.dtype, p.shape, p.strides});
  }
  ProgramOptions once = options;
  once.verify = 0;
  once.freeze = false;
  TENON_ASSIGN(auto program, Program::make(graph, once, {}));
  TENON_TRY(program->run(in, out));
  std::vector<HostTensor> got;
  for (size_t i = inputs.size(); i < placed.size(); ++i)
    placed[i].read(got.emplace_back(placed[i].dtype, placed[i].shape));
  return got;
}

// A graph and its inputs.
struct Case {
  Graph graph;
  std::vector<HostTensor> inputs;
};

// difference_of for the outputs that the program computes.
Result<std::string> difference_in(const Case& c, const ProgramOptions& options) {
  try {
    TENON_ASSIGN(const std::vector<HostTensor> got, compute(c.graph, c.inputs, options));
    return difference_of(c.graph, c.inputs, got);
  } catch (const StatusError& error) {
    return error.status;
  }
}

// False for a case that cannot be compiled or run.
bool differs(const Case& c, const ProgramOptions& options) {
  auto difference = difference_in(c, options);
  return difference.ok() && !difference->empty();
}

// Every value of the graph, by ValueId.
Result<std::vector<HostTensor>> all_values(const Case& c) {
  Graph all = c.graph;
  all.outputs.clear();
  for (ValueId v = 0; v < all.nodes.size(); ++v) all.outputs.push_back({v, std::nullopt});
  return evaluate(all, c.inputs);
}

// The graph with one of its values as the only output, and with the value `given` as an input (kNoValue:
// none).
Case smaller(const Case& from, ValueId output, ValueId given, const HostTensor* value) {
  Graph asked = from.graph;
  asked.outputs = {{output, std::nullopt}};
  for (const OutputBinding& o : from.graph.outputs)
    if (o.value == output) asked.outputs = {o};
  asked.groups.clear();
  Case c{{}, from.inputs};
  c.graph = rewrite(
      asked, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); },
      [&](Builder& b, std::vector<ValueId>& map) {
        if (given == kNoValue) return;
        auto v = b.try_input(asked.node(given).name, asked.type(given));
        if (!v.ok()) return;
        map[given] = *v;
        c.inputs.push_back(*value);
      });
  return c;
}

// Drops inputs that nothing reads and that determine no size.
Case without_unused(Case best, const ProgramOptions& options) {
  for (size_t i = best.graph.inputs.size(); i-- > 0;) {
    const ValueId v = best.graph.inputs[i].value;
    const Uses uses(best.graph);
    if (!uses.users(v).empty() || uses.is_output(v)) continue;
    Case fewer = best;
    fewer.graph.inputs.erase(fewer.graph.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    fewer.inputs.erase(fewer.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    fewer.graph =
        rewrite(fewer.graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); });
    if (differs(fewer, options)) best = std::move(fewer);
  }
  return best;
}

Case smallest(Case c, const ProgramOptions& options) {
  int tries = 0;
  auto shows = [&](const Case& candidate) { return ++tries <= kMostTries && differs(candidate, options); };
  auto computed = [](const Graph& g, ValueId v) {
    return op(g.node(v).op).kind != Kind::input && !g.node(v).inputs.empty();
  };
  // Finds the first value that differs when it is the only output.
  for (ValueId v = 0; v < c.graph.nodes.size(); ++v) {
    if (!computed(c.graph, v)) continue;
    Case candidate = smaller(c, v, kNoValue, nullptr);
    if (!shows(candidate)) continue;
    c = std::move(candidate);
    break;
  }
  // Turns values into inputs, beginning near the output.
  auto values = all_values(c);
  for (ValueId v = static_cast<ValueId>(c.graph.nodes.size()); values.ok() && v-- > 0;) {
    if (v >= c.graph.nodes.size() || c.graph.outputs.size() != 1 || c.graph.outputs[0].value == v ||
        !computed(c.graph, v))
      continue;
    Case candidate = smaller(c, c.graph.outputs[0].value, v, &(*values)[v]);
    if (candidate.inputs.size() == c.inputs.size() || !shows(candidate)) continue;
    c = std::move(candidate);
    values = all_values(c);
    v = static_cast<ValueId>(c.graph.nodes.size());
  }
  return without_unused(std::move(c), options);
}

std::string cause_of(const Case& c, const ProgramOptions& options) {
  auto cures = [&](const ProgramOptions& other) {
    auto difference = difference_in(c, other);
    return difference.ok() && difference->empty();
  };
  for (std::string_view pass : optional_passes()) {
    ProgramOptions other = options;
    other.without.emplace_back(pass);
    if (cures(other)) return "the pass " + std::string(pass);
  }
  for (Backend* left_out : all_backends()) {
    if (left_out->device_type() != options.device.type || !left_out->runs_unasked() || left_out->runs_loops())
      continue;
    ProgramOptions other = options;
    other.backends.clear();
    for (Backend* b : all_backends())
      if (b->device_type() == options.device.type && b != left_out &&
          (options.backends.empty() ? b->runs_unasked()
                                    : std::ranges::count(options.backends, b->name()) > 0))
        other.backends.emplace_back(b->name());
    if (!other.backends.empty() && cures(other)) return "the back end " + std::string(left_out->name());
  }
  return "";
}

}  // namespace

HostTensor host_copy(const Tensor& tensor) {
  HostTensor t(tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
  std::vector<int64_t> strides = dense_strides(t.shape);
  if (!tensor.strides.empty()) strides.assign(tensor.strides.begin(), tensor.strides.end());
  if (t.count() > 0)
    copy_strided(static_cast<const char*>(tensor.data), strides, reinterpret_cast<char*>(t.bytes.data()),
                 dense_strides(t.shape), t.shape, size_of(t.dtype));
  return t;
}

void write_back(const HostTensor& values, const Tensor& tensor) {
  std::vector<int64_t> strides = dense_strides(values.shape);
  if (!tensor.strides.empty()) strides.assign(tensor.strides.begin(), tensor.strides.end());
  if (values.count() > 0)
    copy_strided(reinterpret_cast<const char*>(values.bytes.data()), dense_strides(values.shape),
                 static_cast<char*>(tensor.data), strides, values.shape, size_of(values.dtype));
}

Result<std::string> difference_of(const Graph& graph, std::span<const HostTensor> inputs,
                                  std::span<const HostTensor> got) {
  TENON_ASSIGN(const std::vector<Wanted> want, wanted(graph, inputs));
  for (size_t o = 0; o < want.size(); ++o)
    for (int64_t i = 0; i < got[o].count(); ++i) {
      bool nothing = false;
      const std::string message = compare(want[o], got[o], i, &nothing);
      if (!message.empty()) return "output " + graph.value_name(graph.outputs[o].value) + ": " + message;
    }
  return std::string();
}

Result<std::optional<Difference>> find_difference(const Graph& original, std::span<const HostTensor> given,
                                                  const ProgramOptions& options) {
  const Graph graph = without_updates(original);
  TENON_ASSIGN(std::vector<HostTensor> inputs, as_placed(graph, given));
  Case c{graph, std::move(inputs)};
  TENON_ASSIGN(std::string sentence, difference_in(c, options));
  if (sentence.empty()) return std::optional<Difference>();
  c = smallest(std::move(c), options);
  std::string cause = cause_of(c, options);
  if (auto of_smallest = difference_in(c, options); of_smallest.ok() && !of_smallest->empty())
    sentence = *of_smallest;
  return std::optional(
      Difference{std::move(sentence), std::move(cause), std::move(c.graph), std::move(c.inputs)});
}

std::string report(const Difference& d) {
  std::string text = d.sentence + "\n";
  text += d.cause.empty() ? "leaving out one pass or back end does not help\n"
                          : "it is right without " + d.cause + "\n";
  text += "the smallest graph that shows it:\n" + print(d.graph);
  for (size_t i = 0; i < d.inputs.size(); ++i) {
    const HostTensor& t = d.inputs[i];
    text += "; " + d.graph.value_name(d.graph.inputs[i].value) + " is " + std::string(name(t.dtype)) + "[";
    for (size_t a = 0; a < t.shape.size(); ++a) text += (a ? "," : "") + std::to_string(t.shape[a]);
    text += "]";
    for (int64_t k = 0; k < t.count() && t.count() <= kMostElements; ++k) {
      char number[40];
      std::snprintf(number, sizeof number, "%s%.9g", k ? " " : ": ", t.number(k));
      text += number;
    }
    text += "\n";
  }
  return text;
}

}  // namespace tenon
