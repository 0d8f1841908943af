// See winograd.h.
#include "backends/onednn/steps/winograd.h"

#include <algorithm>

#include "src/base/align.h"
#include "src/base/env.h"
#include "src/ops/rows/names.h"

namespace tenon::onednn {
namespace {

constexpr int64_t kFloat = sizeof(float);

// The strides of an image [N,C,H,W]; nothing if its channels are not dense.
std::optional<winograd::ImageStrides> image_strides(const Array& a) {
  if (a.dtype != DType::f32 || a.dims.size() != 4 || a.strides[1] != 1 || a.zero) return std::nullopt;
  return winograd::ImageStrides{a.strides[0], a.strides[2], a.strides[3]};
}

// Whether a spec or a problem has windows of 3x3 at stride 1, in f32.
template <typename T>
bool has_windows_of_three(const T& t) {
  const bool images =
      t.form == Form::convolution || t.form == Form::deconvolution || t.form == Form::weight_gradient;
  return images && t.kernel.size() == 2 && t.groups == 1 && t.output.dtype == DType::f32 &&
         all_are(t.kernel, 3) && all_are(t.strides, 1) && all_are(t.dilations, 1);
}

// Adds a term to the epilogue. False: its operand lies in another order, or there are too many terms.
bool add_term(const Array& operand, bool multiplies, const Problem& p, WindowsOfThree& made) {
  const auto strides = image_strides(operand);
  if (!strides || operand.dims[1] != p.output.dims[1] || made.terms.size() == WindowsOfThree::kMostTerms)
    return false;
  const auto along = [&](size_t axis, int64_t stride) { return operand.dims[axis] == 1 ? 0 : stride; };
  made.terms.push_back(
      {operand,
       {multiplies, nullptr, {along(0, strides->image), along(2, strides->row), along(3, strides->column)}}});
  return true;
}

// The activation of a post-op; nothing if it is none of those that follow a step here.
std::optional<winograd::Activation> activation_of(const PostOp& post) {
  using dnnl::algorithm;
  using winograd::Activation;
  if (post.redone) return post.redone->map == ops::relu ? std::optional(Activation::relu) : std::nullopt;
  switch (post.algorithm) {
    case algorithm::eltwise_relu: return Activation::relu;
    case algorithm::eltwise_swish: return Activation::silu;
    case algorithm::eltwise_hardswish:
      return post.name == "hardswish" ? std::optional(Activation::hardswish) : std::nullopt;
    default: return std::nullopt;
  }
}

// Adds a post-op to the epilogue. False: it has no place there.
bool add(const PostOp& post, const Problem& p, WindowsOfThree& made) {
  winograd::Epilogue& epilogue = made.epilogue;
  if (const auto activation = activation_of(post)) {
    const float most = post.redone ? post.redone->most.value_or(0) : 0;
    if (epilogue.activation != winograd::Activation::none && most == 0) return false;
    epilogue.activation = *activation;
    epilogue.slope = post.algorithm == dnnl::algorithm::eltwise_relu ? post.alpha : 0;
    epilogue.most = most;
    return true;
  }
  const bool multiplies = post.algorithm == dnnl::algorithm::binary_mul;
  return epilogue.activation == winograd::Activation::none &&
         (multiplies || post.algorithm == dnnl::algorithm::binary_add) &&
         add_term(p.others[static_cast<size_t>(post.operand)], multiplies, p, made);
}

float* at(const library::Place& place, void* const* buffers) {
  return reinterpret_cast<float*>(static_cast<char*>(buffers[place.buffer]) + place.offset);
}

class WinogradStep final : public Step {
 public:
  WinogradStep(const WindowsOfThree& problem, const winograd::Convolution& convolution,
               std::shared_ptr<char> windows, Repeated otherwise)
      : problem_(problem),
        convolution_(convolution),
        windows_(std::move(windows)),
        otherwise_(std::move(otherwise)) {}

  int64_t scratch_bytes() const override {
    return std::max(otherwise_.scratch_bytes(), packed_bytes() + convolution_.scratch_floats() * kFloat);
  }
  // Does not count the transformed windows, which all plans share.
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + otherwise_.bytes(); }

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    auto* packed = reinterpret_cast<float*>(windows_ ? windows_.get() : scratch);
    if (!windows_) convolution_.pack(at(problem_.weights, buffers), packed, on.parallel);
    winograd::Convolution::Memory memory{at(problem_.in, buffers), packed, at(problem_.out, buffers),
                                         reinterpret_cast<float*>(scratch + packed_bytes()),
                                         problem_.epilogue};
    std::array<winograd::Term, WindowsOfThree::kMostTerms> terms;
    memory.epilogue.terms = terms.data();
    for (const WindowsOfThree::Term& t : problem_.terms) {
      winograd::Term& term = terms[memory.epilogue.count++];
      term = t.term;
      term.operand = at(t, buffers);
    }
    if (convolution_.run(memory, on.parallel)) return {};
    return otherwise_.run(buffers, scratch, on);
  }

 private:
  // The bytes that the transformed windows take in scratch; 0 if they are constant.
  int64_t packed_bytes() const { return windows_ ? 0 : align_up(convolution_.packed_floats() * kFloat); }

