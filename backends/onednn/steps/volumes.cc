// See volumes.h.
#include "backends/onednn/steps/volumes.h"

#include <algorithm>

#include "src/ops/rows/names.h"

namespace tenon::onednn {
namespace {

using Axes = inner::VolumeShape::Axes;

Axes spatial(const std::vector<int64_t>& list, size_t from = 0) {
  Axes axes;
  std::copy_n(list.begin() + static_cast<long>(from), axes.size(), axes.begin());
  return axes;
}

class VolumesStep final : public Step {
 public:
  VolumesStep(const DepthwiseVolumes& problem, int threads)
      : problem_(problem), convolution_(problem.shape), threads_(threads) {}

  int64_t scratch_bytes() const override {
    return convolution_.scratch_floats() * static_cast<int64_t>(sizeof(float));
  }
  int64_t bytes() const override { return sizeof *this; }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    const auto at = [&](const library::Place& place) {
      return reinterpret_cast<float*>(static_cast<char*>(buffers[place.buffer]) + place.offset);
    };
    convolution_.run(at(problem_.in), at(problem_.windows), problem_.bias ? at(*problem_.bias) : nullptr,
                     at(problem_.out), reinterpret_cast<float*>(scratch), on.parallel, threads_);
    return {};
  }

 private:
  const DepthwiseVolumes problem_;
  const inner::Depthwise convolution_;
  const int threads_;
};

}  // namespace

bool is_depthwise_of_volumes(const Graph& graph, const Node& node) {
  if (node.op != ops::convolution || attr_as<bool>(node, "transposed")) return false;
  const Dims& w = graph.type(node.inputs[1]).shape;
  return w.size() == 5 && w[0] == attr_as<Dim>(node, "groups") && w[1] == Dim(1);
}

std::optional<DepthwiseVolumes> depthwise_volumes(const Problem& p) {
  const size_t axes = Axes().size();
  if (p.form != Form::convolution || p.kernel.size() != axes || p.source.dtype != DType::f32 ||
      p.source.dims[1] != p.groups || p.output.dims[1] != p.groups || !p.post_ops.empty())
    return std::nullopt;
  for (const Array* a : {&p.source, &p.output})
    if (a->zero || a->any || a->strides[1] != 1) return std::nullopt;
  if (p.weights.zero || (p.bias.present() && (p.bias.zero || p.bias.strides[0] != 1))) return std::nullopt;
  DepthwiseVolumes made{{}, p.source, p.weights, p.output, {}};
  if (p.bias.present()) made.bias = p.bias;
  inner::VolumeShape& s = made.shape;
  s.volumes = p.source.dims[0];
  s.channels = p.groups;
  s.size = spatial(p.source.dims, 2);
  s.out_size = spatial(p.output.dims, 2);
  s.window = spatial(p.kernel);
  s.step = spatial(p.strides);
  s.low = spatial(p.low);
  s.dilation = spatial(p.dilations);
  s.in = {p.source.strides[0], spatial(p.source.strides, 2)};
  s.out = {p.output.strides[0], spatial(p.output.strides, 2)};
  s.windows = {p.weights.strides[0], spatial(p.weights.strides, 3)};  // [groups, 1, 1, depth, rows, columns]
  return inner::Depthwise::computes(s) ? std::optional(made) : std::nullopt;
}

std::unique_ptr<Step> depthwise_step(const DepthwiseVolumes& problem, int threads) {
  return std::make_unique<VolumesStep>(problem, threads);
}

}  // namespace tenon::onednn
