// See rules.h. This file has the rules of contractions, norms and attention.
#include <algorithm>

#include "src/ops/rules/attention.h"
#include "src/ops/rules/rule_help.h"

namespace tenon::shapes {
namespace {

// An attribute list of one amount per spatial axis. An empty list stands for `fallback` on every axis, if
// there is a fallback.
Result<Dims> amounts_per_axis(const Rule& r, std::string_view name, size_t axes, int64_t low,
                              std::optional<int64_t> fallback = {}) {
  Dims values = r.dims(name);
  if (values.empty() && fallback) values.assign(axes, *fallback);
  if (values.size() != axes)
    return r.refuse(std::string(name) + " " + r.print(r.dims(name)) + " needs one entry for each of " +
                    std::to_string(axes) + " spatial axes");
  TENON_TRY(r.amounts(values, low, name));
  return values;
}

// The same, of constants. They are sizes all the same, because DimTable's arithmetic detects overflow.
Result<Dims> per_axis(const Rule& r, std::string_view name, size_t axes, int64_t low,
                      std::optional<int64_t> fallback = {}) {
  TENON_TRY(r.ints(name).status());
  return amounts_per_axis(r, name, axes, low, fallback);
}

struct Spatial {
  size_t axes;  // number of spatial axes
  int first;    // the first spatial axis
  int channel;  // the channel axis
};

Result<Spatial> spatial(const Rule& r) {
  TENON_ASSIGN(const bool last, r.last("channels"));
  if (r.rank() < 3 || r.rank() > 5) return r.refuse("needs a batch, channels and 1 to 3 spatial axes");
  return Spatial{static_cast<size_t>(r.rank() - 2), last ? 1 : 2, last ? r.rank() - 1 : 1};
}

bool has_attr(const Node& node, std::string_view name) {
  const auto& specs = op(node.op).attr_specs;
  return std::any_of(specs.begin(), specs.end(), [&](const AttrSpec& spec) { return spec.name == name; });
}

Result<Dim> groups_of(const Rule& r) {
  const Dim groups = attr_as<Dim>(r.c.node, "groups");
  if (groups.is_const() && groups.value() < 1)
    return r.refuse("groups must be at least 1, not " + r.print(groups));
  return groups;
}

// How windows lie on an image, one entry per spatial axis.
struct Windows {
  Dims strides, low, high, dilations;
  Dim groups = 1;

  // The number of windows along spatial axis i of an image.
  Result<Dim> count(const Rule& r, DimTable& dims, Dim size, Dim kernel, size_t i) const {
    return r.positions(dims.add(size, dims.add(low[i], high[i])), kernel, strides[i], dilations[i]);
  }
};

// dilation: of a node without dilations. The padding of a convolution, which has groups, may be symbolic.
Result<Windows> windows(const Rule& r, const Node& node, size_t axes, std::optional<int64_t> dilation = {}) {
  Windows w;
  const bool convolves = has_attr(node, "groups");
  if (convolves) {
    TENON_ASSIGN(w.groups, groups_of(r));
  }
  const auto padding = convolves ? amounts_per_axis : per_axis;
  TENON_ASSIGN(w.strides, per_axis(r, "strides", axes, 1));
  TENON_ASSIGN(w.low, padding(r, "padding", axes, 0, {}));
  TENON_ASSIGN(w.high, padding(r, "padding_high", axes, 0, {}));
  if (!has_attr(node, "dilations")) {
    w.dilations.assign(axes, Dim(1));
  } else {
    TENON_ASSIGN(w.dilations, per_axis(r, "dilations", axes, 1, dilation));
  }
  return w;
}

// Channels fall into groups. text: begins a refusal.
Status fall_into_groups(const Rule& r, Dim channels, Dim groups, const std::string& text) {
  if (r.divides(groups, channels)) return {};
  const std::string why = text + r.print(channels) + " channels ";
  if (channels.is_const() && groups.is_const())
    return r.refuse(why + "do not fall into " + r.print(groups) + " groups");
  return r.decline(why + "are not known to fall into " + r.print(groups) + " groups");
}

// Parameters from operand `first` on have exactly this shape.
Status parameters(const Rule& r, int first, const Dims& shape) {
  for (int i = first; i < r.operands(); ++i) {
    const std::string text = "operand " + std::to_string(i) + " " + r.print(r.shape(i)) + " where " +
                             r.print(shape) + " is needed";
    if (r.shape(i).size() != shape.size()) return r.refuse(text);
    for (size_t d = 0; d < shape.size(); ++d) TENON_TRY(r.agree(r.shape(i)[d], shape[d], text));
  }
  return {};
}

}  // namespace

Result<Dims> matmul(InferContext& c) {
  const Rule r(c);
  const std::string text = "shapes " + r.print(r.shape(0)) + " and " + r.print(r.shape(1));
  if (r.rank(0) == 0 || r.rank(1) == 0) return r.refuse(text + ": a scalar operand");
  Dims a = r.shape(0), b = r.shape(1);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  TENON_TRY(r.agree(a.back(), b[b.size() - 2], text + ", inner sizes"));
  auto batch = broadcast_shapes(c, Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2),
                                static_cast<size_t>(!row) + static_cast<size_t>(!column));
  if (!batch.ok()) {
    const std::string why = text + ": batch axes " + batch.status().message();
    return batch.status().code() == Code::invalid ? r.refuse(why) : r.decline(why);
  }
  Dims out = std::move(*batch);
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  return out;
}

