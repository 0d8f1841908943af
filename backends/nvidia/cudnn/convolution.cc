// See convolution.h.
#include "backends/nvidia/cudnn/convolution.h"

#include <algorithm>

#include "backends/library/operands.h"
#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/view.h"

namespace tenon::cudnn {
namespace {

bool is_channels_last(const Node& node) { return attr_as<std::string>(node, "layout") == "channels_last"; }

// The permutation of O, I, space to O, space, I, and the inverse.
Dims to_last(size_t rank) {
  Dims perm{Dim(0)};
  for (size_t i = 2; i < rank; ++i) perm.push_back(Dim(static_cast<int64_t>(i)));
  perm.push_back(Dim(1));
  return perm;
}
Dims to_first(size_t rank) {
  Dims perm{Dim(0), Dim(static_cast<int64_t>(rank) - 1)};
  for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(Dim(static_cast<int64_t>(i)));
  return perm;
}

// The strides of a dense operand, in the axis order of the node, with the memory order that the library takes: for x the order of
// the node; for weights, which are always O, I, space in the node, the order of x.
Dims wanted_strides(DimTable& dims, const Node& node, int operand, const Dims& shape) {
  if (operand == 0 || !is_channels_last(node)) return dense_strides(dims, shape);
  Dims turned = shape;
  std::rotate(turned.begin() + 1, turned.begin() + 2, turned.end());
  Dims strides = dense_strides(dims, turned);
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}

bool same_memory(const Dims& shape, const Dims& a, const Dims& b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != Dim(1) && a[i] != b[i]) return false;
  return true;
}

Operand read(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
  const ValueId v = node.inputs[static_cast<size_t>(operand)];
  return library::read(graph, v, strides_of, reads_in_place(graph, node, operand, strides_of));
}

void channels_second(Dims& shape) { std::rotate(shape.begin() + 1, shape.end() - 1, shape.end()); }

constexpr size_t kLeastRank = 4;

bool all_are(const std::vector<int64_t>& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

// Adds a spatial axis of size 1 in front, since the library has no convolutions along one axis.
void widen(ConvolutionProblem& p) {
  for (auto* dims : {&p.x, &p.w, &p.y}) dims->insert(dims->begin() + 2, 1);
  for (auto* list : {&p.strides, &p.dilations}) list->insert(list->begin(), 1);
  for (auto* list : {&p.low, &p.high}) list->insert(list->begin(), 0);
}

}  // namespace

bool reads_in_place(const Graph& graph, const Node& node, int operand, const StridesOf& strides_of) {
  const ValueId v = node.inputs[static_cast<size_t>(operand)];
  const Dims& shape = graph.type(v).shape;
  const auto view = view_of(graph, v, strides_of);
  return view && same_memory(shape, view->strides, wanted_strides(*graph.dims, node, operand, shape));
}

Result<ConvolutionSpec> make_spec(const Graph& graph, ValueId convolution, const StridesOf& strides_of) {
  const Node& node = graph.node(convolution);
  ConvolutionSpec r;
  for (std::string_view name : {"padding", "padding_high"})
    if (!std::ranges::all_of(attr_as<Dims>(node, name), [](Dim d) { return d.is_const(); }))
      return unsupported("cuDNN is used with constant padding only");
  r.dtype = node.type.dtype;
  r.tf32 = r.dtype == DType::f32 && attr_as<bool>(node, "tf32");
  r.transposed = attr_as<bool>(node, "transposed");
  r.channels_last = is_channels_last(node);
  r.low = attr_ints(node, "padding");
  r.high = attr_ints(node, "padding_high");
  r.strides = attr_ints(node, "strides");
  r.dilations = attr_ints(node, "dilations");
  // For a transposed convolution the library sees the forward convolution, and derives the size of x from the size of y.
  const auto extra = attr_ints(node, "output_padding");
  for (size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] < r.strides[i]) continue;
    r.high[i] -= extra[i];
    if (r.high[i] < 0) return unsupported("cuDNN knows no output_padding of a stride and more");
  }
  r.x = read(graph, node, 0, strides_of);
  r.w = read(graph, node, 1, strides_of);
  r.y = stored_operand(graph, convolution);
  const auto written = strides_of(convolution);
  if (written && !same_memory(r.y.shape, *written, dense_strides(*graph.dims, r.y.shape)))
    return unsupported("cuDNN cannot write its result with these strides");
  if (r.channels_last) {
    channels_second(r.x.shape);
    channels_second(r.y.shape);
  }
  return r;
}

ValueId legalize(Builder& b, Node node, const StridesOf& strides_of) {
  const size_t rank = b.shape(node.inputs[0]).size();
  for (int o = 0; o < 2; ++o) {
    if (reads_in_place(b.graph(), node, o, strides_of)) continue;
    ValueId& v = node.inputs[static_cast<size_t>(o)];
    auto copy = [&](ValueId u) { return b(ops::cast, {u}, {{"dtype", b.type(u).dtype}}); };
    if (o == 1 && is_channels_last(node)) {
      const ValueId turned = b(ops::transpose, {v}, {{"perm", to_last(rank)}});
      v = b(ops::transpose, {copy(turned)}, {{"perm", to_first(rank)}});
    } else if (!op(b.graph().node(v).op).view) {  // a view is copied when groups form
      v = copy(v);
    }
  }
  if (node.inputs.size() < 3) return b.add(std::move(node));
  ValueId bias = node.inputs[2];
  if (!is_channels_last(node)) {
    Dims along(rank, Dim(1));
    along[1] = b.shape(bias)[0];
    bias = b.reshape(bias, along);
  }
  Node alone = node;
  alone.inputs.pop_back();
  alone.name.clear();
  const ValueId y = b.add(std::move(alone));
  return b(ops::add, {y, bias});
}

