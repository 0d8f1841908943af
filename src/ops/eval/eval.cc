// See eval.h.
#include "src/ops/eval/eval.h"

#include <algorithm>
#include <cstring>

#include "src/ir/builder.h"
#include "src/ops/eval/kinds.h"
#include "src/ops/rows/names.h"

namespace tenon {
namespace {

std::vector<int64_t> sizes_of(const TensorType& type) {
  std::vector<int64_t> sizes;
  for (Dim d : type.shape) sizes.push_back(d.value());
  return sizes;
}

std::string print_sizes(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + std::to_string(sizes[i]);
  return text + "]";
}

// Evaluates the node's body as a graph of its own.
Result<HostTensor> eval_body(const Graph& graph, const Node& node, Operands in, EvalOptions options) {
  Graph inner;
  Builder b(inner);
  Node copy = node;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < in.size(); ++i) {
    TENON_ASSIGN(copy.inputs[i], b.try_input({}, graph.type(node.inputs[i])));
    inputs.push_back(*in[i]);
  }
  inner.outputs.push_back({op(node.op).body(b, copy), std::nullopt});
  TENON_ASSIGN(std::vector<HostTensor> outputs, evaluate(inner, inputs, options));
  TENON_CHECK(inner.type(inner.outputs[0].value) == node.type,
              "the body of " + describe(graph, node) + " makes " +
                  inner.print_type(inner.type(inner.outputs[0].value)));
  return std::move(outputs[0]);
}

// The only symbol of d that has no value yet; kNone if there is none, nullopt if there are several.
constexpr int kNone = -1;
std::optional<int> only_unknown(const DimTable& dims, Dim d, const std::vector<bool>& known) {
  std::vector<Dim> symbols;
  dims.collect_symbols(d, symbols);
  int unknown = kNone;
  for (Dim symbol : symbols) {
    const int number = dims.symbol_number(symbol);
    if (known[number] || number == unknown) continue;
    if (unknown != kNone) return std::nullopt;
    unknown = number;
  }
  return unknown;
}

// Whether d is a sum in which the symbol occurs at most as a factor: not inside a division, remainder, max or
// min.
bool is_linear(const DimTable& dims, Dim d, Dim symbol) {
  if (d == symbol) return true;
  if (d.is_const() || dims.expr(d).kind != DimTable::Kind::sum) return false;
  for (const DimTable::Term& t : dims.expr(d).terms) {
    int times = 0;
    for (Dim atom : t.atoms) {
      std::vector<Dim> symbols;
      dims.collect_symbols(atom, symbols);
      if (!std::count(symbols.begin(), symbols.end(), symbol)) continue;
      if (atom != symbol || ++times > 1) return false;
    }
  }
  return true;
}

// Sets values[unknown] such that d evaluates to `size`. Returns false unless d is linear in it and has such a
// solution.
bool solve_linear(const DimTable& dims, Dim d, int64_t size, int unknown, std::vector<int64_t>& values) {
  if (!is_linear(dims, d, dims.symbol_at(unknown))) return false;
  values[unknown] = 0;
  const auto at_zero = dims.eval(d, values);
  values[unknown] = 1;
  const auto at_one = dims.eval(d, values);
  int64_t slope, rest;
  if (!at_zero || !at_one || __builtin_sub_overflow(*at_one, *at_zero, &slope) || slope == 0) return false;
  if (__builtin_sub_overflow(size, *at_zero, &rest) || rest % slope != 0) return false;
  values[unknown] = rest / slope;
  return true;
}

class AtSizes {
 public:
  AtSizes(const DimTable& dims, std::span<const int64_t> values) : dims_(dims), values_(values) {}

  Status apply(Dim& d) const {
    const auto value = dims_.eval(d, values_);
    if (!value || !Dim::fits(*value))
      return invalid("the size " + dims_.print(d) + " has no value at these sizes");
    d = Dim(*value);
    return {};
  }
  Status apply(Dims& dims) const {
    for (Dim& d : dims) TENON_TRY(apply(d));
    return {};
  }
  Status apply(Node& node) const {
    TENON_TRY(apply(node.type.shape));
    for (AttrValue& value : node.attrs) {
      if (Dim* d = std::get_if<Dim>(&value)) TENON_TRY(apply(*d));
      if (Dims* d = std::get_if<Dims>(&value)) TENON_TRY(apply(*d));
    }
    return {};
  }

