#include "src/mxnet/translate/training.h"

#include <algorithm>
#include <array>

namespace tenon::mxnet {
namespace {

// Whether a list of names, separated by spaces, holds a name.
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

struct Refusal {
  std::string_view ops, attr, value;  // attr empty: whatever the attributes
  const char* why;
};
constexpr Refusal kRefusals[] = {
    {"BlockGrad stop_gradient", "", "", "it stops gradients"},
    {"make_loss MakeLoss", "", "", "its gradient is a loss's and not that of its output"},
    {"_maximum _Maximum _minimum _Minimum broadcast_maximum broadcast_minimum _npi_maximum _npi_minimum "
     "_maximum_scalar _MaximumScalar _minimum_scalar _MinimumScalar _npi_maximum_scalar _npi_minimum_scalar",
     "", "", "of equal operands, MXNet's gradient is that of the first one, Tenon's one half of each"},
    {"max max_axis min min_axis _np_max _np_min", "", "",
     "of equal elements, each has the whole gradient in MXNet, and a share in Tenon"},
    {"Pooling_v1", "pool_type", "max", "of equal elements, each has the whole gradient in MXNet"},
    {"LeakyReLU _npx_leaky_relu", "act_type", "selu", "MXNet's gradient is not the derivative of its output"},
    {"_mod _Mod broadcast_mod _npi_mod _mod_scalar _ModScalar _rmod_scalar _RModScalar _npi_mod_scalar "
     "_npi_rmod_scalar",
     "", "", "of a divisor of 0, MXNet's gradient is infinite, and Tenon's 0"},
    {"cbrt rcbrt", "", "", "at 0, Tenon has no gradient"},
    {"gamma _npx_gamma _npi_cbrt _npi_copysign _npi_copysign_scalar _npi_rcopysign_scalar _npi_ldexp "
     "_npi_rldexp_scalar _npi_rarctan2_scalar _npi_where_lscalar _npi_where_rscalar _npi_pad _npi_rot90 "
     "_npi_average _np_atleast_1d _np_atleast_2d _np_atleast_3d _random_pdf_dirichlet _random_pdf_gamma "
     "_random_pdf_generalized_negative_binomial _random_pdf_negative_binomial _random_pdf_poisson "
     "_slice_assign _slice_assign_scalar _npi_slice_assign _npi_slice_assign_scalar all_finite "
     "multi_all_finite multi_sum_sq softmax_cross_entropy _contrib_SparseEmbedding _contrib_allclose "
     "_contrib_box_decode _contrib_box_iou _contrib_BilinearResize2D _contrib_index_array _image_crop "
     "_npx__image_crop _image_flip_left_right _image_flip_top_bottom _image_to_tensor "
     "_npx__image_to_tensor _npi_isposinf _npi_isneginf",
     "", "", "MXNet has no gradient, or one that is not the derivative of its output"},
    {"_npi_var _npi_std", "", "", "MXNet's gradient is 0, which is not the derivative of its output"},
    {"BatchNorm_v1 _contrib_SyncBatchNorm _contrib_BatchNormWithReLU", "", "",
     "of batch normalization, only BatchNorm trains"},
    {"Embedding _npx_embedding", "sparse_grad", "True", "its gradient is sparse"},
    {"Embedding _npx_embedding", "sparse_grad", "1", "its gradient is sparse"},
};

// Operators whose gradient is 0, by all operands or by one.
struct Constant {
  std::string_view ops;
  int operand;  // -1: all
};
constexpr Constant kConstants[] = {
    {"sign _npi_sign floor _npi_floor ceil _npi_ceil trunc fix _npi_trunc _npi_fix round rint _npi_rint "
     "logical_not _npi_logical_not zeros_like ones_like _npi_isnan _npi_isinf _npi_isfinite _npi_full_like "
     "_equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or _logical_xor "
     "broadcast_equal broadcast_not_equal broadcast_greater broadcast_greater_equal broadcast_lesser "
     "broadcast_lesser_equal broadcast_logical_and broadcast_logical_or broadcast_logical_xor "
     "_npi_equal _npi_not_equal _npi_greater _npi_greater_equal _npi_less _npi_less_equal "
     "_equal_scalar _not_equal_scalar _greater_scalar _greater_equal_scalar _lesser_scalar "
     "_lesser_equal_scalar _logical_and_scalar _logical_or_scalar _logical_xor_scalar "
     "_npi_equal_scalar _npi_not_equal_scalar _npi_greater_scalar _npi_greater_equal_scalar "
     "_npi_less_scalar _npi_less_equal_scalar "
     "argmax _npi_argmax argmin _npi_argmin argmax_channel argsort _npi_argsort one_hot _npx_one_hot "
     "shape_array _npx_shape_array size_array _contrib_arange_like _npx_arange_like _np_any _np_all",
     -1},
    {"Embedding _npx_embedding where _npi_where", 0},
    {"take _npi_take pick choose_element_0index _npx_pick batch_take gather_nd _npi_gather_nd "
     "_npx_gather_nd SequenceMask _npx_sequence_mask SequenceLast SequenceReverse softmax _npx_softmax "
     "softmin log_softmax _npx_log_softmax reshape_like _npx_reshape_like broadcast_like "
     "_npx_broadcast_like slice_like Crop",
     1},
};

bool is_constant_in(const SymbolNode& node, size_t operand) {
  return std::any_of(std::begin(kConstants), std::end(kConstants), [&](const Constant& c) {
    return (c.operand < 0 || static_cast<size_t>(c.operand) == operand) && lists(c.ops, node.op);
  });
}

}  // namespace

Status check_gradient(const SymbolNode& node, const Attrs& attrs) {
  for (const Refusal& r : kRefusals) {
    const std::string* value = r.attr.empty() ? nullptr : node.attr(r.attr);
    std::string_view given = r.attr == "pool_type" ? "max" : "";
    if (value) given = *value;
    if (lists(r.ops, node.op) && (r.attr.empty() || given == r.value)) return unsupported(r.why);
  }
  if (lists("Pooling _npx_pooling", node.op) && attrs.text("pool_type") == "max" && attrs.flag("global_pool"))
    return unsupported(
        "of equal elements, MXNet's gradient is that of the first one, Tenon's a share of each");
  return {};
}

Status check_gradient_dtypes(const SymbolNode& node, const DTypeOf& operand, size_t outputs,
                             const DTypeOf& output) {
  const auto whole = [](std::optional<DType> dtype) { return dtype && !is_float(*dtype); };
  bool constant = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (is_constant_in(node, i)) continue;
    constant = false;
    if (whole(operand(i)))
      return unsupported("it computes with integers, of which MXNet has gradients and Tenon none");
  }
  for (size_t i = 0; i < outputs && !constant; ++i)
    if (whole(output(i)))
      return unsupported("it makes integers, of which MXNet has gradients and Tenon none");
  return {};
}

}  // namespace tenon::mxnet
