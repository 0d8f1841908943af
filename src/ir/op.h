// Op: one row of the op table, the only definition of an operation's meaning. The rows are in src/ops/rows/*.def;
// every other file reads them through op(). A row fills in only the columns that its kind needs; a composite
// needs only a body. Tested by tests/unit/ops/table_test.cc, which also checks that no column is missing.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/graph.h"

namespace tenon {

class Builder;      // src/ir/builder.h
class MathBuilder;  // below

enum class Kind : uint8_t {
  input,      // graph inputs and constants: no operands
  map,        // one scalar result per element; operands broadcast as in NumPy
  reduce,     // folds axes with a map row (attributes axes, keepdims)
  scan,       // running fold along one axis
  move,       // rearranges or indexes elements without computing
  contract,   // matmul, convolution, pooling
  composite,  // has only a body
  opaque,     // computed by one back end or by the host
};
std::string_view kind_name(Kind kind);

enum class AttrKind : uint8_t { integer, ints, floating, boolean, text, dtype, number, data };

struct AttrSpec {
  std::string name;
  AttrKind kind;
  std::optional<AttrValue> fallback;  // absent: the attribute is required
};

// The result shape that a host claims for a node. If a rule needs an equality of sizes that it cannot prove,
// it adds the equality to `needed` and goes on: the host ran the node, so the equality held.
struct Claim {
  const Dims& shape;
  std::vector<DimTable::Equality> needed = {};
};

// The arguments of a shape or type rule, and what the rule fills in.
struct InferContext {
  const Graph& graph;
  const Node& node;
  DimTable& dims;
  std::optional<TensorType> whole = {};  // set by type rules, which run first, if they infer the shape too
  Claim* claim = nullptr;                // null: the host claims nothing
  const TensorType& operand(int i) const { return graph.type(node.inputs[i]); }
};
using ShapeRule = Result<Dims> (*)(InferContext&);
using TypeRule = Result<DType> (*)(InferContext&);

// The spelling of the scalar operation in LLVM IR, per class of the last operand's dtype: f float, s signed integer, u
// unsigned integer, b bool (an i1). Placeholders:
//   $0 $1 $2  the operands
//   $T $R     type of the last operand (<16 x float>); type of the result
//   $C        i1 with as many lanes (the condition of where, comparisons)
//   $N $B     mangled $T (v16f32); bit width of an element of $T
//   $[1]      the constant 1 of type $T: splat (i32 1), or 1 in scalar code; also $[$B], $[-1], $[true]
// The text may have several lines. The last line is the value; earlier lines define temporaries:
// "$a = fmul $T $0, $0\nfadd $T $a, $1". If the text of a class is empty, the row's math body computes that class; without
// a math body, calls of the eval column do (jit/objects/host_call.h); without eval, the class is not supported.
struct LlvmSpelling {
  std::string_view f, s, u, b;
};

// Integer operands for which a framework raises an error. The row still defines a result for them, with which
// a kernel continues, but the code that runs a graph reports the error.
struct Fault {
  std::string_view what = {};              // the error message; empty: the row has no such operands
  bool (*eval)(const int64_t*) = nullptr;  // whether the operands are faulty
  std::string_view llvm = {};              // the same condition as a spelling of type $C
  bool of_last = false;                    // the last operand alone decides
};

// The arguments of a gradient rule, and what the rule fills in. A scalar L depends on y, the node's result; dy is
// the derivative of L by y and has y's type.
struct GradientContext {
  Builder& b;        // of the graph that has the node, y and dy
  const Node& node;  // a copy: it stays while the graph grows
  ValueId y, dy;
  std::vector<bool> wanted;  // per operand: whether its derivative is needed
  // Per operand: the derivative of L by the operand, of the operand's type. kNoValue: zero.
  std::vector<ValueId> out = {};
};
// Fails with unsupported if the derivative by a wanted operand is not known.
using GradientRule = Status (*)(GradientContext&);

struct Op {
  std::string_view name;
  Kind kind = Kind::map;
  int arity = 1;     // -1: one or more operands
  int optional = 0;  // how many trailing operands may be left out
  // "axes:ints keepdims:bool=false"; kinds int ints float bool text dtype number data.
  std::string_view attrs = {};
  ShapeRule shape = nullptr;
  TypeRule type = nullptr;
  // The node in terms of other rows; operands are values of the builder's graph. For composites, and for
  // other rows where useful (a contraction's body is its definition: windows, multiply, sum).
  std::function<ValueId(Builder&, const Node&)> body = {};
  // Whether a node of the row has the body; null: every node has it.
  bool (*body_when)(const Graph&, const Node&) = nullptr;
  bool has_body(const Graph& graph, const Node& node) const {
    return body && (!body_when || body_when(graph, node));
  }
  // The scalar operation in terms of simpler map rows (polynomials of exp, erf, ...), for f32 and f64, in a
  // few rows for integers. Covers every class of the last operand for which `llvm` is empty.
  uint32_t (*math)(MathBuilder&, std::span<const uint32_t>) = nullptr;
  LlvmSpelling llvm = {};
  double (*eval)(const double*) = nullptr;    // float operands (comparisons give 0 or 1)
  float (*eval_f32)(const float*) = nullptr;  // f32 operands, if rounding eval's result would be wrong (fma)
  int64_t (*eval_int)(const int64_t*) = nullptr;  // integer and bool operands, before wrapping to the dtype
  Fault fault = {};
  std::string_view combine = {};        // reduce, scan: the map row that folds
  double (*identity)(DType) = nullptr;  // reduce, scan: the neutral element
  bool commutative = false;
  bool expensive = false;     // costs as much as exp: kept rather than recomputed
  bool view = false;          // move: an affine index map, free if the consumer reads through it
  bool effect = false;        // mutates or draws from a state: never removed, merged or recomputed
  bool rare = false;          // the result is operand 0 unless that is NaN; kernels call eval for NaN only
  double low = -8, high = 8;  // the range in which tests sample
  double ulp = 0;             // error bound of f32 results; 0: exact or correctly rounded
  bool picks = false;         // the result is one of the operands, except for its sign
  bool jumps = false;         // a float result is not a continuous function of the operands: floor, remainder
  // Reverse mode (src/ops/gradients). gradients::zero: the derivative is zero or does not exist. Without a rule
  // the gradient is that of the body.
  GradientRule gradient = nullptr;
  std::string_view doc = {};  // one sentence with the formula

