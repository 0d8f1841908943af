// See library.h.
#include "backends/onednn/library.h"

#include "backends/onednn/exit_gate.h"
#include "src/backend/host_threads.h"
#include "src/base/threads/immortal.h"
#include "src/base/threads/single_flight_lru.h"

namespace tenon::onednn {
namespace {

using dnnl::memory;
constexpr size_t kMostProblems = 1024;

memory::desc described(const Array& a) {
  if (a.any) return {a.dims, type_of(a.dtype), memory::format_tag::any};
  return {a.dims, type_of(a.dtype), a.strides};
}

dnnl::primitive_attr attributes(const Problem& p) {
  dnnl::post_ops posts;
  for (size_t i = 0; i < p.post_ops.size(); ++i) {
    const PostOp& post = p.post_ops[i];
    if (p.form == Form::pointwise && i == 0) continue;
    if (post.operand < 0)
      posts.append_eltwise(post.algorithm, post.alpha, post.beta);
    else
      posts.append_binary(post.algorithm, described(p.others[static_cast<size_t>(post.operand)]));
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(posts);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

memory::dims one_less(const std::vector<int64_t>& dilations) {
  memory::dims out;
  for (int64_t d : dilations) out.push_back(d - 1);
  return out;
}

dnnl::primitive_desc describe(const Problem& p) {
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto attr = attributes(p);
  const auto& e = engine();
  switch (p.form) {
    case Form::matmul:
      if (p.bias.present())
        return dnnl::matmul::primitive_desc(e, described(p.source), described(p.weights), described(p.bias),
                                            described(p.output), attr);
      return dnnl::matmul::primitive_desc(e, described(p.source), described(p.weights), described(p.output),
                                          attr);
    case Form::convolution: {
      const auto alg = dnnl::algorithm::convolution_direct;
      const auto bias = p.bias.present() ? described(p.bias) : memory::desc();
      return dnnl::convolution_forward::primitive_desc(e, kind, alg, described(p.source),
                                                       described(p.weights), bias, described(p.output),
                                                       p.strides, one_less(p.dilations), p.low, p.high, attr);
    }
    case Form::deconvolution: {
      const auto alg = dnnl::algorithm::deconvolution_direct;
      const auto bias = p.bias.present() ? described(p.bias) : memory::desc();
      return dnnl::deconvolution_forward::primitive_desc(
          e, kind, alg, described(p.source), described(p.weights), bias, described(p.output), p.strides,
          one_less(p.dilations), p.low, p.high, attr);
    }
    case Form::weight_gradient: {
      const auto alg = dnnl::algorithm::convolution_direct;
      const auto any = [](const Array& a) {
        return memory::desc(a.dims, type_of(a.dtype), memory::format_tag::any);
      };
      const dnnl::convolution_forward::primitive_desc forward(
          e, dnnl::prop_kind::forward_training, alg, any(p.source), any(p.output), any(p.weights), p.strides,
          one_less(p.dilations), p.low, p.high);
      return dnnl::convolution_backward_weights::primitive_desc(
          e, alg, described(p.source), described(p.output), described(p.weights), p.strides,
          one_less(p.dilations), p.low, p.high, forward, attr);
    }
    case Form::average:
      return dnnl::pooling_forward::primitive_desc(
          e, kind,
          p.include_pad ? dnnl::algorithm::pooling_avg_include_padding
                        : dnnl::algorithm::pooling_avg_exclude_padding,
          described(p.source), described(p.output), p.strides, p.kernel, memory::dims(p.kernel.size(), 0),
          p.low, p.high, attr);
    case Form::pointwise: break;
  }
  const PostOp& first = p.post_ops[0];
  return dnnl::eltwise_forward::primitive_desc(e, kind, first.algorithm, described(p.source),
                                               described(p.output), first.alpha, first.beta, attr);
}

bool has_words(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

// Returns the library's first choice, with two exceptions: one that computes wrong results, and on AVX2 its 1x1 convolution by batches of
// small products (brgconv), which loses a tenth to the older implementation (jit_1x1) on most shapes, and two thirds with 3072 channels.
dnnl::primitive_desc best_of(const Problem& p) {
  dnnl::primitive_desc best = describe(p);
  while (has_wrong_epilogue(p) && has_words(best.impl_info_str(), "brgconv_strided"))
    if (!best.next_impl()) throw std::runtime_error("its code adds a bias to a part of the sums");
  if (!has_words(best.impl_info_str(), "brgconv_1x1:avx2")) return best;
  while (best.next_impl())
    if (has_words(best.impl_info_str(), "jit_1x1:avx2")) return best;
  return describe(p);
}

// Whether the strides are those of plain_strides(). Strides of axes of size 1 do not count.
bool is_plain(const Array& a, bool channels_last) {
  const std::vector<int64_t> plain = plain_strides(a.dims, channels_last);
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.dims[i] != 1 && a.strides[i] != plain[i]) return false;
  return true;
}

// Decides which strides the library gets; no other function does. Source, weights and result keep all strides that the library can
// describe. With `plain` they get plain strides, except for weights in the library's own layout (`any`).
// Operands of post-ops and biases always get plain strides: the library (3.2) accepts others, but its kernels read these operands
// as if elements were adjacent, in the order of the result and at its offsets. For the same reason a result with gaps gets plain
// strides if post-ops have operands.
Problem rearranged(const Problem& given, bool plain) {
  Problem p = given;
  const bool spatial = p.form != Form::matmul && p.form != Form::pointwise;
  auto settle = [&](Array& a, bool channels_last, bool anew) {
    if (!a.present() || a.any) return;
    if (anew || !descriptor_of(a)) a.strides = plain_strides(a.dims, channels_last);
  };
  settle(p.source, spatial, plain);
  settle(p.weights, p.form == Form::weight_gradient, plain);
  const bool gaps = !is_plain(p.output, false) && !(spatial && is_plain(p.output, true));
  settle(p.output, spatial, plain || (gaps && !p.others.empty()));
  const bool channels_last = spatial && is_plain(p.output, true);
  for (Array& o : p.others) settle(o, channels_last, !is_plain(o, channels_last));
  settle(p.bias, false, !is_plain(p.bias, false));
  return p;
}

// Whether the gradient of bf16 weights is one of those for which the library (3.2) computes noise in some sizes: of dilated windows with
// groups, or of an image that is shorter than a window or its step.
bool is_wrong_in_bf16(const Problem& p) {
  if (p.form != Form::weight_gradient || p.output.dtype != DType::bf16) return false;
  const size_t axes = p.dilations.size(), windows = p.output.dims.size() - axes;
  for (size_t i = 0; i < axes; ++i) {
    if (p.groups > 1 && p.dilations[i] > 1) return true;
    const int64_t window = (p.output.dims[windows + i] - 1) * p.dilations[i] + 1;
    if (p.source.dims[i + 2] < window + p.strides[i] - 1) return true;
  }
  return false;
}

Algorithm choice(const Problem& given, bool plain) {
  Algorithm c{given, rearranged(given, plain), nullptr};
  if (is_wrong_in_bf16(given))
    for (Array* a : {&c.problem.source, &c.problem.weights, &c.problem.output}) a->dtype = DType::f32;
  c.offer = offer(c.problem, false);
  return c;
}

// Whether the library multiplies by these constant weights without packing them. Always asks for kRows rows, so that one answer
// serves every number of rows.
bool multiplies_plain(const Problem& product) {
  constexpr int64_t kRows = 64;
  Problem p = product;
  const int64_t rows = p.output.dims[0];
  p.source.dims[0] = p.output.dims[0] = kRows;
  for (Array& o : p.others)
    if (o.dims[0] == rows) o.dims[0] = kRows;
  return choice(p, false).offer->gemm;
}

int rank(const Offer& o, bool spatial) {
  if (!o.why.empty()) return 3;
  if (o.reference) return 2;
  return o.gemm && spatial ? 1 : 0;
}

}  // namespace

bool has_wrong_epilogue(const Problem& p) {
  return p.form == Form::deconvolution && p.output.dtype == DType::f32 && !all_are(p.strides, 1) &&
         (p.bias.present() || !p.post_ops.empty());
}

const dnnl::engine& engine() {
  static const dnnl::engine* kept = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *kept;
}

memory::data_type type_of(DType t) {
  switch (t) {
    case DType::bf16: return memory::data_type::bf16;
    case DType::f16: return memory::data_type::f16;
    case DType::i32: return memory::data_type::s32;
    case DType::i8: return memory::data_type::s8;
    case DType::u8: return memory::data_type::u8;
    default: return memory::data_type::f32;
  }
}

std::optional<memory::desc> descriptor_of(const Array& a) {
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (a.strides[i] < 1) return std::nullopt;
  const memory::desc d(a.dims, type_of(a.dtype), a.strides, true);
  if (!d.get(true)) return std::nullopt;
  return d;
}

// Applies to a reorder of 16-bit weights into blocks of 32 or more outer channels by pairs of inner channels, if the outer
// channels are a multiple of 64 elements apart. The library (3.2) then reads along the taps, and has no fast code for more than 7
// taps. It has fast code if the inner channels are adjacent.
std::optional<memory::desc> halfway(const Array& given, const memory::desc& wanted) {
  const auto blocks = wanted.get_inner_blks();
  const auto axes = wanted.get_inner_idxs();
  if (size_of(given.dtype) != 2 || blocks.size() != 2 || blocks[0] < 32 || axes[1] != axes[0] + 1)
    return std::nullopt;
  const size_t outer = static_cast<size_t>(axes[0]), inner = outer + 1;
  const bool whole = given.dims[outer] % blocks[0] == 0 && given.dims[inner] % blocks[1] == 0;
  if (!whole || given.strides[outer] % 64 != 0 || given.strides.back() != 1 || given.strides[inner] < 8)
    return std::nullopt;
  Array way = given;
  way.strides = plain_strides({given.dims.begin() + axes[0], given.dims.end()}, true);
  if (outer == 1) way.strides.insert(way.strides.begin(), given.count() / given.dims[0]);
  return outer > 1 ? std::nullopt : descriptor_of(way);
}

std::shared_ptr<const Offer> offer(const Problem& problem, bool make) {
  const InLibrary here;  // the library looks into its cache of primitives
  if (const Status late = here.status(); !late.ok()) {
    auto none = std::make_shared<Offer>();
    none->why = late.message();
    return none;
  }
  const auto known = immortal<SingleFlightLru<const Offer>, kMostProblems>().at(problem.key());
  std::lock_guard lock(known->mutex);
  const HostThreadLimit limit(problem.threads);  // the library divides work when it makes a primitive
  if (!known->value) {
    auto made = std::make_shared<Offer>();
    try {
      made->descriptor = best_of(problem);
      made->name = made->descriptor.impl_info_str();
      made->gemm = has_words(made->name, "gemm");
      // The gemm implementations round sums of products of integers to f32.
      const bool rounds = made->gemm && problem.output.dtype == DType::i32;
      made->reference = rounds || has_words(made->name, "ref");
    } catch (const std::exception& failure) {
      made->why = std::string("the library refuses: ") + failure.what();
    }
    known->value = std::move(made);
  }
  if (make && known->value->why.empty() && !known->value->primitive) {
    auto complete = std::make_shared<Offer>(*known->value);
    try {
      complete->primitive = dnnl::primitive(complete->descriptor.get());
    } catch (const std::exception& failure) {
      complete->why = std::string("the library cannot make ") + complete->name + ": " + failure.what();
    }
    known->value = std::move(complete);  // holders of the earlier offer keep it
  }
  return known->value;
}

Algorithm choose(const Problem& problem, bool make) {
  const bool spatial = problem.form == Form::convolution || problem.form == Form::deconvolution ||
                       problem.form == Form::weight_gradient;
  auto chosen = [&]() -> Algorithm {
    // A product with a single row is bound by reading the weights, and a plain matrix is read at full speed.
    if (problem.output.dims[0] > 1)
      if (auto convolution = as_convolution(problem); convolution && multiplies_plain(problem)) {
        Algorithm c = choice(*convolution, false);
        if (c.offer->why.empty() && has_words(c.offer->name, "1x1")) return c;
      }
    Problem blocked = problem;  // in layouts of the library's own
    blocked.source.any = blocked.weights.any = true;
    const bool of_weight = problem.form == Form::weight_gradient;
    // For the gradient of a weight the library reads channels_last arrays in place as fast as arrays in its own layout, and
    // others up to twice as slowly.
    const bool in_place = !of_weight || (is_plain(problem.source, true) && is_plain(problem.weights, true));
    Algorithm best = choice(in_place ? problem : blocked, false);
    auto consider = [&](const Problem& other, bool plain) {
      if (rank(*best.offer, spatial) == 0) return;
      Algorithm c = choice(other, plain);
      if (rank(*c.offer, spatial) < rank(*best.offer, spatial)) best = std::move(c);
    };
    consider(problem, true);
    if (of_weight && in_place) consider(blocked, false);
    if (const auto batch = in_one_batch(problem)) consider(*batch, false);
    return best;
  };
  Algorithm best = chosen();
  if (make) best.offer = offer(best.problem, true);
  return best;
}

std::string title(const Problem& p, std::string_view algorithm, const std::string& name) {
  std::string text = name + " ";
  if (p.form == Form::matmul) {
    std::vector<int64_t> sizes = p.output.dims;
    sizes.insert(sizes.end() - 1, p.source.dims.back());
    text += library::by(sizes);
  } else {
    text += library::by(p.source.dims);
    if (p.weights.present()) text += " by " + library::by(p.weights.dims);
  }
  return text + " " + std::string(tenon::name(p.output.dtype)) + " " + std::string(algorithm);
}

}  // namespace tenon::onednn
