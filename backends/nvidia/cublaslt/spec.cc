// See spec.h. The library's matrices are column-major. Row-major memory is the transpose in column-major order, and the transpose of
// A * B is the transpose of B times the transpose of A, so nothing is copied. One axis of each matrix must be contiguous.
#include "backends/nvidia/cublaslt/spec.h"

#include <algorithm>

#include "backends/library/epilogue.h"
#include "backends/library/operands.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"

namespace tenon::cublaslt {
namespace {

using library::insert_axis, library::spread, library::swap_matrix;

bool negative(DimTable& dims, Dim stride) {
  const auto most = dims.upper_bound(stride);
  return most && *most < 0;
}

// Whether the matrix in the last two axes has a contiguous last axis (`last`) or last but one (otherwise), and the other axis steps
// forward.
bool contiguous(DimTable& dims, const Operand& o, bool last) {
  const size_t n = o.shape.size(), in = last ? n - 1 : n - 2, out = last ? n - 2 : n - 1;
  const bool one = o.shape[in] == Dim(1);
  if (!one && o.strides[in] != Dim(1)) return false;
  if (o.shape[out] == Dim(1) || o.shape[in] == Dim(0)) return true;  // an empty matrix has strides of 0
  return o.strides[out] != Dim(0) && !negative(dims, o.strides[out]);
}

Status check_readable(DimTable& dims, const Operand& o, const char* who) {
  for (size_t i = 0; i + 2 < o.shape.size(); ++i)
    if (negative(dims, o.strides[i])) return unsupported(std::string(who) + " is read backwards");
  if (!contiguous(dims, o, true) && !contiguous(dims, o, false))
    return unsupported(std::string(who) + " has no contiguous axis, or repeats its rows");
  return {};
}

// Transposes the whole product.
void turn(Spec& r) {
  std::swap(r.a, r.b);
  for (Operand* o : {&r.a, &r.b, &r.result}) swap_matrix(*o);
  if (r.added) swap_matrix(*r.added);
}

// The axes of size 1 that vectors get to become matrices, and that the shapes of the graph lack.
struct Vectors {
  bool row = false, column = false;
  void widen(Operand& o) const {
    if (row) insert_axis(o, o.shape.size() - (column ? 0 : 1));
    if (column) insert_axis(o, o.shape.size());
  }
};

// Adds or subtracts (`minus`) the value `v`: as the bias if it is a vector along N that is added, otherwise as C.
Status add(const Graph& graph, ValueId v, bool minus, const TensorType& result, const StridesOf& strides_of,
           const Vectors& vectors, Spec& r) {
  Operand given = operand_of(graph, v, strides_of);
  while (given.shape.size() < result.shape.size()) insert_axis(given, 0);
  vectors.widen(given);
  const auto o = spread(std::move(given), r.result.shape);
  if (!o) return unsupported("its other operand is larger than the result");
  const size_t last = o->strides.size() - 1;
  bool along_last = o->strides[last] == Dim(1) || o->shape[last] == Dim(1);
  for (size_t i = 0; i < last; ++i)
    along_last = along_last && (o->strides[i] == Dim(0) || o->shape[i] == Dim(1));
  if (along_last && !minus && !r.bias && r.dtype != DType::f64) {
    r.bias = *o;
    return {};
  }
  if (r.added) return unsupported("cuBLASLt adds one tensor of the result's shape");
  TENON_TRY(check_readable(*graph.dims, *o, "its other operand"));
  r.added = *o;
  r.beta = minus ? -1 : 1;
  return {};
}

Status append(const Graph& graph, ValueId before, ValueId v, const StridesOf& strides_of,
              const Vectors& vectors, Spec& r) {
  const Node& node = graph.node(v);
  const std::string name(op(node.op).name);
  if (node.type != graph.type(before)) return unsupported("it changes the result's shape or dtype");
  if (r.activation != Activation::none) return unsupported("the library does nothing after its activation");
  if (const Activation a = activation_of(node); a != Activation::none) {
    if (r.dtype == DType::f64) return unsupported("cuBLASLt has no activations of f64");
    r.activation = a;
    return {};
  }
  if (node.op == ops::gelu) return unsupported("cuBLASLt's gelu is the one by tanh");
  TENON_ASSIGN(const library::OtherOperand other,
               library::other_operand(graph, before, node, " is no epilogue of cuBLASLt"));
  if (other.number) {
    // An alpha of 0 would hide infinities and NaN of the product.
    if (node.op != ops::mul || *other.number == 0 || r.added || r.bias || r.alpha != 1)
      return unsupported(name + " with a number is no epilogue of cuBLASLt here");
    r.alpha = *other.number;
    return {};
  }
  if (node.op != ops::add && (node.op != ops::sub || !other.second))
    return unsupported(name + " with a tensor is no epilogue of cuBLASLt");
  return add(graph, other.value, node.op == ops::sub, node.type, strides_of, vectors, r);
}

}  // namespace

bool reads_in_place(const Graph& graph, ValueId operand, const StridesOf& strides_of) {
  Operand o = operand_of(graph, operand, strides_of);
  if (o.base == operand) return true;
  while (o.shape.size() < 2) insert_axis(o, 0);
  return check_readable(*graph.dims, o, "").ok();
}

bool is_product(const Node& node) { return node.op == ops::matmul || node.op == ops::linear; }

Activation activation_of(const Node& node) {
  if (node.op == ops::relu) return Activation::relu;
  if (node.op == ops::gelu && attr_as<std::string>(node, "approximate") == "tanh") return Activation::gelu;
  return Activation::none;
}

Result<Spec> make_spec(const Graph& graph, std::span<const ValueId> members, const StridesOf& strides_of) {
  const ValueId root = members.front(), last = members.back();
  const Node& node = graph.node(root);
  DimTable& dims = *graph.dims;
  Spec r;
  r.dtype = node.type.dtype;
  if (!is_product(node)) return unsupported(std::string(op(node.op).name) + " is no call of cuBLASLt");
  if (!is_float(r.dtype)) return unsupported("cuBLASLt is not used for " + std::string(name(r.dtype)));
  r.tf32 = r.dtype == DType::f32 && attr_as<bool>(node, "tf32");
  auto in_place = [&](ValueId v) {
    return library::read(graph, v, strides_of, reads_in_place(graph, v, strides_of));
  };
  r.a = in_place(node.inputs[0]);
  r.b = in_place(node.inputs[1]);
  if (node.op == ops::linear) swap_matrix(r.b);
  const Vectors vectors{r.a.shape.size() == 1, r.b.shape.size() == 1};
  if (vectors.row) insert_axis(r.a, 0);
  if (vectors.column) insert_axis(r.b, 1);
  r.result = library::written(graph, last, strides_of);
  vectors.widen(r.result);
  for (Operand* o : {&r.a, &r.b}) {
    Dims whole = r.result.shape;
    std::copy(o->shape.end() - 2, o->shape.end(), whole.end() - 2);
    auto spread_out = spread(std::move(*o), whole);
    TENON_CHECK(spread_out.has_value(), "operands of a matmul are no larger than its result");
    *o = std::move(*spread_out);
  }
  TENON_TRY(check_readable(dims, r.a, "its first operand"));
  TENON_TRY(check_readable(dims, r.b, "its second operand"));
  if (node.inputs.size() > 2) TENON_TRY(add(graph, node.inputs[2], false, node.type, strides_of, vectors, r));
  for (size_t m = 1; m < members.size(); ++m)
    TENON_TRY(append(graph, members[m - 1], members[m], strides_of, vectors, r));

  auto along_last = [&] {
    return contiguous(dims, r.result, true) && (!r.added || contiguous(dims, *r.added, true));
  };
  if (!along_last() && !r.bias) {
    turn(r);
    if (!along_last()) turn(r);
  }
  if (!along_last())
    return unsupported(r.added ? "cuBLASLt adds a tensor that lies in memory as its result does"
                               : "cuBLASLt cannot write its result with these strides");
  for (size_t i = 0; i + 2 < r.result.strides.size(); ++i)
    if (negative(dims, r.result.strides[i])) return unsupported("its result is written backwards");
  return r;
}

std::string epilogue_text(bool bias, bool added, Activation activation) {
  std::string text;
  if (bias) text += " bias";
  if (added) text += " add";
  if (activation == Activation::relu) text += " relu";
  if (activation == Activation::gelu) text += " gelu";
  return text;
}

}  // namespace tenon::cublaslt