  std::vector<AttrSpec> attr_specs = {};  // parsed from attrs by the table
};

// The rows. The ids of built-in ops are the constants ops::NAME (src/ops/rows/names.h).
int op_count();
const Op& op(OpId id);
std::optional<OpId> find_op(std::string_view name);
// The neutral element of a reduce or scan row as a literal of the dtype, exact in all 64 bits.
Scalar identity_of(const Op& row, DType dtype);
// Appends a row for the life of the process. Fails with invalid if the name is in use or the row is
// incomplete.
Result<OpId> register_op(Op row);

// The attribute `name` of a node; TENON_CHECKs that the row has it.
const AttrValue& attr(const Node& node, std::string_view name);
template <class T>
const T& attr_as(const Node& node, std::string_view name) {
  return std::get<T>(attr(node, name));
}
int64_t attr_int(const Node& node, std::string_view name);                // must be a constant Dim
std::vector<int64_t> attr_ints(const Node& node, std::string_view name);  // must be constant Dims

// Scalar code under construction, for the math column. op() and constant() return numbers that name the
// values.
class MathBuilder {
 public:
  virtual ~MathBuilder() = default;
  virtual uint32_t op(OpId id, std::initializer_list<uint32_t> operands) = 0;
  virtual uint32_t cast(uint32_t value, DType to) = 0;     // numeric conversion
  virtual uint32_t bitcast(uint32_t value, DType to) = 0;  // same bits
  virtual uint32_t constant(DType type, double value) = 0;
  virtual uint32_t constant_int(DType type, int64_t value) = 0;
  virtual DType type_of(uint32_t value) const = 0;
};

}  // namespace tenon
