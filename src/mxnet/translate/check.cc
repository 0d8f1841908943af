// See translate.h: check.
#include <algorithm>

#include "src/mxnet/table.h"
#include "src/mxnet/translate/infer.h"
#include "src/mxnet/translate/training.h"
#include "src/mxnet/translate/translate.h"

namespace tenon::mxnet {
namespace {

Status check_operands(const Row& row, const SymbolNode& node) {
  const auto [least, most] = operand_range(row);
  const size_t n = node.inputs.size();
  if (n >= least && n <= most) return {};
  return invalid("takes " + std::to_string(least) + (most == least ? "" : " or more") + " operands, given " +
                 std::to_string(n));
}

Status check_node(const SymbolNode& node, const Options& options, Answer& answer) {
  if (node.attr(kGuard)) return unsupported("it keeps MXNet's sums of gradients out of a part that trains");
  const auto& names = options.op_names;
  if (!names.empty() && std::find(names.begin(), names.end(), node.op) == names.end())
    return unsupported("the option op_names leaves it out");
  answer.row = find_row(node.op);
  if (!answer.row) return unsupported("Tenon does not translate this operator");
  if (!node.subgraphs.empty()) return unsupported("nodes with subgraphs are not translated");
  TENON_ASSIGN(answer.attrs, Attrs::read(columns_of(*answer.row), node));
  TENON_TRY(check_operands(*answer.row, node));
  if (answer.row->check) TENON_TRY(answer.row->check({*answer.attrs, node, options.training}));
  return options.training ? check_gradient(node, *answer.attrs) : Status();
}

// A symbol that MXNet gives to a plugin may state the dtypes of a node's outputs by number: "[0,7]"; an unknown one is -1.
std::vector<int64_t> stated_dtypes(const SymbolNode& node) {
  const std::string* text = node.attr("__ext_dtype__");
  const auto tuple = text ? read_attr_tuple(*text) : std::nullopt;
  std::vector<int64_t> dtypes;
  if (tuple)
    for (const std::optional<int64_t>& n : *tuple) dtypes.push_back(n.value_or(-1));
  return dtypes;
}

Status check_dtypes(const SymbolNode& node) {
  for (const int64_t number : stated_dtypes(node))
    for (const auto& [refused, name] : {std::pair(7, "bool"), std::pair(12, "bfloat16")})
      if (number == refused)
        return unsupported(std::string("MXNet passes no tensors of dtype ") + name + " to plugins");
  return {};
}

// Reads the dtypes and the shapes that the symbol states of its nodes' outputs: "[0,7]" and "[[2,3],[None]]".
PartialTypes stated_types(const Symbol& symbol) {
  PartialTypes types(symbol.nodes.size());
  for (size_t n = 0; n < types.size(); ++n) {
    for (const int64_t number : stated_dtypes(symbol.nodes[n]))
      types[n].push_back({dtype_of_flag(number), {}});
    const std::string* text = symbol.nodes[n].attr("__ext_shape__");
    size_t at = text ? text->find('[', 1) : std::string::npos;
    for (size_t i = 0; i < types[n].size() && at != std::string::npos; ++i, at = text->find('[', at + 1))
      if (const auto tuple = read_attr_tuple(text->substr(at, text->find(']', at) - at + 1));
          tuple && (symbol.is_np_shape || !tuple->empty()))
        types[n][i].shape = stated_shape(*tuple, symbol.is_np_shape);
  }
  return types;
}

// Returns the type that the symbol states of an output. Nothing is known of an output that it does not list.
Partial type_of(const PartialTypes& stated, const Entry& e) {
  return e.output < stated[e.node].size() ? stated[e.node][e.output] : Partial();
}

Status check_stated_gradient(const Symbol& symbol, const PartialTypes& stated, size_t n) {
  const SymbolNode& node = symbol.nodes[n];
  return check_gradient_dtypes(
      node, [&](size_t i) { return type_of(stated, node.inputs[i]).dtype; }, stated[n].size(),
      [&](size_t i) { return stated[n][i].dtype; });
}

// Refuses a node whose result has another dtype in Tenon than MXNet has inferred: MXNet's rules for integers and mixed dtypes differ from
// operator to operator.
Status check_stated_types(const Symbol& symbol, const PartialTypes& stated, const Answer& answer, size_t n) {
  Graph graph;
  Builder builder(graph);
  std::vector<ValueId> operands;
  for (const Entry& e : symbol.nodes[n].inputs) {
    const Partial type = type_of(stated, e);
    if (!type.known()) return {};
    TENON_ASSIGN(operands.emplace_back(), builder.try_input({}, type.type()));
  }
  std::vector<Partial> outputs = stated[n];
  outputs.resize(answer.row->outputs ? answer.row->outputs(*answer.attrs) : 1);
  if (answer.row->from_output && !outputs[0].known()) return {};
  TENON_ASSIGN(const Values made, emit_node(builder, symbol, answer, n, std::move(operands), outputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const DType dtype = builder.type(made[i]).dtype; outputs[i].dtype && outputs[i].dtype != dtype)
      return unsupported("MXNet's result is " + std::string(name(*outputs[i].dtype)) + ", Tenon's would be " +
                         std::string(name(dtype)));
  return {};
}

}  // namespace

std::vector<Answer> check(const Symbol& symbol, const Options& options) {
  std::vector<Answer> answers(symbol.nodes.size());
  const PartialTypes stated = stated_types(symbol);
  for (size_t i = 0; i < symbol.nodes.size(); ++i) {
    const SymbolNode& node = symbol.nodes[i];
    if (node.is_variable()) continue;
    answers[i].training = options.training;
    Status& status = answers[i].status;
    status = check_node(node, options, answers[i]);
    if (status.ok()) status = check_dtypes(node);
    for (const Entry& e : node.inputs)
      if (status.ok()) status = check_dtypes(symbol.nodes[e.node]);
    if (status.ok() && options.training) status = check_stated_gradient(symbol, stated, i);
    if (status.ok()) status = check_stated_types(symbol, stated, answers[i], i);
  }
  // A node whose hidden output is read computes for a gradient.
  auto read = [&](const Entry& e) {
    Answer& from = answers[e.node];
    if (!from.status.ok()) return;
    const int outputs = from.row && from.row->outputs ? from.row->outputs(*from.attrs) : 1;
    if (e.output >= static_cast<uint32_t>(outputs))
      from.status = symbol.nodes[e.node].is_variable()
                        ? invalid("a variable has one output")
                        : unsupported("its output " + std::to_string(e.output) +
                                      " is read, which Tenon does not compute");
  };
  for (const SymbolNode& node : symbol.nodes)
    for (const Entry& e : node.inputs) read(e);
  for (const Entry& e : symbol.heads) read(e);
  return answers;
}

}  // namespace tenon::mxnet
