// Builder: the only way to add nodes to a graph. Every add() fills in default attributes and infers and
// checks the type. Hosts and the parser use try_add and get a Status. Passes and op bodies use the call
// operator, for which a refusal is a bug of Tenon (InternalError), except for a size that is too large, which
// is a mistake in the graph (StatusError). Tested by tests/unit/ir/ir_test.cc.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/ir/graph.h"
#include "src/ir/op.h"

namespace tenon {

struct NamedAttr {
  std::string_view name;
  AttrValue value;
};

// Changes an attribute of a node that is not in a graph yet; TENON_CHECKs that the row has it.
void set_attr(Node& node, std::string_view name, AttrValue value);

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  DimTable& dims() { return *graph_.dims; }
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Dims& shape(ValueId v) const { return graph_.type(v).shape; }

  // Checks the type (check_type) and the name: empty, or unused and valid in the text form.
  Result<ValueId> try_input(std::string name, TensorType type);
  Result<ValueId> try_add(OpId op, std::vector<ValueId> operands, std::vector<NamedAttr> attrs = {},
                          std::string name = {});
  // Adds a node whose attributes are complete and in row order; only the type is inferred anew.
  Result<ValueId> try_add(Node node, Claim* claim = nullptr);

  // The operands are a braced list, so they are evaluated left to right: b(ops::mul, {x, y}).
  ValueId operator()(OpId op, std::initializer_list<ValueId> operands, std::vector<NamedAttr> attrs = {});
  // A name that is in use is left out, so that a pass may add a node and then another one in its place.
  ValueId add(Node node);
  // While a graph is rebuilt: add() does not infer the type of a node with the op, the attributes and the types of
  // the operands of `former`, a node of `graph`, but takes its type. Both outlive the calls of add(); null ends it.
  void follow(const Graph* graph, const Node* former) { source_ = graph, former_ = former; }
  // A scalar literal: full{value, shape=[], dtype}.
  ValueId scalar(double value, DType dtype);
  ValueId scalar_int(int64_t value, DType dtype);
  ValueId cast(ValueId v, DType to);  // returns v if it already has the type
  ValueId reshape(ValueId v, Dims shape);
  // The size as an i64 or float scalar: dim{value}, cast to dtype.
  ValueId size(Dim d, DType dtype);

 private:
  // Refuses a name that is in use or invalid in the text form.
  Status check_name(const std::string& name);
  ValueId append(Node node);
  bool is_unchanged(const Node& node) const;  // since former_

  Graph& graph_;
  const Graph* source_ = nullptr;
  const Node* former_ = nullptr;
  std::unordered_map<std::string, ValueId> names_;  // of the first `named_` nodes
  size_t named_ = 0;
};

// Fills `out` with the attributes in row order; the row provides defaults for those not given.
Status fill_attrs(const Op& row, std::vector<NamedAttr> given, std::vector<AttrValue>& out);
// Runs the row's rules on a node whose operands and attributes are set. Checks that there are enough operands
// and that they exist, the number and kinds of attributes, and the resulting type. The node need not be in
// the graph.
Result<TensorType> infer(const Graph& graph, const Node& node, Claim* claim = nullptr);
// Checks that rank <= kMaxRank, that every size has a value and no constant size is negative, and that a
// constant shape's bytes fit in int64.
Status check_type(const Graph& graph, const TensorType& type);
// "%h = matmul(%x: f32[2,3], %w: f32[4,5])": the form in which messages name a node.
std::string describe(const Graph& graph, const Node& node);

}  // namespace tenon
