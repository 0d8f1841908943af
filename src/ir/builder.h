// Builder: the one way nodes come into a graph. Every add() fills default attributes, infers and checks the type.
// Hosts and the parser use try_add and get a Status; passes and op bodies use the call operator, for which a refusal
// is our own bug (InternalError), unless a size is too large: that is the graph's, a StatusError. Tested by tests/unit/ir/ir_test.cc.
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

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  DimTable& dims() { return *graph_.dims; }
  const TensorType& type(ValueId v) const { return graph_.type(v); }
  const Dims& shape(ValueId v) const { return graph_.type(v).shape; }

  // Checks the type (check_type) and the name: empty, or one the text form can spell and that is not taken.
  Result<ValueId> try_input(std::string name, TensorType type);
  Result<ValueId> try_add(OpId op, std::vector<ValueId> operands, std::vector<NamedAttr> attrs = {},
                          std::string name = {});
  // A node whose attributes are complete and in row order; only its type is inferred anew.
  Result<ValueId> try_add(Node node, Claim* claim = nullptr);

  // Braced lists, so operands are evaluated left to right: b(ops::mul, {x, y}).
  ValueId operator()(OpId op, std::initializer_list<ValueId> operands, std::vector<NamedAttr> attrs = {});
  ValueId add(Node node);
  // A scalar f32 (or other) literal: full{value, shape=[], dtype}.
  ValueId scalar(double value, DType dtype);
  ValueId scalar_int(int64_t value, DType dtype);
  ValueId cast(ValueId v, DType to);  // v itself when the type is already right
  ValueId reshape(ValueId v, Dims shape);
  // The dimension expression as an i64 or float scalar: dim{value}, cast to dtype.
  ValueId size(Dim d, DType dtype);

 private:
  // Refuses a name that is taken or cannot be spelled.
  Status check_name(const std::string& name);
  ValueId append(Node node);

  Graph& graph_;
  std::unordered_map<std::string, ValueId> names_;  // of the first `named_` nodes
  size_t named_ = 0;
};

// Attribute texts "axis=-1, shape=[N,4]" are read by the parser; defaults come from the row. Fills node.attrs.
Status fill_attrs(const Op& row, std::vector<NamedAttr> given, std::vector<AttrValue>& out);
// Runs the row's rules on a node whose operands and attributes are set. Checks the number of operands, that they exist,
// the number and kinds of attributes, and the resulting type. The node need not be in the graph.
Result<TensorType> infer(const Graph& graph, const Node& node, Claim* claim = nullptr);
// rank <= kMaxRank; sizes that have a value, none of them a negative constant; bytes of a constant shape within int64.
Status check_type(const Graph& graph, const TensorType& type);
// "%h = matmul(%x: f32[2,3], %w: f32[4,5])": how messages name a node.
std::string describe(const Graph& graph, const Node& node);

}  // namespace tenon