 private:
  const DimTable& dims_;
  std::span<const int64_t> values_;
};

}  // namespace

Result<std::vector<int64_t>> solve_symbols(const Graph& graph, std::span<const std::vector<int64_t>> shapes,
                                           const std::function<int64_t(size_t)>& scalar) {
  const DimTable& dims = *graph.dims;
  std::vector<int64_t> values(dims.symbol_count());
  std::vector<bool> known(dims.symbol_count());
  struct Fact {
    Dim d;
    int64_t size;
    size_t input;
  };
  std::vector<Fact> facts;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const InputBinding& input = graph.inputs[i];
    const TensorType& type = graph.type(input.value);
    if (type.shape.size() != shapes[i].size())
      return invalid("input " + graph.value_name(input.value) + ": " + graph.print_type(type) +
                     " needed, given " + print_sizes(shapes[i]));
    for (size_t axis = 0; axis < shapes[i].size(); ++axis)
      facts.push_back({type.shape[axis], shapes[i][axis], i});
    if (input.symbol) facts.push_back({*input.symbol, scalar(i), i});
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (const Fact& fact : facts) {
      const auto unknown = only_unknown(dims, fact.d, known);
      if (!unknown || *unknown == kNone || !solve_linear(dims, fact.d, fact.size, *unknown, values)) continue;
      known[*unknown] = progress = true;
    }
  }
  for (const Fact& fact : facts) {
    const InputBinding& input = graph.inputs[fact.input];
    const std::string where =
        "input " + graph.value_name(input.value) + ": " + graph.print_type(graph.type(input.value));
    if (only_unknown(dims, fact.d, known) != kNone)
      return invalid(where + ": the sizes do not tell " + dims.print(fact.d));
    if (dims.eval(fact.d, values) != fact.size)
      return invalid(where + " needed, given " + print_sizes(shapes[fact.input]) + ": " + dims.print(fact.d) +
                     " is not " + std::to_string(fact.size));
  }
  for (int i = 0; i < dims.symbol_count(); ++i) {
    const Dim symbol = dims.symbol_at(i);
    if (known[i] && values[i] < 0 && dims.range(symbol).first >= 0)
      return invalid("the size " + dims.symbol_name(symbol) + " is negative");
    if (known[i] && !dims.in_range(symbol, values[i]))
      return invalid("graph @" + graph.name + " assumes " + dims.print_range(symbol) + ", but " +
                     dims.symbol_name(symbol) + " is " + std::to_string(values[i]));
  }
  return values;
}

std::vector<DimTable::Equality> assumptions_of(const Graph& graph) {
  const DimTable& dims = *graph.dims;
  std::vector<Dim> told;
  for (const InputBinding& input : graph.inputs) {
    for (Dim d : graph.type(input.value).shape) dims.collect_symbols(d, told);
    if (input.symbol) dims.collect_symbols(*input.symbol, told);
  }
  std::vector<DimTable::Equality> assumptions;
  for (auto [a, b] : dims.equalities()) {
    std::vector<Dim> used;
    dims.collect_symbols(a, used);
    dims.collect_symbols(b, used);
    if (std::all_of(used.begin(), used.end(),
                    [&](Dim s) { return std::find(told.begin(), told.end(), s) != told.end(); }))
      assumptions.push_back({a, b});
  }
  return assumptions;
}

Status check_assumptions(const Graph& graph, std::span<const DimTable::Equality> assumptions,
                         std::span<const int64_t> values) {
  const DimTable& dims = *graph.dims;
  for (auto [a, b] : assumptions) {
    const auto left = dims.eval(a, values), right = dims.eval(b, values);
    if (left && left == right) continue;
    auto print = [](std::optional<int64_t> n) {
      return n ? std::to_string(*n) : "nothing that 64 bits hold";
    };
    std::vector<Dim> used;
    dims.collect_symbols(a, used);
    dims.collect_symbols(b, used);
    std::string text = "graph @" + graph.name + " assumes (" + dims.print(a) + " == " + dims.print(b) +
                       "), but these are " + print(left) + " and " + print(right);
    for (Dim s : used)
      text += (s == used[0] ? ": " : ", ") + dims.symbol_name(s) + " is " +
              std::to_string(values[dims.symbol_number(s)]);
    return unsupported(text);
  }
  return {};
}

