// See onednn.h. A bid asks the library itself for an implementation of the node and its epilogue, with kProbe for the sizes that
// are symbols and kProbeOfWindow for those of windows. Reference implementations are refused.
#include "backends/onednn/onednn.h"

#include <algorithm>

#include "backends/library/epilogue.h"
#include "backends/onednn/few_channels.h"
#include "backends/onednn/library.h"
#include "backends/onednn/operands.h"
#include "backends/onednn/steps/call.h"
#include "backends/onednn/steps/of_groups.h"
#include "backends/onednn/steps/volumes.h"
#include "backends/onednn/steps/winograd.h"
#include "src/backend/few_rows.h"
#include "src/backend/tiny_batch.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/pixel_lanes.h"
#include "src/ops/rules/view.h"
#include "src/ops/rules/windows.h"

namespace tenon {
namespace {

using namespace onednn;
constexpr int64_t kProbe = 64, kProbeOfWindow = 3;
constexpr size_t kChain = 8;  // longest chain that is searched for a root in front of an activation

bool is_root(const Node& node) {
  return node.op == ops::matmul || node.op == ops::int_matmul || node.op == ops::linear ||
         node.op == ops::convolution || node.op == ops::convolution_weight_gradient ||
         node.op == ops::avg_pool || node.op == ops::adaptive_avg_pool;
}
bool is_activation(const Node& node) {
  return op(node.op).kind == Kind::composite && activation(node).has_value();
}

bool continues(const Node& node) { return op(node.op).kind == Kind::map || is_activation(node); }

// The sizes of a window along the spatial axes of a convolution or of the gradient of its weights; else nothing.
std::span<const Dim> window_of(const Graph& graph, const Node& node) {
  if (node.op == ops::convolution) return std::span(graph.type(node.inputs[1]).shape).subspan(2);
  if (node.op == ops::convolution_weight_gradient) return attr_as<Dims>(node, "kernel");
  return {};
}

Sizes probe_sizes(const Graph& graph, const Node& root) {
  Sizes sizes{graph.dims.get(), {}, default_parallel().threads()};
  const std::span<const Dim> window = window_of(graph, root);
  for (int i = 0; i < graph.dims->symbol_count(); ++i) {
    const Dim symbol = graph.dims->symbol_at(i);
    auto [low, high] = graph.dims->range(symbol);
    sizes.symbols.push_back(
        std::clamp(std::ranges::count(window, symbol) > 0 ? kProbeOfWindow : kProbe, low, high));
  }
  return sizes;
}

bool has_value(const Graph& graph, std::span<const ValueId> members, const Sizes& sizes) {
  const auto known = [&](ValueId v) {
    return std::ranges::all_of(graph.type(v).shape,
                               [&](Dim d) { return d.is_const() || graph.dims->eval(d, sizes.symbols); });
  };
  return std::ranges::all_of(
      members, [&](ValueId m) { return known(m) && std::ranges::all_of(graph.node(m).inputs, known); });
}

// Whether the node is a batch of products of one row or one column each. Every element of the matrices is used once, so loops read
// them as fast as the library does. Loops also fuse with the nodes around them and need no primitive for each new size.
bool is_batch_of_vectors(const Graph& graph, const Node& node) {
  if (node.op != ops::matmul) return false;
  const Dims &a = graph.type(node.inputs[0]).shape, &b = graph.type(node.inputs[1]).shape;
  if (a.size() < 3 || a.size() != b.size()) return false;
  const size_t batch = a.size() - 2;
  if (a[batch] != Dim(1) && b[batch + 1] != Dim(1)) return false;
  return std::equal(a.begin(), a.begin() + static_cast<long>(batch), b.begin()) &&
         std::any_of(a.begin(), a.begin() + static_cast<long>(batch), [](Dim d) { return d != Dim(1); });
}

// Whether the node is a product with one vector, row or column. Again every element of the matrix is used once, and the library's
// code for this case is several times slower than a loop that sums products.
bool is_by_vector(const Graph& graph, const Node& node) {
  if (node.op != ops::matmul && node.op != ops::linear) return false;
  const Dims &a = graph.type(node.inputs[0]).shape, &b = graph.type(node.inputs[1]).shape;
  if (node.op == ops::linear) return b.size() == 2 && b[0] == Dim(1);
  if (b.size() == 1 || b.back() == Dim(1)) return true;
  return b.size() == 2 && (a.size() == 1 || (a.size() == 2 && a[0] == Dim(1)));
}

// Whether the node is a depthwise convolution along one axis, or the gradient of its weight, that loops compute faster: they read the
// signal in place, while the library wants it transposed, and its code for one axis is slow. With dense channels, they are faster for
// few taps, and the step of steps/depthwise.h is faster for the gradient.
bool is_depthwise_filter(const Graph& graph, const Node& node) {
  constexpr int64_t kMostTaps = 64;
  const bool of_weight = node.op == ops::convolution_weight_gradient;
  if (node.op != ops::convolution && !of_weight) return false;
  const Dims &x = graph.type(node.inputs[0]).shape, &other = graph.type(node.inputs[1]).shape;
  const size_t axis = attr_as<std::string>(node, "layout") == "channels_last" ? x.size() - 1 : 1;
  const Dim groups = attr_as<Dim>(node, "groups");
  if (x.size() != 3 || x[axis] != groups) return false;
  if (of_weight)
    return other[axis] == groups &&
           !(is_dense_along(graph, node.inputs[0], axis) && is_dense_along(graph, node.inputs[1], axis));
  if (other[0] != groups || other[1] != Dim(1)) return false;
  return !other[2].is_const() || other[2].value() <= kMostTaps ||
         !is_dense_along(graph, node.inputs[0], axis);
}

bool has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

// The library's name of the best instruction set that it uses; ONEDNN_MAX_CPU_ISA forces a lower one.
std::string best_isa() {
  constexpr std::pair<dnnl_cpu_isa_t, const char*> kNames[] = {
      {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
      {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16"},
      {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
      {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
      {dnnl_cpu_isa_avx512_core, "avx512_core"},
      {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
      {dnnl_cpu_isa_avx2, "avx2"},
      {dnnl_cpu_isa_avx, "avx"},
      {dnnl_cpu_isa_sse41, "sse41"},
  };
  const dnnl_cpu_isa_t best = dnnl_get_effective_cpu_isa();
  for (const auto& [isa, name] : kNames)
    if (isa == best) return name;
  return "instruction set " + std::to_string(best);
}

// Without VNNI the library adds pairs of products of 8-bit integers in 16 bits, and these sums saturate.
bool sums_of_integers_saturate() {
  return !has(dnnl_cpu_isa_avx512_core_vnni) && !has(dnnl_cpu_isa_avx2_vnni);
}

// Whether the library's sums of products are exact. It rounds sums of i8 by i8 to f32, which holds integers up to 2^24, but keeps
// sums of u8 by i8 as integers.
bool are_sums_exact(const Graph& graph, const Node& node) {
  constexpr int64_t kMostProducts = (1 << 24) / (128 * 128);
  const TensorType& a = graph.type(node.inputs[0]);
  return a.dtype == DType::u8 || (a.shape.back().is_const() && a.shape.back().value() <= kMostProducts);
}

// Rewrites the product a b of i8 as (a + 128) b - 128 s, where a + 128 is u8 and s are the sums of the columns of b.
ValueId by_unsigned(Builder& b, const Node& node) {
  const ValueId x = node.inputs[0], y = node.inputs[1];
  const bool row = b.type(x).rank() == 1, column = b.type(y).rank() == 1;
  const ValueId bits = b(ops::bitcast, {x}, {{"dtype", DType::u8}});
  const ValueId above = b(ops::bit_xor, {bits, b.scalar_int(128, DType::u8)});
  const ValueId sums = b(ops::sum, {b.cast(y, DType::i32)},
                         {{"axes", Dims{Dim(column ? -1 : -2)}}, {"keepdims", !row && !column}});
  const ValueId excess = b(ops::mul, {sums, b.scalar_int(128, DType::i32)});
  return b(ops::sub, {b(ops::int_matmul, {above, y}), excess});
}

// Whether the node is a convolution by 1x1 windows that skips pixels, with weights that change. The library reorders such weights in each
// call, which may take longer than the convolution.
bool skips_pixels(const Graph& graph, const Node& node) {
  return node.op == ops::convolution && !attr_as<bool>(node, "transposed") &&
         has_windows_of_one(graph, node) && !all_are(attr_as<Dims>(node, "strides"), 1) &&
         graph.node(node.inputs[1]).op != ops::constant;
}

// Whether the node averages windows of images whose channels come first. Loops put neighbouring windows in lanes, and the library's code
// for few channels leaves lanes empty.
bool averages_planes(const Node& node) {
  return (node.op == ops::avg_pool || node.op == ops::adaptive_avg_pool) &&
         attr_as<std::string>(node, "layout") == "channels_first";
}

// Rewrites such a convolution as one of all pixels that are left, which is a product and reads its weights in place.
ValueId of_pixels_left(Builder& b, Node node) {
  const bool last = attr_as<std::string>(node, "layout") == "channels_last";
  Dims strides = attr_as<Dims>(node, "strides");
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == Dim(1)) continue;
    const int64_t axis = static_cast<int64_t>(i) + (last ? 1 : 2);
    node.inputs[0] = b(ops::slice, {node.inputs[0]},
                       {{"axis", Dim(axis)},
                        {"end", b.shape(node.inputs[0])[static_cast<size_t>(axis)]},
                        {"step", strides[i]}});
    strides[i] = Dim(1);
  }
  set_attr(node, "strides", strides);
  return b.add(std::move(node));
}

// Whether the spec is a convolution of f32 with a function behind it that takes the library two to four times as long as it takes loops,
// which read the result again. Behind a product of matrices the function is a small part of the time.
bool has_slow_function(const Spec& spec) {
  using dnnl::algorithm;
  constexpr algorithm kSlow[] = {algorithm::eltwise_swish, algorithm::eltwise_gelu_erf,
                                 algorithm::eltwise_gelu_tanh, algorithm::eltwise_mish,
                                 algorithm::eltwise_tanh};
  const bool convolution = spec.form == Form::convolution || spec.form == Form::deconvolution;
  return convolution && spec.output.dtype == DType::f32 && !may_use_winograd(spec) &&
         std::ranges::any_of(spec.post_ops,
                             [&](const PostOp& p) { return std::ranges::count(kSlow, p.algorithm) > 0; });
}

// Whether Winograd's step computes the convolution, but not its epilogue. The library takes about twice as long for both, and loops
// compute the epilogue in a small part of this time.
bool loses_winograd(const Graph& graph, std::span<const ValueId> members, const Spec& spec) {
  if (spec.post_ops.empty() || !may_use_winograd(spec)) return false;
  const Sizes sizes = probe_sizes(graph, graph.node(members[0]));
  if (!has_value(graph, members, sizes)) return false;
  Problem problem = at_sizes(spec, sizes);
  if (problem.empty) return false;
  if (wants_dense_channels(graph, graph.node(members[0])))  // reads() has it stored in this order
    problem.source.strides = plain_strides(problem.source.dims, true);
  if (windows_of_three(spec, problem)) return false;
  problem.post_ops.clear();
  return windows_of_three(spec, problem).has_value();
}

// The bid for a group's problem at the sizes that are probed, according to the library's offer.
Bid offered(const Graph& graph, std::span<const ValueId> members, const std::string& name,
            FunctionRef<Problem(const Sizes&)> problem) {
  const Sizes sizes = probe_sizes(graph, graph.node(members[0]));
  if (!has_value(graph, members, sizes)) return {false, 0, "its sizes cannot be probed"};
  const Problem p = problem(sizes);
  if (p.empty) return {true, 0.5, "nothing to compute"};
  const Algorithm choice = choose(p, false);
  const std::string text = title(p, choice.offer->text(), name);
  if (!choice.offer->why.empty()) return {false, 0, text};
  if (choice.offer->reference) return {false, 0, text + " is the library's reference code"};
  if (has_wrong_epilogue(p))
    return {false, 0, "with strides, the library's bias and epilogue of a transposed convolution are wrong"};
  const bool by_element = (p.form == Form::deconvolution && choice.offer->name.starts_with("conv:")) ||
                          (p.form == Form::convolution && choice.offer->gemm);
  if (by_element && !p.post_ops.empty())
    return {false, 0, "the library computes the epilogue of this convolution element by element"};
  return {true, 0.5, text};
}

// Why loops take less time than the library's code for the node; empty if they do not.
std::string suits_loops(const Graph& graph, const Node& node) {
  if (node.op == ops::int_matmul && sums_of_integers_saturate())
    return "without VNNI the library's sums of products of integers are not exact";
  if (is_by_vector(graph, node)) return "a product with one vector: loops read the matrix as fast";
  if (is_of_quantized_matrix(graph, node))
    return "a product of one row by a quantized matrix: loops compute its numbers on the way";
  if (is_batch_of_vectors(graph, node))
    return "a batch of products of one row or column: loops read the matrices as fast";
  if (is_depthwise_filter(graph, node))
    return "a depthwise convolution along one axis: loops read the signal as it lies";
  if (averages_planes(node))
    return "an average of windows of planes: loops put neighbouring windows in lanes";
  if (suits_pixel_lanes(graph, node))
    return "a convolution of few channels: loops put neighbouring pixels in lanes";
  if (is_product_to_few(graph, node)) return "a product to few columns: loops add up rows as they lie";
  if (is_pointwise_to_few(graph, node))
    return "a convolution by 1x1 windows to few channels: loops read the image as fast";
  return {};
}

// Whether the library would compute a wrong result with the bias of this node, of operands of this dtype: see has_wrong_epilogue().
bool has_wrong_bias(const Node& node, DType dtype) {
  return node.op == ops::convolution && node.inputs.size() > 2 && attr_as<bool>(node, "transposed") &&
         dtype == DType::f32 && !all_are(attr_as<Dims>(node, "strides"), 1);
}

// The library's bid for a node and its epilogue. in_f32: for the node as one of f32.
Bid ask_library(const Graph& graph, std::span<const ValueId> members, bool in_f32) {
  auto spec = make_spec(graph, members, [&](ValueId v) { return draft_strides(graph, v); });
  if (!spec.ok()) return {false, 0, spec.status().message()};
  if (in_f32) {
    spec->output.dtype = DType::f32;
    for (Operand& o : spec->operands) o.dtype = DType::f32;
  }
  if (members.size() == 1 &&
      has_wrong_bias(graph.node(members[0]), spec->operands[0].dtype)) {  // legalize() takes it out
    spec->post_ops.clear();
    spec->operands.resize(2);
  }
  if (has_slow_function(*spec)) return {false, 0, "loops compute this function behind a convolution faster"};
  if (members.size() > 1 && is_depthwise_of_volumes(graph, graph.node(members[0])))
    return {false, 0, "loops compute the epilogue of a depthwise convolution of volumes"};
  if (loses_winograd(graph, members, *spec)) return {false, 0, "the convolution would lose Winograd's step"};
  return offered(graph, members, spec->name, [&](const Sizes& sizes) { return at_sizes(*spec, sizes); });
}

Bid ask(const Graph& graph, std::span<const ValueId> members) {
  if (std::string why = suits_loops(graph, graph.node(members[0])); !why.empty())
    return {false, 0, std::move(why)};
  return ask_library(graph, members, false);
}

Bid ask_of_groups(const Graph& graph, ValueId v) {
  auto product = make_of_groups(graph, v, [&](ValueId x) { return draft_strides(graph, x); });
  if (!product.ok()) return {false, 0, product.status().message()};
  return offered(graph, {&v, 1}, (*product)->describe(),
                 [&](const Sizes& sizes) { return (*product)->of_rows(kProbe, sizes); });
}

bool is_convolution_of_16_bits(const Graph& graph, const Node& node) {
  if (node.op != ops::convolution && node.op != ops::convolution_weight_gradient) return false;
  const DType dtype = graph.type(node.inputs[0]).dtype;
  return dtype == DType::f16 || dtype == DType::bf16;
}

// The library's bid for a convolution of 16-bit floats as one of f32; no for other nodes.
Bid ask_in_f32(const Graph& graph, ValueId v) {
  const Node& node = graph.node(v);
  if (!is_convolution_of_16_bits(graph, node) || !suits_loops(graph, node).empty()) return {};
  return ask_library(graph, {&v, 1}, true);
}

// Whether the library has faster code for the node, a convolution of 16-bit floats, in f32. Many CPUs have no instructions for these floats.
// Elsewhere depthwise convolutions with three spatial axes, or with transposed strides, as the gradient of a strided one has, take 1/5 to
// 1/100 of the time in f32, and others of these 1/3 to 1/10 where the library has none of its newer code for bf16. Products of
// unrolled windows (gemm) take 0.15 to 0.95 of the time.
bool wants_f32(const Graph& graph, ValueId v) {
  const Node& node = graph.node(v);
  if (!is_convolution_of_16_bits(graph, node)) return false;
  const TensorType& x = graph.type(node.inputs[0]);
  const Bid answer = ask(graph, {&v, 1});
  if (!answer.yes) return ask_in_f32(graph, v).yes;
  if (x.dtype != DType::bf16 || node.op != ops::convolution) return false;
  if (answer.why.find("gemm") != std::string::npos) return true;
  const bool skips = attr_as<bool>(node, "transposed") && !all_are(attr_as<Dims>(node, "strides"), 1);
  if (!skips && x.rank() != 5) return false;
  const Dim groups = attr_as<Dim>(node, "groups");
  if (groups != Dim(1) && groups == graph.type(node.inputs[1]).shape[0]) return true;
  return answer.why.find("jit_bf16") != std::string::npos;
}

// The bias of a convolution, with an axis for each of the result's.
ValueId along_channels(Builder& b, const Node& node) {
  Dims shape(static_cast<size_t>(node.type.rank()), Dim(1));
  const bool last = attr_as<std::string>(node, "layout") == "channels_last";
  shape[last ? shape.size() - 1 : 1] = b.shape(node.inputs[2])[0];
  return b.reshape(node.inputs[2], shape);
}

// If the last of these nodes casts a 16-bit product to f32, appends its readers up to the cast back, so that the library does not store
// the product in f32, which takes twice the memory. Returns false if there is no cast back, or if other nodes read a value before it.
bool until_cast_back(const Graph& graph, const Uses& uses, std::vector<ValueId>& chain) {
  const DType stored = graph.type(chain.front()).dtype;
  if (stored == DType::i32) return true;
  while (graph.type(chain.back()).dtype != stored) {
    const std::span<const ValueId> readers = uses.users(chain.back());
    if (readers.size() != 1 || uses.is_output(chain.back()) || chain.size() > kChain) return false;
    chain.push_back(readers[0]);
  }
  return true;
}

class OneDnnBackend final : public Backend {
 public:
  std::string_view name() const override { return "onednn"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const Node& node = graph.node(v);
    if (is_root(node)) {
      Bid answer = ask(graph, std::span(&v, 1));
      if (answer.yes) return answer;
      Bid wide = ask_in_f32(graph, v);
      return wide.yes ? wide : answer;
    }
    if (is_of_groups(node)) return ask_of_groups(graph, v);
    if (!is_activation(node)) return {false, 0, std::string(op(node.op).name) + " is no call of the library"};
    Bid answer{false, 0, "it does not follow a library call whose result only it reads"};
    library::each_chain(graph, v, {is_root, continues, kChain}, [&](std::span<const ValueId> members) {
      const Node& root = graph.node(members[0]);
      answer = not_of_few_rows(graph, root).empty() || not_of_tiny_batch(graph, root).empty()
                   ? Bid{false, 0, "it follows a product that the back end products computes"}
                   : ask(graph, members);
      return answer.yes;
    });
    return answer;
  }

  ValueId legalize(Builder& b, Node node) const override {
    if (node.op == ops::int_matmul && !are_sums_exact(b.graph(), node)) return by_unsigned(b, node);
    if (skips_pixels(b.graph(), node)) return of_pixels_left(b, std::move(node));
    if (is_transposed_to_few(b.graph(), node)) return by_product(b, node);
    if (has_wrong_bias(node, b.type(node.inputs[0]).dtype)) {
      const ValueId bias = along_channels(b, node);
      node.inputs.pop_back();
      node.name.clear();
      return b(ops::add, {legalize(b, std::move(node)), bias});
    }
    node.name.clear();  // the pass gives the name to the node that this function returns
    const ValueId v = b.add(node);
    if (!wants_f32(b.graph(), v)) return v;
    // The library adds products of bf16 in f32 too, so the result is rounded once either way.
    for (ValueId& i : node.inputs) i = b.cast(i, DType::f32);
    node.type.dtype = DType::f32;
    return b.cast(legalize(b, std::move(node)), b.type(v).dtype);
  }
  bool reads(const Graph& graph, ValueId v, ValueId operand) const override {
    return is_read_in_place(graph, v, operand);
  }

  Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
            ValueId v) const override {
    std::vector<ValueId> all(members.begin(), members.end());
    if (!is_root(graph.node(all.front()))) return {false, 0, "a lone activation takes no epilogue"};
    all.push_back(v);
    if (!until_cast_back(graph, uses, all)) return {false, 0, "it changes the dtype"};
    return ask(graph, all);
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    std::vector<std::unique_ptr<Executable>> built;
    const auto store = std::make_shared<library::PackedStore>(context.allocator);
    const StridesOf strides_of = [&](ValueId v) { return context.strides_of(v); };
    for (const std::vector<ValueId>& members : groups) {
      if (is_of_groups(g.node(members[0]))) {
        TENON_ASSIGN(auto product, make_of_groups(g, members[0], strides_of));
        built.push_back(std::move(product));
        continue;
      }
      auto call = std::make_unique<Call>();
      call->store = store;
      auto spec = make_spec(g, members, strides_of);
      if (!spec.ok()) return spec.status().at("group of " + g.value_name(members.back()));
      call->spec = std::move(*spec);
      std::vector<Operand*> operands;
      for (Operand& o : call->spec.operands) operands.push_back(&o);
      call->bind(g, members, operands, call->spec.output);
      for (ValueId v : call->inputs)
        if (g.node(v).op == ops::constant)
          store->expect(
              static_cast<int64_t>(attr_as<std::shared_ptr<ConstantData>>(g.node(v), "data")->size));
      call->name = call->spec.name + post_op_names(call->spec, false);
      if (redone(call->spec)) {
        call->exact = std::make_unique<Call>();
        call->exact->store = store;
        call->exact->spec = without_redone(call->spec);
      }
      built.push_back(std::move(call));
    }
    return built;
  }

  std::string describe() const override {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch) + ", " + best_isa();
  }
};

}  // namespace

Backend& onednn_backend() { return immortal<OneDnnBackend>(); }

}  // namespace tenon
