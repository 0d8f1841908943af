// See attention.h.
#include "backends/nvidia/cudnn/attention.h"

#include <algorithm>
#include <limits>

#include "backends/library/operands.h"
#include "src/ir/op.h"
#include "src/ops/bodies/body_help.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon::cudnn {
namespace {

using library::add_to_key, library::by;

constexpr int64_t kVector = 16;    // bytes that the library's kernels read at once
constexpr int64_t kLongest = 256;  // most elements of a head
constexpr size_t kMask = 3;        // the position of the mask among the operands
// Finite values for a mask: kHidden is the lower bound, below all scores that matter; kGone, still lower, replaces minus infinity.
// Both stay finite when the library scales them by log2(e).
constexpr double kHidden = -1e38, kGone = -2e38;

bool heads_last(const Node& node) { return attr_as<std::string>(node, "layout") == "heads_last"; }

// [B,L,H,D] as [B,H,L,D].
Operations::Shape heads_second(const library::Tensor& at) {
  Operations::Shape s{at.dims, at.strides};
  std::swap(s.dims[1], s.dims[2]);
  std::swap(s.strides[1], s.strides[2]);
  // An axis of size 1 may have any stride; the library gets one that it takes.
  for (size_t i = s.dims.size() - 1; i-- > 0;)
    if (s.dims[i] == 1) s.strides[i] = s.dims[3] * kVector;
  return s;
}

Operations::Shape mask_shape(const library::Tensor& at) {
  Operations::Shape s{at.dims, at.strides};
  for (size_t i = 0; i < s.dims.size(); ++i)
    if (s.dims[i] == 1) s.strides[i] = s.dims.back();
  return s;
}

// Gives the mask four axes and `columns` elements along the last one. Other axes along which it is broadcast get size 1.
ValueId lone_mask(Builder& b, ValueId mask, Dim columns) {
  Dims shape = b.shape(mask);
  if (shape.empty() || shape.back() != columns) {
    Dims wide = shape.empty() ? Dims{columns} : shape;
    wide.back() = columns;
    mask = b(ops::expand, {mask}, {{"shape", wide}});
    shape = wide;
  }
  shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
  mask = b.reshape(mask, shape);
  const auto view = view_of(b.graph(), mask, [&](ValueId v) { return bound_strides(b.graph(), v); });
  for (size_t i = 0; view && i < 3; ++i)
    if (shape[i] != Dim(1) && view->strides[i] == Dim(0))
      mask =
          b(ops::slice, {mask}, {{"axis", Dim(static_cast<int64_t>(i))}, {"start", Dim(0)}, {"end", Dim(1)}});
  return mask;
}

}  // namespace

Status takes_attention(const Graph& graph, const Node& node) {
  const DType dtype = node.type.dtype;
  if (dtype != DType::f16 && dtype != DType::bf16)
    return unsupported("cuDNN computes attention of f16 and bf16, and f32 in fewer bits");
  if (attr_as<double>(node, "dropout") != 0)
    return unsupported("attention with dropout is not given to cuDNN");
  const std::span<const ValueId> heads(node.inputs.data(), kMask);
  if (node.inputs.size() > kMask && attr_as<bool>(node, "causal"))
    return unsupported("attention that is causal and has a mask is not given to cuDNN");
  for (ValueId v : node.inputs)
    for (Dim d : graph.type(v).shape)
      if (!d.is_const()) return unsupported("cuDNN would compile attention anew for every size");
  for (ValueId v : heads) {
    if (graph.type(v).dtype != dtype) return unsupported("operands of different dtypes");
    const int64_t head = graph.type(v).shape[3].value();
    if (head == 0 || head * size_of(dtype) % kVector != 0 || head > kLongest)
      return unsupported("cuDNN has no attention with heads of " + std::to_string(head) + " elements");
  }
  return {};
}

bool reads_attention(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
  const ValueId v = node.inputs[static_cast<size_t>(operand)];
  const auto view = view_of(graph, v, strides_of);
  if (!view) return false;
  const Dims& shape = graph.type(v).shape;
  if (std::find(shape.begin(), shape.end(), Dim(0)) != shape.end()) return true;  // the library is not called
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim stride = view->strides[i];
    if (shape[i] == Dim(1)) continue;
    if (!stride.is_const() || stride.value() <= 0) return false;
    const int64_t bytes = stride.value() * size_of(graph.type(v).dtype);
    if (i + 1 == shape.size() ? stride != Dim(1) : operand < static_cast<int>(kMask) && bytes % kVector != 0)
      return false;
  }
  return true;
}