PlacedProblem at_sizes(const ConvolutionSpec& spec, const Sizes& sizes) {
  const Operand* operands[] = {&spec.x, &spec.w, &spec.y};
  PlacedProblem at = placed(operands, sizes);
  auto p = std::make_shared<ConvolutionProblem>();
  p->dtype = spec.dtype;
  p->tf32 = spec.tf32;
  p->x = at.tensors[0].dims;
  p->w = at.tensors[1].dims;
  p->y = at.tensors[2].dims;
  static_cast<Convolution&>(*p) = spec;
  if (p->y.size() < kLeastRank) widen(*p);
  at.problem = std::move(p);
  return at;
}

std::string ConvolutionProblem::key() const {
  std::string key = "convolution ";
  for (int64_t v : {static_cast<int64_t>(dtype), int64_t{tf32}, int64_t{transposed}, int64_t{channels_last}})
    library::add_to_key(key, v);
  for (const auto* list : {&x, &w, &y, &low, &high, &strides, &dilations}) library::add_to_key(key, *list);
  return key;
}

std::string ConvolutionProblem::text() const {
  std::string operands =
      library::by(x) + " by " + library::by(w) + " " + std::string(name(dtype)) + (tf32 ? " tf32" : "");
  std::string more;
  if (transposed) more += " transposed";
  if (!channels_last) more += " channels first";
  const int64_t groups = (transposed ? y[1] : x[1]) / std::max<int64_t>(w[1], 1);
  if (groups > 1) more += " groups " + std::to_string(groups);
  if (!all_are(strides, 1)) more += " stride " + library::by(strides);
  if (!all_are(dilations, 1)) more += " dilation " + library::by(dilations);
  if (!all_are(low, 0) || !all_are(high, 0))
    more += " pad " + library::by(low) + (low == high ? "" : " to " + library::by(high));
  return operands + (more.empty() ? "" : "," + more);
}

Status ConvolutionProblem::describe(Operations& o) const {
  const bool wide = dtype == DType::f64;
  const auto tensor = [&](const std::vector<int64_t>& dims, const char* what) {
    return o.tensor({dims, library::plain_strides(dims, channels_last)}, dtype, what);
  };
  TENON_ASSIGN(const Descriptor* dx, tensor(x, "its x"));
  TENON_ASSIGN(const Descriptor* dw, tensor(w, "its weights"));
  TENON_ASSIGN(const Descriptor* dy, tensor(y, "its y"));
  TENON_ASSIGN(Descriptor convolution, o.make(kDnnConvolution, "the convolution"));
  TENON_TRY(convolution.set(kDnnConvolutionAxes, kDnnTypeInt64, static_cast<int64_t>(strides.size())));
  TENON_TRY(convolution.set(kDnnConvolutionCompute, kDnnTypeDataType, wide ? kDnnF64 : kDnnF32));
  TENON_TRY(convolution.set(kDnnConvolutionModeIs, kDnnTypeConvolutionMode, kDnnCrossCorrelation));
  TENON_TRY(convolution.set(kDnnConvolutionStrides, kDnnTypeInt64, strides));
  TENON_TRY(convolution.set(kDnnConvolutionDilations, kDnnTypeInt64, dilations));
  TENON_TRY(convolution.set(kDnnConvolutionPaddingBefore, kDnnTypeInt64, low));
  TENON_TRY(convolution.set(kDnnConvolutionPaddingAfter, kDnnTypeInt64, high));
  TENON_TRY(o.done(std::move(convolution)));

  const bool back = transposed;
  TENON_ASSIGN(Descriptor operation,
               o.make(back ? kDnnConvolutionBackwardData : kDnnConvolutionForward, "its operation"));
  TENON_TRY(operation.set(back ? kDnnBackwardConvolution : kDnnForwardConvolution, o.last()));
  TENON_TRY(operation.set(back ? kDnnBackwardDy : kDnnForwardX, *dx));
  TENON_TRY(operation.set(back ? kDnnBackwardW : kDnnForwardW, *dw));
  TENON_TRY(operation.set(back ? kDnnBackwardDx : kDnnForwardY, *dy));
  for (const auto& [attribute, value] : {std::pair{back ? kDnnBackwardAlpha : kDnnForwardAlpha, 1.0},
                                         {back ? kDnnBackwardBeta : kDnnForwardBeta, 0.0}}) {
    if (wide)
      TENON_TRY(operation.set(attribute, kDnnTypeDouble, value));
    else
      TENON_TRY(operation.set(attribute, kDnnTypeFloat, static_cast<float>(value)));
  }
  return o.operation(std::move(operation));
}

}  // namespace tenon::cudnn
