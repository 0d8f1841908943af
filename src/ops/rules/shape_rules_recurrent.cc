// See rules.h. This file has the rules of rows that walk along a sequence (recurrent.def).
#include "src/ops/rules/recurrent.h"
#include "src/ops/rules/rule_help.h"

namespace tenon::shapes {
namespace {

// Fails unless the operands have these ranks.
Status check_ranks(const Rule& r, std::span<const int> ranks) {
  for (int i = 0; i < r.operands(); ++i)
    if (r.rank(i) != ranks[static_cast<size_t>(i)])
      return r.refuse("operand " + std::to_string(i) + " of rank " + std::to_string(r.rank(i)) + ", not " +
                      std::to_string(ranks[static_cast<size_t>(i)]));
  return {};
}

}  // namespace

Result<Dims> recurrent(InferContext& c) {
  const Rule r(c);
  const int gates = gates_of(attr_as<std::string>(c.node, "mode"));
  const bool has_cell = r.operands() > 4, is_lstm = gates == 4;  // without an operand the cell is zeros
  if (gates == 0) return r.refuse("mode is none of lstm, gru, tanh, relu");
  if (has_cell && !is_lstm) return r.refuse("only mode lstm has a cell");
  if (attr_as<bool>(c.node, "cell") && !is_lstm) return r.refuse("only mode lstm has a cell");
  static constexpr int kRanks[] = {3, 2, 2, 1, 2, 2};
  TENON_TRY(check_ranks(r, kRanks));
  const Dims &x = r.shape(0), &state = r.shape(1), &weight = r.shape(2);
  const Dim batch = x[1], size = has_cell ? r.shape(4)[1] : state[1];
  TENON_TRY(r.agree(x[2], c.dims.mul(Dim(gates), size), "the inputs of the gates"));
  TENON_TRY(r.agree(state[0], batch, "the batch of the state"));
  TENON_TRY(r.agree(weight[0], x[2], "the rows of the weight"));
  TENON_TRY(r.agree(weight[1], state[1], "the columns of the weight"));
  TENON_TRY(r.agree(r.shape(3)[0], x[2], "the bias"));
  if (has_cell) TENON_TRY(r.agree(r.shape(4)[0], batch, "the batch of the cell"));
  if (r.operands() > 5) {
    TENON_TRY(r.agree(r.shape(5)[0], state[1], "the rows of the projection"));
    TENON_TRY(r.agree(r.shape(5)[1], size, "the columns of the projection"));
  } else {
    TENON_TRY(r.agree(state[1], size, "the size of the state"));
  }
  if (!attr_as<bool>(c.node, "cell")) return Dims{x[0], batch, state[1]};
  return Dims{c.dims.add(c.dims.mul(c.dims.mul(x[0], batch), state[1]), c.dims.mul(batch, size))};
}

Result<Dims> recurrent_gradient(InferContext& c) {
  const Rule r(c);
  const int gates = gates_of(attr_as<std::string>(c.node, "mode"));
  if (gates == 0) return r.refuse("mode is none of lstm, gru, tanh, relu");
  const int needed = gates == 1 ? 4 : gates == 3 ? 6 : 7, most = gates == 4 ? 8 : needed;
  if (r.operands() < needed || r.operands() > most)
    return r.refuse(std::to_string(r.operands()) + " operands, not " + std::to_string(needed));
  static constexpr int kRanks[] = {3, 3, 2, 2, 3, 3, 2, 2};
  TENON_TRY(check_ranks(r, kRanks));
  const Dims& y = r.shape(0);
  const Dim steps = y[0], batch = y[1], size = y[2], rows = c.dims.mul(Dim(gates), size);
  for (int i = 1; i < r.operands(); ++i) {
    const Dims wanted = i == 1           ? y
                        : i == 3         ? Dims{rows, size}
                        : i < 4 || i > 5 ? Dims{batch, size}
                                         : Dims{steps, batch, rows};
    for (size_t axis = 0; axis < wanted.size(); ++axis)
      TENON_TRY(r.agree(r.shape(i)[axis], wanted[axis],
                        "axis " + std::to_string(axis) + " of operand " + std::to_string(i)));
  }
  const Dim of_gates = c.dims.product(Dims{steps, batch, rows}), of_state = c.dims.mul(batch, size);
  return Dims{c.dims.add(c.dims.mul(Dim(gates == 3 ? 2 : 1), of_gates),
                         c.dims.mul(Dim(gates == 4 ? 2 : 1), of_state))};
}

}  // namespace tenon::shapes
