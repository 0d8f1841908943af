// Op: one row of the op table, the only place where an operation's meaning is written. The rows are in src/ops/*.def;
// every other file reads them through op(). A column is filled only where its kind owes it (checked by
// tests/unit/ops/table_test.cc); a composite has a body and nothing else. Tested by tests/unit/ops/table_test.cc.
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
  move,       // rearranges or indexes elements, computes nothing
  contract,   // matmul, convolution, pooling
  composite,  // has only a body
  opaque,     // one back end or the host computes it
};
std::string_view kind_name(Kind kind);

enum class AttrKind : uint8_t { integer, ints, floating, boolean, text, dtype, number, data };

struct AttrSpec {
  std::string name;
  AttrKind kind;
  std::optional<AttrValue> fallback;  // absent: the attribute is required
};

// The shape that a host says comes out of a node. What a rule needs to be equal, and cannot show, the host must have
// known: it goes to `needed`, and the rule goes on.
struct Claim {
  const Dims& shape;
  std::vector<DimTable::Equality> needed = {};
};

// What a shape or type rule sees, and what it fills in.
struct InferContext {
  const Graph& graph;
  const Node& node;
  DimTable& dims;
  std::optional<TensorType> whole =
      {};                  // where the type rule, which is asked first, has worked out the shape as well
  Claim* claim = nullptr;  // if there is one
  const TensorType& operand(int i) const { return graph.type(node.inputs[i]); }
};
using ShapeRule = Result<Dims> (*)(InferContext&);
using TypeRule = Result<DType> (*)(InferContext&);

// How to write the scalar operation in LLVM IR, per class of the last operand's dtype: f float, s signed integer, u
// unsigned integer, b bool (an i1). $0 $1 $2 operands, $T type of the last operand (<16 x float>), $R result type,
// $C i1 of as many lanes (where's condition, comparisons), $N mangled $T (v16f32), $B the bit width of an element of $T,
// $[1] the constant 1 of type $T (splat (i32 1), or 1 in scalar code; also $[$B], $[-1], $[true]). Several lines are
// allowed; the last one is the value, the earlier ones define temporaries: "$a = fmul $T $0, $0\nfadd $T $a, $1".
// Empty: that class is computed by the row's math body, else by calls of its eval column (jit/objects/host_call.h), else not at all.
struct LlvmSpelling {
  std::string_view f, s, u, b;
};

// Integer operands for which a framework raises an error instead of computing. The row has a result for them all the same,
// with which a kernel goes on, but whoever computes a graph says that it happened.
struct Fault {
  std::string_view what = {};              // the sentence; empty: there are no such operands
  bool (*eval)(const int64_t*) = nullptr;  // whether these are such operands
  std::string_view llvm = {};              // the same as a spelling of type $C
  bool of_last = false;                    // the last operand alone decides
};

struct Op {
  std::string_view name;
  Kind kind = Kind::map;
  int arity = 1;     // -1: one or more operands
  int optional = 0;  // how many trailing operands may be left out
  std::string_view attrs =
      {};  // "axes:ints keepdims:bool=false"; kinds int ints float bool text dtype number data
  ShapeRule shape = nullptr;
  TypeRule type = nullptr;
  // The node in terms of other rows; operands are values of the builder's graph. Composites, and others where useful
  // (a contraction's body is its definition: windows, multiply, sum).
  std::function<ValueId(Builder&, const Node&)> body = {};
  // The scalar operation in terms of simpler map rows (polynomials of exp, erf, ...), for f32 and f64, in a few rows for
  // integers: every class of the last operand for which `llvm` is empty.
  uint32_t (*math)(MathBuilder&, std::span<const uint32_t>) = nullptr;
  LlvmSpelling llvm = {};
  double (*eval)(const double*) = nullptr;  // float operands (comparisons give 0 or 1)
  float (*eval_f32)(const float*) =
      nullptr;  // f32 operands, where rounding eval's result would be wrong: fma
  int64_t (*eval_int)(const int64_t*) = nullptr;  // integer and bool operands, before wrapping to the dtype
  Fault fault = {};
  std::string_view combine = {};        // reduce, scan: the map row that folds
  double (*identity)(DType) = nullptr;  // reduce, scan: its neutral element
  bool commutative = false;
  bool expensive = false;  // costs as much as exp: computed once, kept rather than recomputed
  bool view = false;       // move: an affine index map, free when the consumer reads through it
  bool effect = false;     // mutates, or draws from a state: never removed, merged or recomputed
  bool rare =
      false;  // the result is operand 0 wherever that is a number; what has only eval is called for the others
  double low = -8, high = 8;  // where tests sample it
  double ulp = 0;             // how close f32 results are to the exact value; 0: exact or correctly rounded
  bool picks = false;         // the result is one of the operands, but for its sign
  bool jumps = false;         // a float result is no continuous function of the operands: floor, remainder
  std::string_view doc = {};  // one sentence with the formula

  std::vector<AttrSpec> attr_specs = {};  // made from attrs by the table
};

// Rows. Ids of built-in ops are the constants ops::name (src/ops/names.h).
int op_count();
const Op& op(OpId id);
std::optional<OpId> find_op(std::string_view name);
// Appends a row for the life of the process; invalid if the name is taken or the row incomplete.
Result<OpId> register_op(Op row);

// The attribute `name` of a node, by kind; TENON_CHECKs that the row has it.
const AttrValue& attr(const Node& node, std::string_view name);
template <class T>
const T& attr_as(const Node& node, std::string_view name) {
  return std::get<T>(attr(node, name));
}
int64_t attr_int(const Node& node, std::string_view name);                // a constant Dim
std::vector<int64_t> attr_ints(const Node& node, std::string_view name);  // constant Dims

// Scalar code under construction, for the math column. Values are numbers handed out by op() and constant().
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