Result<Dims> grouped_matmul(InferContext& c) {
  const Rule r(c);
  const Dims &a = r.shape(0), &ends = r.shape(1), &b = r.shape(2);
  const std::string text = "shapes " + r.print(a) + ", " + r.print(ends) + " and " + r.print(b);
  if (a.size() != 2 || ends.size() != 1 || b.size() != 3)
    return r.refuse(text + ": needs a [M, K], ends [G] and b [G, K, N]");
  TENON_TRY(r.agree(ends[0], b[0], text + ", groups"));
  TENON_TRY(r.agree(a[1], b[1], text + ", inner sizes"));
  TENON_TRY(r.at_least(ends, 1, "groups"));
  return Dims{a[0], b[2]};
}

Result<Dims> grouped_outer(InferContext& c) {
  const Rule r(c);
  const Dims &a = r.shape(0), &ends = r.shape(1), &b = r.shape(2);
  const std::string text = "shapes " + r.print(a) + ", " + r.print(ends) + " and " + r.print(b);
  if (a.size() != 2 || ends.size() != 1 || b.size() != 2)
    return r.refuse(text + ": needs a [M, K], ends [G] and b [M, N]");
  TENON_TRY(r.agree(a[0], b[0], text + ", rows"));
  return Dims{ends[0], a[1], b[1]};
}

Result<Dims> linear(InferContext& c) {
  const Rule r(c);
  const std::string text = "shapes " + r.print(r.shape(0)) + " and " + r.print(r.shape(1));
  if (r.rank() < 1 || r.rank(1) != 2) return r.refuse(text + ": needs x [..., K] and w [N, K]");
  TENON_TRY(r.agree(r.shape(0).back(), r.shape(1)[1], text + ", inner sizes"));
  TENON_TRY(parameters(r, 2, {r.shape(1)[0]}));
  Dims out = r.shape(0);
  out.back() = r.shape(1)[0];
  return out;
}

Result<Dims> convolution(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const Spatial s, spatial(r));
  const Dims &x = r.shape(0), &w = r.shape(1);
  const std::string text = "shapes " + r.print(x) + " and " + r.print(w);
  if (w.size() != s.axes + 2) return r.refuse(text + ": the weight needs rank " + std::to_string(s.axes + 2));
  TENON_ASSIGN(const Windows at, windows(r, c.node, s.axes));
  TENON_ASSIGN(const auto extra, per_axis(r, "output_padding", s.axes, 0, 0));
  TENON_TRY(r.amounts(std::span(w).subspan(2), 1, "kernel"));
  const bool transposed = attr_as<bool>(c.node, "transposed");
  for (size_t i = 0; i < s.axes; ++i) {
    if (!transposed && extra[i] != Dim(0))
      return r.refuse("output_padding belongs to a transposed convolution");
    if (transposed && extra[i] >= std::max(at.strides[i], at.dilations[i]))
      return r.refuse("output_padding must be smaller than stride or dilation");
  }
  const Dim inner = transposed ? w[0] : c.dims.mul(w[1], at.groups);
  TENON_TRY(r.agree(x[s.channel], inner, text + " with groups=" + r.print(at.groups) + ", channels"));
  TENON_TRY(fall_into_groups(r, w[0], at.groups, text + ": "));
  const Dim channels = transposed ? c.dims.mul(w[1], at.groups) : w[0];
  TENON_TRY(parameters(r, 2, {channels}));

  Dims out = x;
  out[s.channel] = channels;
  for (size_t i = 0; i < s.axes; ++i) {
    Dim& size = out[s.first + i];
    const Dim kernel = w[2 + i];
    if (transposed) {
      // (size - 1) * stride - low - high + dilation * (kernel - 1) + output_padding + 1
      const Dim reach = c.dims.mul(at.dilations[i], c.dims.sub(kernel, 1));
      size = c.dims.add(
          c.dims.mul(c.dims.sub(size, 1), at.strides[i]),
          c.dims.sub(c.dims.add(reach, c.dims.add(extra[i], 1)), c.dims.add(at.low[i], at.high[i])));
      TENON_TRY(r.at_least(std::span(&size, 1), 0, "result size"));
    } else {
      TENON_ASSIGN(size, at.count(r, c.dims, size, kernel, i));
    }
  }
  return out;
}

