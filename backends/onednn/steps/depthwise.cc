// See depthwise.h.
#include "backends/onednn/steps/depthwise.h"

#include <algorithm>

namespace tenon::onednn {
namespace {

// The strides of images [N,C,H,W] or [N,C,W]; nothing if their channels are not dense.
std::optional<inner::DepthwiseShape::Strides> image_strides_of(const Array& a) {
  if (a.strides[1] != 1 || a.zero) return std::nullopt;
  const size_t last = a.strides.size() - 1;
  return inner::DepthwiseShape::Strides{a.strides[0], last == 3 ? a.strides[2] : 0, a.strides[last]};
}

// The numbers of both spatial axes, from a list for one or two of them.
inner::DepthwiseShape::Pair pair_of(const std::vector<int64_t>& list, int64_t otherwise) {
  return {list.size() == 2 ? list[0] : otherwise, list.back()};
}

class DepthwiseStep final : public Step {
 public:
  DepthwiseStep(const DepthwiseWindows& problem, int threads)
      : problem_(problem), gradient_(problem.shape), threads_(threads) {}

  int64_t scratch_bytes() const override {
    return gradient_.scratch_floats(threads_) * static_cast<int64_t>(sizeof(float));
  }
  int64_t bytes() const override { return sizeof *this; }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    const auto at = [&](const library::Place& place) {
      return static_cast<char*>(buffers[place.buffer]) + place.offset;
    };
    gradient_.run(at(problem_.in), at(problem_.out_gradient), at(problem_.windows),
                  reinterpret_cast<float*>(scratch), on.parallel, threads_);
    return {};
  }

 private:
  const DepthwiseWindows problem_;
  const inner::DepthwiseGradient gradient_;
  const int threads_;
};

}  // namespace

std::optional<DepthwiseWindows> depthwise_windows(const Problem& p) {
  constexpr int64_t kFast = 3;  // the library has fast code for dense windows of images up to 3x3
  const size_t axes = p.kernel.size();
  if (p.form != Form::weight_gradient || p.groups == 1 || axes > 2 || p.source.dims[1] != p.groups ||
      p.weights.dims[1] != p.groups ||
      (axes == 2 && std::ranges::max(p.kernel) <= kFast && all_are(p.dilations, 1)))
    return std::nullopt;
  const auto in = image_strides_of(p.source), out = image_strides_of(p.weights);
  if (!in || !out) return std::nullopt;
  DepthwiseWindows made{{}, p.source, p.weights, p.output};
  inner::DepthwiseShape& s = made.shape;
  s.dtype = p.source.dtype;
  s.images = p.source.dims[0];
  s.channels = p.groups;
  const auto sizes = [](const Array& a) { return std::vector<int64_t>(a.dims.begin() + 2, a.dims.end()); };
  s.size = pair_of(sizes(p.source), 1);
  s.out_size = pair_of(sizes(p.weights), 1);
  s.window = pair_of(p.kernel, 1);
  s.step = pair_of(p.strides, 1);
  s.low = pair_of(p.low, 0);
  s.dilation = pair_of(p.dilations, 1);
  s.in = *in;
  s.out = *out;
  const std::vector<int64_t>& windows = p.output.strides;  // [groups, 1, 1, rows, columns]
  s.windows = {windows[0], axes == 2 ? windows[3] : 0, windows.back()};
  return inner::DepthwiseGradient::computes(s) ? std::optional(made) : std::nullopt;
}

std::unique_ptr<Step> depthwise_step(const DepthwiseWindows& problem, int threads) {
  return std::make_unique<DepthwiseStep>(problem, threads);
}

}  // namespace tenon::onednn
