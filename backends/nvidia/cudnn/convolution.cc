// See convolution.h.
#include "backends/nvidia/cudnn/convolution.h"

#include <algorithm>

namespace tenon::cudnn {
namespace {

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

Work at_sizes(const Spec& spec, const Sizes& sizes) {
  const Operand* operands[] = {&spec.x, &spec.w, &spec.y};
  Work work = work_of(operands, sizes);
  auto p = std::make_shared<ConvolutionProblem>();
  p->dtype = spec.dtype;
  p->tf32 = spec.tf32;
  p->x = work.tensors[0].dims;
  p->w = work.tensors[1].dims;
  p->y = work.tensors[2].dims;
  p->transposed = spec.transposed;
  p->channels_last = spec.channels_last;
  p->low = spec.low;
  p->high = spec.high;
  p->strides = spec.strides;
  p->dilations = spec.dilations;
  if (p->y.size() < kLeastRank) widen(*p);
  work.problem = std::move(p);
  return work;
}

std::vector<int64_t> ConvolutionProblem::strides_of(const std::vector<int64_t>& dims) const {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = 1;
  if (channels_last) step = dims[1];
  for (size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

std::string ConvolutionProblem::key() const {
  std::string key = "convolution ";
  add_to_key(key,
             {static_cast<int64_t>(dtype), tf32, transposed, channels_last, static_cast<int64_t>(x.size())});
  for (const auto* list : {&x, &w, &y, &low, &high, &strides, &dilations}) add_to_key(key, *list);
  return key;
}

std::string ConvolutionProblem::text() const {
  std::string said = by(x) + " by " + by(w) + " " + std::string(name(dtype)) + (tf32 ? " tf32" : "");
  std::string more;
  if (transposed) more += " transposed";
  if (!channels_last) more += " channels first";
  const int64_t groups = (transposed ? y[1] : x[1]) / std::max<int64_t>(w[1], 1);
  if (groups > 1) more += " groups " + std::to_string(groups);
  if (!all_are(strides, 1)) more += " stride " + by(strides);
  if (!all_are(dilations, 1)) more += " dilation " + by(dilations);
  if (!all_are(low, 0) || !all_are(high, 0))
    more += " pad " + by(low) + (low == high ? "" : " to " + by(high));
  return said + (more.empty() ? "" : "," + more);
}

Status ConvolutionProblem::describe(Operations& o) const {
  const bool wide = dtype == DType::f64;
  TENON_ASSIGN(const Descriptor* dx, o.tensor({x, strides_of(x)}, dtype, "its x"));
  TENON_ASSIGN(const Descriptor* dw, o.tensor({w, strides_of(w)}, dtype, "its weights"));
  TENON_ASSIGN(const Descriptor* dy, o.tensor({y, strides_of(y)}, dtype, "its y"));
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