Result<Dims> convolution_weight_gradient(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const Spatial s, spatial(r));
  const Dims &x = r.shape(0), &dy = r.shape(1), &kernel = r.dims("kernel");
  const std::string text = "shapes " + r.print(x) + " and " + r.print(dy);
  if (dy.size() != x.size()) return r.refuse(text + ": the operands need the same rank");
  if (kernel.size() != s.axes)
    return r.refuse("kernel " + r.print(kernel) + " needs one entry for each of " + std::to_string(s.axes) +
                    " spatial axes");
  TENON_TRY(r.amounts(kernel, 1, "kernel"));
  TENON_ASSIGN(const Windows at, windows(r, c.node, s.axes));
  TENON_TRY(r.agree(x[0], dy[0], text + ", batch"));
  for (size_t i = 0; i < s.axes; ++i) {
    TENON_ASSIGN(const Dim count, at.count(r, c.dims, x[s.first + i], kernel[i], i));
    TENON_TRY(r.agree(dy[s.first + i], count, text + ", positions of the window"));
  }
  for (Dim channels : {x[s.channel], dy[s.channel]})
    TENON_TRY(fall_into_groups(r, channels, at.groups, text + ": "));
  const auto share = c.dims.divide(x[s.channel], at.groups);
  if (!share) return r.decline(text + ": the channels of a group are not known");
  Dims out = {dy[s.channel], *share};
  out.insert(out.end(), kernel.begin(), kernel.end());
  return out;
}

Result<Dims> pool(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const Spatial s, spatial(r));
  TENON_ASSIGN(const auto kernel, per_axis(r, "kernel", s.axes, 1));
  TENON_ASSIGN(const Windows at, windows(r, c.node, s.axes, 1));
  Dims out = r.shape(0);
  for (size_t i = 0; i < s.axes; ++i) {
    Dim& size = out[s.first + i];
    TENON_ASSIGN(size, at.count(r, c.dims, size, kernel[i], i));
  }
  return out;
}

Result<Dims> adaptive_pool(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const Spatial s, spatial(r));
  TENON_ASSIGN(const auto output, amounts_per_axis(r, "output", s.axes, 1));
  Dims out = r.shape(0);
  for (size_t i = 0; i < s.axes; ++i) {
    Dim& size = out[s.first + i];
    if (size == Dim(0)) return r.refuse("no element to average");
    TENON_TRY(r.amounts(std::span(&size, 1), 0, "size"));
    size = output[i];
  }
  return out;
}