ValueId arrange_attention(Builder& b, Node node) {
  const bool last = heads_last(node);
  const auto turned = [&](ValueId v) { return bodies::swap_heads(b, v); };
  std::vector<ValueId> operands = node.inputs;
  for (size_t i = 0; i < kMask && !last; ++i) operands[i] = turned(operands[i]);
  const Dim columns = b.shape(operands[1])[1];
  ValueId mask = kNoValue;
  if (operands.size() > kMask) {
    mask = lone_mask(b, operands[kMask], columns);
    // Loops compute this maximum, since the library's maximum may turn NaN into a number.
    const ValueId wide = b.graph().type(mask).dtype == DType::f16 ? b.cast(mask, DType::f32) : mask;
    const ValueId bounded = b(ops::maximum, {wide, bodies::like(b, wide, kHidden)}),
                  gone = b(ops::eq, {wide, bodies::like(b, wide, -std::numeric_limits<double>::infinity())});
    operands[kMask] = b(ops::where, {gone, bodies::like(b, wide, kGone), bounded});
  }
  ValueId y = bodies::add_heads_last(b, node, operands);
  if (operands.size() > kMask && columns != Dim(0)) {
    const ValueId hidden = bodies::like(b, mask, -std::numeric_limits<double>::infinity());
    const ValueId seen = b(ops::ne, {bodies::fold(b, ops::max, mask, {Dim(-1)}), hidden});
    y = b(ops::where, {turned(seen), y, bodies::like(b, y, 0)});
  }
  return last ? y : turned(y);
}

Result<AttentionSpec> attention_spec(const Graph& graph, ValueId attention, const StridesOf& strides_of) {
  const Node& node = graph.node(attention);
  TENON_TRY(takes_attention(graph, node));
  TENON_CHECK(heads_last(node), "attention that was not arranged");
  AttentionSpec r;
  r.dtype = node.type.dtype;
  r.causal = attr_as<bool>(node, "causal");
  r.scale = static_cast<float>(attention_scale(node).at(graph.type(node.inputs[0]).shape[3].value()));
  const auto read = [&](int o) {
    const ValueId v = node.inputs[static_cast<size_t>(o)];
    return library::read(graph, v, strides_of, reads_attention(graph, node, o, strides_of));
  };
  r.q = read(0);
  r.k = read(1);
  r.v = read(2);
  if (node.inputs.size() > kMask) r.mask = read(kMask);
  r.y = stored_operand(graph, attention);
  const auto written = strides_of(attention);
  if (written && *written != r.y.strides)
    return unsupported("cuDNN does not write the result of attention with these strides");
  return r;
}

PlacedProblem at_sizes(const AttentionSpec& r, const Sizes& sizes) {
  std::vector<const Operand*> operands{&r.q, &r.k, &r.v};
  if (r.mask) operands.push_back(&*r.mask);
  operands.push_back(&r.y);
  PlacedProblem at = placed(operands, sizes);
  auto p = std::make_shared<AttentionProblem>();
  p->dtype = r.dtype;
  p->causal = r.causal;
  p->scale = r.scale;
  p->q = heads_second(at.tensors[0]);
  p->k = heads_second(at.tensors[1]);
  p->v = heads_second(at.tensors[2]);
  p->y = heads_second(at.tensors.back());
  if (r.mask) {
    p->mask = mask_shape(at.tensors[kMask]);
    p->mask_dtype = at.tensors[kMask].dtype;
  }
  at.problem = std::move(p);
  return at;
}

std::string AttentionProblem::key() const {
  std::string key = "attention ";
  add_to_key(key, static_cast<int64_t>(dtype));
  add_to_key(key, causal);
  for (const auto* shape : {&q, &k, &v, &y}) {
    add_to_key(key, shape->dims);
    add_to_key(key, shape->strides);
  }
  if (!mask) return key;
  add_to_key(key, static_cast<int64_t>(mask_dtype));
  add_to_key(key, mask->dims);
  add_to_key(key, mask->strides);
  return key;
}

std::string AttentionProblem::text() const {
  return by(q.dims) + " by " + by(k.dims) + (v.dims[3] == k.dims[3] ? "" : " and " + by(v.dims)) + " " +
         std::string(name(dtype)) + (causal ? ", causal" : "") +
         (mask ? ", mask " + by(mask->dims) + (mask_dtype == dtype ? "" : " " + std::string(name(mask_dtype)))
               : "");
}