  const WindowsOfThree problem_;
  const winograd::Convolution convolution_;
  const std::shared_ptr<char> windows_;
  const Repeated otherwise_;
};

class WeightGradientStep final : public Step {
 public:
  WeightGradientStep(const WindowsOfThree& problem, int threads, Repeated otherwise)
      : problem_(problem), gradient_(problem.shape, threads), otherwise_(std::move(otherwise)) {}

  int64_t scratch_bytes() const override {
    return std::max(otherwise_.scratch_bytes(), gradient_.scratch_floats() * kFloat);
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + otherwise_.bytes(); }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (gradient_.run(at(problem_.in, buffers), at(problem_.out, buffers), at(problem_.weights, buffers),
                      reinterpret_cast<float*>(scratch), on.parallel))
      return {};
    return otherwise_.run(buffers, scratch, on);
  }

 private:
  const WindowsOfThree problem_;
  const winograd::WeightGradient gradient_;
  const Repeated otherwise_;
};

}  // namespace

bool wants_dense_channels(const Graph& graph, const Node& node) {
  const bool of_weights = node.op == ops::convolution_weight_gradient;
  if ((node.op != ops::convolution && !of_weights) || env::winograd() == "off") return false;
  const Dims &in = graph.type(node.inputs[0]).shape,
             &out = of_weights ? graph.type(node.inputs[1]).shape : node.type.shape;
  const Dims& weights = of_weights ? node.type.shape : graph.type(node.inputs[1]).shape;
  const auto fills_vectors = [](Dim channels) {
    return channels.is_const() && channels.value() % winograd::lanes() == 0;
  };
  return in.size() == 4 && node.type.dtype == DType::f32 && attr_as<Dim>(node, "groups") == Dim(1) &&
         attr_as<std::string>(node, "layout") == "channels_last" &&
         all_are(std::span(weights).subspan(2), 3) && all_are(attr_as<Dims>(node, "strides"), 1) &&
         all_are(attr_as<Dims>(node, "dilations"), 1) && fills_vectors(in.back()) &&
         fills_vectors(out.back());
}

bool may_use_winograd(const Spec& spec) { return has_windows_of_three(spec); }

std::optional<WindowsOfThree> windows_of_three(const Spec& spec, const Problem& p) {
  if (!has_windows_of_three(p) || env::winograd() == "off") return std::nullopt;
  WindowsOfThree made;
  made.of_weights = p.form == Form::weight_gradient;
  const Array &out = made.of_weights ? p.weights : p.output,
              &weights = made.of_weights ? p.output : p.weights;
  const auto in_strides = image_strides(p.source), out_strides = image_strides(out);
  if (!in_strides || !out_strides) return std::nullopt;
  winograd::Shape& s = made.shape;
  made.in = p.source;
  made.weights = weights;
  made.out = out;
  s.images = p.source.dims[0];
  s.channels = p.source.dims[1];
  s.height = p.source.dims[2];
  s.width = p.source.dims[3];
  s.out_channels = out.dims[1];
  s.out_height = out.dims[2];
  s.out_width = out.dims[3];
  s.in = *in_strides;
  s.out = *out_strides;
  // A transposed convolution is a convolution by turned windows, whose padding is the rest of the window.
  s.turned = p.form == Form::deconvolution;
  for (size_t i = 0; i < 2; ++i) s.low[i] = s.turned ? 2 - p.low[i] : p.low[i];
  std::copy_n(weights.strides.begin(), 4, s.weights.begin());
  if (made.of_weights) return winograd::WeightGradient::pays(s) ? std::optional(made) : std::nullopt;
  if (p.bias.present()) {
    if (p.bias.strides[0] != 1) return std::nullopt;
    made.terms.push_back({p.bias, {}});
  }
  for (const PostOp& post : p.post_ops)
    if (!add(post, p, made)) return std::nullopt;
  if (!winograd::Convolution::pays(s, spec.operands[1].constant != nullptr)) return std::nullopt;
  return made;
}

std::shared_ptr<char> TransformedWindows::of(const WindowsOfThree& problem,
                                             const winograd::Convolution& convolution, const void* weights,
                                             library::PackedStore& store) {
  std::lock_guard lock(mutex_);  // the first thread transforms; the others wait
  for (const Transformed& t : transformed_)
    if (t.offset == problem.weights.offset && t.strides == problem.shape.weights) return t.windows;
  std::shared_ptr<char> windows = store.take(convolution.packed_floats() * kFloat);
  convolution.pack(reinterpret_cast<const float*>(static_cast<const char*>(weights) + problem.weights.offset),
                   reinterpret_cast<float*>(windows.get()), default_parallel());
  transformed_.push_back({problem.weights.offset, problem.shape.weights, windows});
  return windows;
}

std::unique_ptr<Step> winograd_step(const WindowsOfThree& problem, const winograd::Convolution& convolution,
                                    std::shared_ptr<char> windows, Repeated otherwise) {
  return std::make_unique<WinogradStep>(problem, convolution, std::move(windows), std::move(otherwise));
}

std::unique_ptr<Step> weight_gradient_step(const WindowsOfThree& problem, int threads, Repeated otherwise) {
  return std::make_unique<WeightGradientStep>(problem, threads, std::move(otherwise));
}

}  // namespace tenon::onednn