namespace {

// The shapes of q, k and v with heads first.
struct AttentionShapes {
  Dims q, k, v;
};

// Checks the operands of attention. count: how many stand in front of the optional ones.
Result<AttentionShapes> attention_shapes(InferContext& c, bool last, int count) {
  const Rule r(c);
  AttentionShapes shapes = {r.shape(0), r.shape(1), r.shape(2)};
  auto& [q, k, v] = shapes;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4) return r.refuse("q, k and v need rank 4");
  if (last)
    for (Dims* shape : {&q, &k, &v}) std::swap((*shape)[1], (*shape)[2]);
  TENON_TRY(r.agree(q[0], k[0], "batch of q and k"));
  TENON_TRY(r.agree(q[0], v[0], "batch of q and v"));
  TENON_TRY(r.agree(q[3], k[3], "head size of q and k"));
  TENON_TRY(r.agree(k[1], v[1], "heads of k and v"));
  TENON_TRY(r.agree(k[2], v[2], "length of k and v"));
  if (k[1] != q[1]) {
    const bool constant = q[1].is_const() && k[1].is_const();
    const std::string text =
        "heads of q, " + r.print(q[1]) + ", are no multiple of the heads of k, " + r.print(k[1]);
    if (constant && (k[1].value() == 0 || q[1].value() % k[1].value() != 0)) return r.refuse(text);
    if (!constant && !r.divides(k[1], q[1]))
      return r.decline("it cannot be shown that " + text + " is false");
  }
  const Dims scores = {q[0], q[1], q[2], k[2]};
  const auto [mask, kept] = attention_operands(c.node);
  const double dropout = attr_as<double>(c.node, "dropout");
  if (!(dropout >= 0 && dropout < 1))
    return r.refuse("dropout " + std::to_string(dropout) + " is outside [0,1)");
  if (dropout != 0 && kept < 0) return r.refuse("dropout needs the operand that says which weights are kept");
  if (r.operands() > count + (mask >= 0) + (kept >= 0))
    return r.refuse("without dropout, the mask is the last operand");
  if (kept >= 0) {
    if (r.rank(kept) != 4) return r.refuse("the weights that dropout keeps need rank 4");
    for (size_t i = 0; i < 4; ++i)
      TENON_TRY(r.agree(r.shape(kept)[i], scores[i],
                        "size " + std::to_string(i) + " of the weights that dropout keeps"));
  }
  if (mask >= 0) {
    // The claimed result's shape says nothing about the scores, so they get a claim of their own.
    Claim claim{scores};
    InferContext as_claimed{c.graph, c.node, c.dims, {}, &claim};
    auto wide = broadcast_shapes(c.claim ? as_claimed : c, scores, r.shape(mask));
    if (c.claim) c.claim->needed.insert(c.claim->needed.end(), claim.needed.begin(), claim.needed.end());
    const std::string text = "mask " + r.print(r.shape(mask)) + " against scores " + r.print(scores);
    if (!wide.ok() && wide.status().code() == Code::unsupported) return r.decline(text);
    if (!wide.ok() || *wide != scores) return r.refuse(text);
  }
  return shapes;
}

}  // namespace

Result<Dims> attention(InferContext& c) {
  TENON_ASSIGN(const bool last, Rule(c).last("heads"));
  TENON_ASSIGN(const auto shapes, attention_shapes(c, last, 3));
  const auto& [q, k, v] = shapes;
  return last ? Dims{q[0], q[2], q[1], v[3]} : Dims{q[0], q[1], q[2], v[3]};
}

Result<Dims> attention_gradient(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const auto shapes, attention_shapes(c, /*last=*/true, 4));
  const auto& [q, k, v] = shapes;
  const Dims& dy = r.shape(3);
  if (dy.size() != 4) return r.refuse("the gradient of the result needs rank 4");
  TENON_TRY(r.agree(dy[0], q[0], "batch of the result"));
  TENON_TRY(r.agree(dy[1], q[2], "length of the result"));
  TENON_TRY(r.agree(dy[2], q[1], "heads of the result"));
  TENON_TRY(r.agree(dy[3], v[3], "head size of the result"));
  Dim all = 0;
  for (const Dims* shape : {&q, &k, &v}) all = c.dims.add(all, c.dims.product(*shape));
  return Dims{all};
}

Result<Dims> norm_last(InferContext& c) {
  const Rule r(c);
  TENON_ASSIGN(const int64_t count, r.integer("axes_count"));
  if (count < 1 || count > r.rank())
    return r.refuse("axes_count " + std::to_string(count) + " is out of range for rank " +
                    std::to_string(r.rank()));
  const Dims& x = r.shape(0);
  TENON_TRY(parameters(r, 1, Dims(x.end() - count, x.end())));
  return x;
}

Result<Dims> norm_channels(InferContext& c) {
  const Rule r(c);
  if (r.rank() < 2) return r.refuse("needs a batch and channels");
  int axis = 1;
  if (has_attr(c.node, "axis")) {
    TENON_ASSIGN(axis, r.axis("axis"));
  }
  if (has_attr(c.node, "layout")) {
    TENON_ASSIGN(const bool last, r.last("channels"));
    if (last) axis = r.rank() - 1;
  }
  const Dim channels = r.shape(0)[axis];
  TENON_TRY(parameters(r, 1, {channels}));
  if (has_attr(c.node, "groups")) {
    TENON_ASSIGN(const Dim groups, groups_of(r));
    TENON_TRY(fall_into_groups(r, channels, groups, ""));
  }
  return r.shape(0);
}

Result<Dims> instance_norm(InferContext& c) {
  const Rule r(c);
  if (r.rank() < 3) return r.refuse("needs a batch, channels and at least one spatial axis");
  return norm_channels(c);
}

}  // namespace tenon::shapes