Result<Graph> at_sizes(const Graph& graph, std::span<const int64_t> values) {
  TENON_TRY(check_assumptions(graph, assumptions_of(graph), values));
  const AtSizes sizes(*graph.dims, values);
  Graph out = graph;
  out.dims = std::make_shared<DimTable>();
  for (Node& node : out.nodes) {
    if (Status status = sizes.apply(node); !status.ok()) return status.at(describe(graph, node));
    if (node.op == ops::input) continue;
    TENON_ASSIGN(const TensorType type, infer(out, node));
    if (!(type == node.type))
      return invalid(describe(out, node) + ": its type " + out.print_type(node.type) + " is " +
                     out.print_type(type) + " at these sizes");
  }
  for (InputBinding& input : out.inputs) {
    input.symbol.reset();
    if (input.strides) TENON_TRY(sizes.apply(*input.strides));
  }
  for (OutputBinding& output : out.outputs)
    if (output.strides) TENON_TRY(sizes.apply(*output.strides));
  return out;
}

Result<HostTensor> evaluate_node(const Graph& graph, const Node& node, Operands in, EvalOptions options) {
  const Op& row = op(node.op);
  const std::vector<int64_t> shape = sizes_of(node.type);
  if (!element_bytes(node.type.dtype, shape))
    return invalid(describe(graph, node) + ": the result is too large");
  const bool direct = !options.by_body && (node.op == ops::matmul || node.op == ops::convolution);
  const bool own_loop = row.kind != Kind::opaque || node.op < ops::built_in_count;
  const bool by_columns = own_loop && row.kind != Kind::contract && row.kind != Kind::composite &&
                          !(row.kind == Kind::map && !row.eval && !row.eval_int && row.body);
  if (!direct && !by_columns) {
    if (row.body) return eval_body(graph, node, in, options);
    return unsupported(describe(graph, node) + ": no body to evaluate");
  }
  HostTensor out(node.type.dtype, shape);
  Status status;
  switch (row.kind) {
    case Kind::input: status = eval_source(node, out); break;
    case Kind::map: status = eval_map(node, in, out); break;
    case Kind::reduce: status = eval_reduce(node, in, out); break;
    case Kind::scan: status = eval_scan(node, in, out); break;
    case Kind::move: status = eval_move(node, in, out); break;
    case Kind::opaque:
      status = node.op == ops::recurrent            ? eval_recurrent(node, in, out)
               : node.op == ops::recurrent_gradient ? eval_recurrent_gradient(node, in, out)
                                                    : eval_order(node, in, out);
      break;
    default: status = eval_contract(node, in, out); break;
  }
  if (!status.ok()) return status.at(describe(graph, node));
  return out;
}

Result<std::vector<HostTensor>> evaluate(const Graph& symbolic, std::span<const HostTensor> inputs,
                                         EvalOptions options) {
  if (inputs.size() != symbolic.inputs.size())
    return invalid(std::to_string(symbolic.inputs.size()) + " inputs needed, given " +
                   std::to_string(inputs.size()));
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = symbolic.inputs[i].value;
    if (inputs[i].dtype != symbolic.type(v).dtype)
      return invalid("input " + symbolic.value_name(v) + ": " + symbolic.print_type(symbolic.type(v)) +
                     " needed, given " + std::string(name(inputs[i].dtype)));
    shapes.push_back(inputs[i].shape);
  }
  TENON_ASSIGN(const std::vector<int64_t> values,
               solve_symbols(symbolic, shapes, [&](size_t i) { return inputs[i].get(0).i; }));
  TENON_ASSIGN(const Graph graph, at_sizes(symbolic, values));

  std::vector<int> readers = graph.use_counts();
  std::vector<HostTensor> results(graph.nodes.size());
  for (size_t i = 0; i < inputs.size(); ++i) results[graph.inputs[i].value] = inputs[i];
  for (ValueId v = 0; v < graph.nodes.size(); ++v) {
    const Node& node = graph.node(v);
    if (node.op == ops::input) continue;
    std::vector<const HostTensor*> operands;
    for (ValueId operand : node.inputs) operands.push_back(&results[operand]);
    TENON_ASSIGN(results[v], evaluate_node(graph, node, operands, options));
    for (ValueId operand : node.inputs)
      if (--readers[operand] == 0) results[operand] = {};
  }
  std::vector<HostTensor> outputs;
  for (const OutputBinding& output : graph.outputs) outputs.push_back(results[output.value]);
  return outputs;
}

}  // namespace tenon
