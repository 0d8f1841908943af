// Graph: the IR that a framework hands over and that the passes rewrite. Terms:
//   value   an edge; every node has exactly one result, so a ValueId names both the node and its result
//   node    an op (a row of the table, src/ir/op.h), its operands, attributes and result type
//   group   nodes that one back end runs as one unit; Node::group is -1 while undecided and for free views
//
// Invariants (checked by verify): nodes are in topological order; inputs are nodes with op `input`, listed in
// Graph::inputs in the host's order; attributes are in the order of the op's row and complete; types are inferred.
// A pass does not edit a graph in place: it builds a new one (see rewrite() in src/passes/passes.h).
// Strides belong to the binding of an input or output, never to a type. Tested by tests/unit/ir/ir_test.cc and
// tests/golden/ir/*.tn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/ir/dim/dim.h"
#include "src/ir/dtype.h"

namespace tenon {

using ValueId = uint32_t;
using OpId = uint16_t;  // index of a row of the op table, see src/ir/op.h
inline constexpr ValueId kNoValue = ~ValueId{0};
inline constexpr int kMaxRank = 16;

struct TensorType {
  DType dtype = DType::f32;
  Dims shape;
  int rank() const { return static_cast<int>(shape.size()); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// A literal number. Integers keep all 64 bits.
struct Scalar {
  bool is_int = true;
  int64_t i = 0;
  double d = 0;
  static Scalar of(int64_t v) { return {true, v, static_cast<double>(v)}; }
  static Scalar of(double v) { return {false, 0, v}; }
  double as_double() const { return is_int ? static_cast<double>(i) : d; }
  friend bool operator==(const Scalar& a, const Scalar& b);  // by bits: NaN equals NaN, -0.0 differs from 0.0
};

// The dense row-major bytes of a constant. If `owner` is null the bytes are borrowed.
struct ConstantData {
  const void* bytes = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;
  uint64_t id = 0;  // next_constant_id(); identifies packed copies
};
uint64_t next_constant_id();  // unique in the process; any thread

// One alternative per attribute kind (AttrKind in src/ir/op.h). Integers are Dims, so they may be symbolic.
using AttrValue =
    std::variant<Dim, Dims, double, bool, std::string, DType, Scalar, std::shared_ptr<ConstantData>>;

struct Node {
  OpId op = 0;
  std::vector<ValueId> inputs;
  std::vector<AttrValue> attrs;  // in the order of the row's attribute list
  TensorType type;
  std::string name;    // without '%'; unique in the graph; may be empty (printed as a number)
  std::string origin;  // the framework's name of the node, for messages
  int group = -1;
};

struct InputBinding {
  ValueId value = kNoValue;
  bool param = false;           // constant between calls: may be frozen (packed, folded)
  std::optional<Dims> strides;  // in elements; absent: dense row-major
  std::optional<Dim> symbol;    // an i64[] input that defines this symbol's value
  bool donated = false;         // a run may overwrite it once no step reads it any more
};

struct OutputBinding {
  ValueId value = kNoValue;
  std::optional<Dims> strides;
  // The position of the input whose memory the value replaces when the program runs; every read of the input
  // sees the former value. Such outputs come last, and have the strides of their input.
  std::optional<int> updates = {};
};

// The back end that runs the group, and the sentence that explains the group's extent.
struct Group {
  std::string backend;
  std::string why;
  bool again = false;  // its nodes are copies, because their results were not kept; `why` explains that
};

class Graph {
 public:
  std::string name = "main";
  std::shared_ptr<DimTable> dims = std::make_shared<DimTable>();
  std::vector<Node> nodes;
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
  std::vector<Group> groups;

  const Node& node(ValueId v) const { return nodes[v]; }
  Node& node(ValueId v) { return nodes[v]; }
  const TensorType& type(ValueId v) const { return nodes[v].type; }
  std::string value_name(ValueId v) const;            // "%h", or "%12"
  std::string print_type(const TensorType& t) const;  // "f32[N,4]"

  // How many outputs update no input: the host passes memory for these.
  size_t plain_outputs() const;
  bool has_donated_inputs() const;
  // How many nodes and outputs read each value.
  std::vector<int> use_counts() const;
  // The nodes that read each value, in order, each once.
  std::vector<std::vector<ValueId>> users() const;
};

// The graph with plain outputs in place of updates.
Graph without_updates(Graph graph);

}  // namespace tenon
