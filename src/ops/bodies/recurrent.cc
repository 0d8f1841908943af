// See bodies.h. The row recurrent as the nodes of all its steps.
#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {
namespace {

constexpr int64_t kMostSteps = 1024;

ValueId slice(Builder& b, ValueId v, int64_t axis, Dim start, Dim end) {
  return b(ops::slice, {v}, {{"axis", Dim(axis)}, {"start", start}, {"end", end}});
}

ValueId zeros(Builder& b, Dims shape, DType dtype) {
  return b(ops::full, {}, {{"value", Scalar::of(0.0)}, {"shape", std::move(shape)}, {"dtype", dtype}});
}

// Operands one after another along their first axis.
ValueId concat(Builder& b, std::vector<ValueId> operands) {
  if (operands.size() == 1) return operands[0];
  Node node;
  node.op = ops::concat;
  node.attrs = {Dim(0)};
  node.inputs = std::move(operands);
  return b.add(std::move(node));
}

// The elements in a row.
ValueId flat(Builder& b, ValueId v) {
  Dim count(1);
  for (const Dim d : b.shape(v)) count = b.dims().mul(count, d);
  return b.reshape(v, {count});
}

// The step of a node. Hidden states are rounded as they are stored; the cell is not.
class Cell {
 public:
  Cell(Builder& builder, const Node& recurrent)
      : b(builder),
        node(recurrent),
        mode(attr_as<std::string>(node, "mode")),
        batch(b.shape(node.inputs[0])[1]) {
    for (const ValueId operand : node.inputs) in.push_back(wide(b, operand));
    h = in[1];
    size = has(node, 5) ? b.shape(in[5])[1] : b.shape(h)[1];
    if (mode == "lstm") cell = has(node, 4) ? in[4] : zeros(b, {batch, size}, dtype_of(b, h));
  }

  // Computes the next hidden state from the inputs [B,G*H] of the gates.
  void next(ValueId x) {
    const ValueId s = b(ops::linear, {h, in[2], in[3]});
    if (mode == "lstm") {
      const ValueId gates = b(ops::add, {x, s});
      const ValueId input = b(ops::sigmoid, {gate(gates, 0)}), forget = b(ops::sigmoid, {gate(gates, 1)});
      const ValueId fresh = b(ops::tanh, {gate(gates, 2)}), output = b(ops::sigmoid, {gate(gates, 3)});
      cell = b(ops::add, {b(ops::mul, {forget, cell}), b(ops::mul, {input, fresh})});
      h = b(ops::mul, {output, b(ops::tanh, {cell})});
      if (has(node, 5)) h = b(ops::linear, {h, in[5]});
    } else if (mode == "gru") {
      const ValueId reset = b(ops::sigmoid, {b(ops::add, {gate(x, 0), gate(s, 0)})});
      const ValueId update = b(ops::sigmoid, {b(ops::add, {gate(x, 1), gate(s, 1)})});
      const ValueId fresh = b(ops::tanh, {b(ops::add, {gate(x, 2), b(ops::mul, {reset, gate(s, 2)})})});
      h = b(ops::add, {fresh, b(ops::mul, {update, b(ops::sub, {h, fresh})})});
    } else {
      h = b(mode == "tanh" ? ops::tanh : ops::relu, {b(ops::add, {x, s})});
    }
    h = wide(b, narrow(b, node, h));
  }

  ValueId h, cell = kNoValue;  // of the last step: [B,P] and [B,H]

 private:
  ValueId gate(ValueId v, int64_t which) {
    return slice(b, v, 1, b.dims().mul(Dim(which), size), b.dims().mul(Dim(which + 1), size));
  }

  Builder& b;
  const Node& node;
  const std::string mode;
  const Dim batch;
  Dim size;                 // H
  std::vector<ValueId> in;  // the operands
};

}  // namespace

bool unrolls(const Graph& graph, const Node& node) {
  const Dim steps = graph.type(node.inputs[0]).shape[0];
  return steps.is_const() && steps.value() <= kMostSteps;
}

ValueId recurrent(Builder& b, const Node& node) {
  const Dims shape = b.shape(node.inputs[0]);  // [T,B,G*H]
  const int64_t steps = shape[0].value();
  Cell cell(b, node);
  std::vector<ValueId> hidden(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = attr_as<bool>(node, "reverse") ? steps - 1 - i : i;
    const ValueId x = slice(b, node.inputs[0], 0, Dim(t), Dim(t + 1));
    cell.next(wide(b, b.reshape(x, {shape[1], shape[2]})));
    const Dims row = {Dim(1), shape[1], b.shape(cell.h)[1]};
    hidden[static_cast<size_t>(t)] = b.reshape(narrow(b, node, cell.h), row);
  }
  const ValueId states =
      steps > 0 ? concat(b, std::move(hidden))
                : zeros(b, {shape[0], shape[1], b.shape(cell.h)[1]}, dtype_of(b, node.inputs[0]));
  if (!attr_as<bool>(node, "cell")) return states;
  return concat(b, {flat(b, states), flat(b, narrow(b, node, cell.cell))});
}

}  // namespace tenon::bodies