std::vector<float> AttentionProblem::numbers() const {
  // The causal mask hides with the least finite number, not minus infinity; every row has at least one visible column.
  if (causal) return {scale, std::numeric_limits<float>::lowest()};
  return {scale};
}

Status AttentionProblem::describe(Operations& o) const {
  Operations::Shape turned = k;  // [B,H,D,L]
  std::swap(turned.dims[2], turned.dims[3]);
  std::swap(turned.strides[2], turned.strides[3]);
  TENON_ASSIGN(const Descriptor* dq, o.tensor(q, dtype, "its q"));
  TENON_ASSIGN(const Descriptor* dk, o.tensor(turned, dtype, "its k"));
  TENON_ASSIGN(const Descriptor* dv, o.tensor(v, dtype, "its v"));
  const Descriptor* dm = nullptr;
  if (mask) {
    TENON_ASSIGN(dm, o.tensor(*mask, mask_dtype, "its mask"));
  }
  TENON_ASSIGN(const Descriptor* dy, o.tensor(y, dtype, "its y"));
  TENON_ASSIGN(const Descriptor* factor, o.number("its scale"));

  const std::vector<int64_t> all{q.dims[0], q.dims[1], q.dims[2], k.dims[2]};
  const std::vector<int64_t> one{all[0], all[1], all[2], 1};  // one number per row
  auto scores = [&](DnnDataType type = kDnnF32) { return o.between(all, type, "its scores"); };
  auto row = [&] { return o.between(one, kDnnF32, "a number of its rows"); };
  TENON_ASSIGN(const Descriptor* products, scores());
  TENON_TRY(o.product(*dq, *dk, *products));
  TENON_ASSIGN(const Descriptor* s, scores());
  TENON_TRY(o.pointwise({kDnnMul, products, factor, nullptr, s}));
  if (mask) {
    TENON_ASSIGN(const Descriptor* sums, scores());
    TENON_TRY(o.pointwise({kDnnAdd, s, dm, nullptr, sums}));
    s = sums;
  }
  if (causal) {
    TENON_ASSIGN(const Descriptor* least, o.number("what is hidden"));
    TENON_ASSIGN(const Descriptor* rows, scores(kDnnI32));
    TENON_ASSIGN(const Descriptor* columns, scores(kDnnI32));
    TENON_ASSIGN(const Descriptor* seen, scores(kDnnBoolean));
    TENON_ASSIGN(const Descriptor* left, scores());
    TENON_TRY(o.pointwise({kDnnIndex, s, nullptr, nullptr, rows, 2}));
    TENON_TRY(o.pointwise({kDnnIndex, s, nullptr, nullptr, columns, 3}));
    TENON_TRY(o.pointwise({kDnnGreaterOrEqual, rows, columns, nullptr, seen}));
    TENON_TRY(o.pointwise({kDnnSelect, s, least, seen, left}));
    s = left;
  }
  TENON_ASSIGN(const Descriptor* largest, row());
  TENON_ASSIGN(const Descriptor* shifted, scores());
  TENON_ASSIGN(const Descriptor* e, scores());
  TENON_ASSIGN(const Descriptor* total, row());
  TENON_ASSIGN(const Descriptor* log, row());
  TENON_ASSIGN(const Descriptor* statistics, row());
  TENON_ASSIGN(const Descriptor* weights, scores(library_type(dtype)));
  TENON_TRY(o.reduce(kDnnReduceMax, *s, *largest));
  TENON_TRY(o.pointwise({kDnnSub, s, largest, nullptr, shifted}));
  TENON_TRY(o.pointwise({kDnnExp, shifted, nullptr, nullptr, e}));
  TENON_TRY(o.reduce(kDnnReduceAdd, *e, *total));
  // Nothing reads the logarithm of the sum, but without it the library (9.28) does not recognize the graph as attention.
  TENON_TRY(o.pointwise({kDnnLog, total, nullptr, nullptr, log}));
  TENON_TRY(o.pointwise({kDnnAdd, log, largest, nullptr, statistics}));
  TENON_TRY(o.pointwise({kDnnDiv, e, total, nullptr, weights}));
  return o.product(*weights, *dv, *dy);
}

}  // namespace tenon::cudnn
