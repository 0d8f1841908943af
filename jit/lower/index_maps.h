// index_maps: what each op of kind move (and the literals full, iota, dim) means for indices. To read its
// result at an index is to read its operands at other indices. Tested by tests/golden/jit/lower_*.tn.
#pragma once

#include <optional>
#include <vector>

#include "jit/analysis/index.h"

namespace tenon::jit {

// The interface of lowering to a move, while lowering walks from results to operands.
class Evaluator {
 public:
  explicit Evaluator(const Graph& graph) : graph_(graph) {}
  virtual ~Evaluator() = default;
  const Graph& graph() const { return graph_; }
  DimTable& dims() const { return *graph_.dims; }
  // The scalar of value `v` at indices `at`, in the compute type of its dtype.
  virtual Ref eval(ValueId v, const Indices& at) = 0;
  // Reads a value stored as dense rows at a position counted in elements. Nothing: the value is not stored
  // densely.
  virtual std::optional<Ref> load_dense(ValueId v, const Index& position) = 0;
  virtual const IndexMath& index() const = 0;
  virtual const std::vector<LoopAxis>& axes() const = 0;
  virtual bool failed() const = 0;
  virtual Ref fail(Request request) = 0;
  Ref decline(std::string why) { return fail({.why = std::move(why)}); }

  // Whether a read through a reshape that loops cannot follow may use divisions. A group of one node has no
  // alternative.
  virtual bool may_divide() const = 0;
  virtual bool may_split(uint32_t axis) const = 0;

  virtual Ref scalar_op(OpId op, std::vector<Ref> args, DType type) = 0;
  // The same, with a check of the operands if the row has a fault column. For a node with the operands that
  // the user wrote.
  virtual Ref checked_op(const Node& node, OpId op, std::vector<Ref> args, DType type) = 0;
  virtual Ref cast_to(Ref value, DType type) = 0;
  virtual Ref literal(DType type, Scalar value) = 0;
  virtual Ref size_value(Dim d) = 0;             // i64
  virtual Ref index_value(const Index& at) = 0;  // i64

  // Indices of an operand that is broadcast to `result` by NumPy's rules.
  Indices broadcast(const Indices& at, const Dims& operand, const Dims& result) const;

 private:
  const Graph& graph_;
};

using Move = Ref (*)(Evaluator&, const Node& node, const Indices& at);
Move find_move(OpId op);  // null: the op is no move

// An element of the node's indices as a position along the axis. The kernel checks it, unless the graph shows that it is one. With
// the attribute wrap, negative numbers count from the end.
Ref index_into(Evaluator& e, const Node& node, Ref index);

}  // namespace tenon::jit
