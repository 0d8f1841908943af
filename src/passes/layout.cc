// See passes.h. One forward sweep: a convolution of channels_first data reads transpose(x, to last) and is
// followed by transpose(y, to first); the gradient of a weight reads two such transposes. A pooling, or a convolution of few channels
// (pixel_lanes.h), does the same if x is such a transpose to first, and stays as it is otherwise. Transposes that meet an op on their
// way to the outputs move past it:
//   f(T x, T y, z) = T f(x, y, T' z) for elementwise f; z is broadcast, or a tensor that gets the inverse view
//   the axes of reductions, concatenations, paddings, slices, flips, expansions, windows, gathers, batch and group norms are renumbered
//   a reshape that splits axes, merges neighbours in x, or adds or removes axes of size 1 does so before T
// An input whose channels are innermost in memory counts as such a T of an image in this order, so what is computed from it alone is stored
// in the same order, also in graphs without convolutions. A transpose that meets its inverse disappears (simplify).
// If all convolutions of a graph are pointwise and have long planes, each that reads no such T is the product of a matrix and the planes of
// each image instead: no image is transposed.
// The cast of a transposed factor of a matrix product becomes the transpose of a cast.
// Tested by tests/golden/passes/layout_*.tn.
#include <algorithm>

#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/pixel_lanes.h"
#include "src/ops/rules/windows.h"
#include "src/passes/elementwise.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

using Perm = std::vector<int64_t>;

Perm to_last(int64_t rank) {  // N C s.. -> N s.. C
  Perm p{0};
  for (int64_t i = 2; i < rank; ++i) p.push_back(i);
  p.push_back(1);
  return p;
}
Perm inverse(const Perm& p) {
  Perm q(p.size());
  for (size_t i = 0; i < p.size(); ++i) q[p[i]] = static_cast<int64_t>(i);
  return q;
}

// The same, with more axes behind it that stay where they are.
Perm longer(Perm p, size_t more) {
  for (size_t i = 0; i < more; ++i) p.push_back(static_cast<int64_t>(p.size()));
  return p;
}

Dim pixels(const Graph& graph, ValueId image) {
  return graph.dims->product(std::span(graph.type(image).shape).subspan(2));
}

// Whether the node is a convolution, or its gradient by the weight, that multiplies each pixel by one matrix.
bool is_pointwise(const Graph& graph, const Node& node) {
  return has_windows_of_one(graph, node) && all_are(attr_as<Dims>(node, "strides"), 1) &&
         attr_as<std::string>(node, "layout") == "channels_first";
}

// Whether it takes less time as a product of matrices and the planes of each image. A product of short planes is slow. The gradient by the
// weight stores a matrix for each image and sums them; these are no larger than the images if a matrix has no more rows than a plane pixels.
bool pays_as_product(const Graph& graph, const Node& node) {
  constexpr int64_t kShort = 256;
  const Dim p = pixels(graph, node.inputs[0]);
  if (node.op == ops::convolution) return !p.is_const() || p.value() >= kShort;
  const Dim c = graph.type(node.inputs[0]).shape[1], o = graph.type(node.inputs[1]).shape[1];
  return p.is_const() && p.value() >= kShort && c.is_const() && o.is_const() &&
         std::min(c.value(), o.value()) <= p.value();
}

class LayoutPass {
 public:
  explicit LayoutPass(const Graph& graph) : source_(graph), uses_(graph) {}

  Graph run() {
    const auto visit = [&](Builder& b, Node&& node, ValueId old) {
      b_ = &b;
      if (is_factor(old)) return cast_before_transpose(std::move(node));
      if (has_images(node)) return channels_last(std::move(node));
      if (auto sunk = sink(node)) return *sunk;
      return b.add(std::move(node));
    };
    const auto start = [&](Builder& b, std::vector<ValueId>& map) {
      b_ = &b;
      transpose_inputs(map);
    };
    as_products_ = std::ranges::all_of(source_.nodes, [&](const Node& n) {
      return !has_images(n) || (is_pointwise(source_, n) && pays_as_product(source_, n));
    });
    return rewrite(source_, visit, start);
  }

 private:
  static bool has_images(const Node& node) {
    return op(node.op).kind == Kind::contract && node.op != ops::matmul;
  }

  // Whether the node casts factors of matrix products, and nothing else reads it.
  bool is_factor(ValueId v) const {
    const auto is_product = [&](ValueId u) {
      return source_.node(u).op == ops::matmul || source_.node(u).op == ops::linear;
    };
    const std::span<const ValueId> users = uses_.users(v);
    return source_.node(v).op == ops::cast && !uses_.is_output(v) && !users.empty() &&
           std::ranges::all_of(users, is_product);
  }
  // A product reads a transposed factor in place, so what a cast stores keeps the order of its operand.
  ValueId cast_before_transpose(Node&& node) {
    const Node before = b_->graph().node(node.inputs[0]);
    if (before.op != ops::transpose) return b_->add(std::move(node));
    node.inputs[0] = before.inputs[0];
    node.name.clear();
    return make_transpose(b_->add(std::move(node)), attr_ints(before, "perm"));
  }

  static bool is_pooling(const Node& node) {
    return node.op == ops::max_pool || node.op == ops::avg_pool || node.op == ops::adaptive_avg_pool;
  }

  // Replaces inputs with innermost channels by transposes of images in this order.
  void transpose_inputs(std::vector<ValueId>& map) {
    for (const InputBinding& input : source_.inputs) {
      const Dims& shape = source_.type(input.value).shape;
      const int64_t rank = static_cast<int64_t>(shape.size());
      if (rank < 3 || !input.strides) continue;
      const Perm perm = to_last(rank);
      Dims moved, strides;
      for (const int64_t axis : perm) {
        moved.push_back(shape[axis]);
        strides.push_back((*input.strides)[axis]);
      }
      if (strides != dense_strides(*source_.dims, moved)) continue;
      const ValueId back = make_transpose(make_transpose(map[input.value], perm), inverse(perm));
      mark(back);
      map[input.value] = back;
    }
  }

  ValueId transpose(ValueId x, const Perm& perm) {
    const Node& n = b_->graph().node(x);
    if (n.op == ops::transpose) {  // compose now, so that pairs cancel on the way
      Perm inner = attr_ints(n, "perm"), both;
      for (int64_t p : perm) both.push_back(inner[p]);
      const ValueId base = n.inputs[0];
      if (std::is_sorted(both.begin(), both.end())) return base;
      return make_transpose(base, both);
    }
    return std::is_sorted(perm.begin(), perm.end()) ? x : make_transpose(x, perm);
  }
  ValueId make_transpose(ValueId x, const Perm& perm) {
    Dims p;
    for (int64_t a : perm) p.push_back(Dim(a));
    const ValueId v = (*b_)(ops::transpose, {x}, {{"perm", p}});
    return v;
  }

  ValueId channels_last(Node&& node) {
    const bool makes_weights = node.op == ops::convolution_weight_gradient;  // of two images
    const int64_t rank = static_cast<int64_t>(b_->shape(node.inputs[0]).size());
    if (rank < 3 || attr_as<std::string>(node, "layout") != "channels_first" ||
        ((is_pooling(node) || suits_pixel_lanes(b_->graph(), node)) && !carried(node.inputs[0])))
      return b_->add(std::move(node));
    if (as_products_ && !carried(node.inputs[0]) && !carried(node.inputs[makes_weights ? 1 : 0]))
      return product_of_planes(node);
    set_attr(node, "layout", std::string("channels_last"));
    const Perm perm = to_last(rank);
    for (size_t i = 0; i < (makes_weights ? 2 : 1); ++i) node.inputs[i] = transpose(node.inputs[i], perm);
    if (makes_weights) return b_->add(std::move(node));
    node.name.clear();
    const ValueId y = b_->add(std::move(node));
    from_here_.resize(b_->graph().nodes.size(), false);
    const ValueId back = make_transpose(y, inverse(perm));
    mark(back);
    return back;
  }

  ValueId planes(ValueId image) {  // [N,C,S..] as [N,C,P]
    return b_->reshape(image, {b_->shape(image)[0], b_->shape(image)[1], pixels(b_->graph(), image)});
  }
  ValueId product_of_planes(const Node& node) {
    Builder& b = *b_;
    const std::vector<NamedAttr> attrs{{"tf32", attr_as<bool>(node, "tf32")}};
    if (node.op == ops::convolution_weight_gradient) {  // [N,O,P] x [N,P,C]
      const ValueId x = make_transpose(planes(node.inputs[0]), {0, 2, 1});
      const ValueId of_images = b(ops::matmul, {planes(node.inputs[1]), x}, attrs);
      return b.reshape(b(ops::sum, {of_images}, {{"axes", Dims{Dim(0)}}}), node.type.shape);
    }
    const Dims& w = b.shape(node.inputs[1]);
    ValueId matrix = b.reshape(node.inputs[1], {w[0], w[1]});
    if (attr_as<bool>(node, "transposed")) matrix = make_transpose(matrix, {1, 0});
    ValueId y = b(ops::matmul, {matrix, planes(node.inputs[0])}, attrs);
    if (node.inputs.size() > 2) y = b(ops::add, {y, b.reshape(node.inputs[2], {node.type.shape[1], Dim(1)})});
    return b.reshape(y, node.type.shape);
  }

  void mark(ValueId v) {
    from_here_.resize(b_->graph().nodes.size(), false);
    from_here_[v] = true;
  }
  // Whether `v` is a transpose that this pass moves towards the outputs.
  bool carried(ValueId v) const {
    return v < from_here_.size() && from_here_[v] && b_->graph().node(v).op == ops::transpose;
  }

  std::optional<ValueId> sink(const Node& node) {
    if (node.inputs.empty()) return {};
    const Op& row = op(node.op);
    const ValueId* first = nullptr;
    for (const ValueId& v : node.inputs)
      if (carried(v) && (!first || b_->shape(v).size() > b_->shape(*first).size())) first = &v;
    if (!first) return {};
    const Perm perm = attr_ints(b_->graph().node(*first), "perm");
    const int64_t rank = static_cast<int64_t>(perm.size());
    const Perm inv = inverse(perm);  // axis a of the node is axis inv.. of the untransposed result
    Node moved = node;
    moved.name.clear();
    if (is_elementwise(row)) {
      for (ValueId& v : moved.inputs) {
        const int64_t r = static_cast<int64_t>(b_->shape(v).size());
        if (r > rank) return {};
        if (b_->dims().product(b_->shape(v)) == Dim(1) && r < rank) continue;
        if (r < rank) {  // broadcast: add the leading axes of size 1, then transpose
          Dims full(rank - r, Dim(1));
          full.insert(full.end(), b_->shape(v).begin(), b_->shape(v).end());
          v = b_->reshape(v, full);
        }
        v = transpose(v, inv);
      }
      return carry(std::move(moved), perm);
    }
    if (node.inputs[0] != *first) return {};
    const ValueId x = b_->graph().node(*first).inputs[0];
    if (folds_axes(row)) {
      Dims axes;
      std::vector<bool> folded(rank, false);
      auto list = attr_ints(node, "axes");
      for (int64_t a : list) axes.push_back(Dim(perm[wrap_axis(a, rank)])), folded[wrap_axis(a, rank)] = true;
      if (list.empty()) folded.assign(rank, true);
      std::sort(axes.begin(), axes.end());
      set_attr(moved, "axes", axes);
      moved.inputs[0] = x;
      if (attr_as<bool>(node, "keepdims")) return carry(std::move(moved), perm);
      // The remaining axes, in their order now and in the order that the graph expects.
      Perm rest, order;
      for (int64_t a = 0; a < rank; ++a)
        if (!folded[a]) rest.push_back(perm[a]);
      Perm sorted = rest;
      std::sort(sorted.begin(), sorted.end());
      for (int64_t a : rest)
        order.push_back(std::lower_bound(sorted.begin(), sorted.end(), a) - sorted.begin());
      return carry(std::move(moved), order);
    }
    auto axis_moved = [&](std::string_view name) {
      set_attr(moved, name, Dim(perm[wrap_axis(attr_int(node, name), rank)]));
    };
    if (node.op == ops::concat) {
      for (ValueId& v : moved.inputs) v = transpose(v, inv);
      axis_moved("axis");
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::slice || (node.op == ops::gather && b_->shape(node.inputs[1]).size() == 1)) {
      moved.inputs[0] = x;
      axis_moved("axis");
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::expand && static_cast<int64_t>(node.type.shape.size()) == rank) {
      Dims shape(rank);
      for (int64_t a = 0; a < rank; ++a) shape[perm[a]] = node.type.shape[a];
      set_attr(moved, "shape", shape);
      moved.inputs[0] = x;
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::flip) {
      Dims axes;
      for (int64_t a : attr_ints(node, "axes")) axes.push_back(Dim(perm[wrap_axis(a, rank)]));
      set_attr(moved, "axes", axes);
      moved.inputs[0] = x;
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::pad) {
      Dims low(rank), high(rank);
      for (int64_t a = 0; a < rank; ++a)
        low[perm[a]] = attr_as<Dims>(node, "low")[a], high[perm[a]] = attr_as<Dims>(node, "high")[a];
      set_attr(moved, "low", low);
      set_attr(moved, "high", high);
      moved.inputs[0] = x;
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::windows) {  // the places in a window are new axes at the end
      Dims axes;
      for (int64_t a : attr_ints(node, "axes")) axes.push_back(Dim(perm[wrap_axis(a, rank)]));
      set_attr(moved, "axes", axes);
      moved.inputs[0] = x;
      return carry(std::move(moved), longer(perm, axes.size()));
    }
    if (node.op == ops::reshape) return reshaped(std::move(moved), *first, x, perm);
    if (node.op == ops::batch_norm) {
      moved.inputs[0] = x;
      axis_moved("axis");
      return carry(std::move(moved), perm);
    }
    if (node.op == ops::group_norm && perm == inverse(to_last(rank)) &&
        attr_as<std::string>(node, "layout") == "channels_first") {
      moved.inputs[0] = x;
      set_attr(moved, "layout", std::string("channels_last"));
      return carry(std::move(moved), perm);
    }
    return {};
  }

  // Axes of a reshape: those in [from, from_end) of the operand become those in [to, to_end) of the result.
  struct Run {
    size_t from, from_end, to, to_end;
  };
  // The runs of a reshape that splits axes, merges neighbours, and adds or removes axes of size 1. An added axis belongs to the one before
  // it. Nothing for other reshapes.
  std::optional<std::vector<Run>> runs_of(const Dims& from, const Dims& to) {
    std::vector<Run> runs;
    size_t i = 0, j = 0;
    const auto is_one = [](const Dims& shape, size_t axis) {
      return axis < shape.size() && shape[axis] == Dim(1);
    };
    while (i < from.size()) {
      if (is_one(from, i) && !is_one(to, j)) {
        runs.push_back({i, i + 1, j, j});
        ++i;
        continue;
      }
      if (j == to.size()) return {};
      Run run{i, i + 1, j, j + 1};
      Dim split = to[j], merged = from[i];
      while (split != from[i] && run.to_end < to.size()) split = b_->dims().mul(split, to[run.to_end++]);
      if (split != from[i]) {
        run.to_end = j + 1;
        while (merged != to[j] && run.from_end < from.size())
          merged = b_->dims().mul(merged, from[run.from_end++]);
        if (merged != to[j]) return {};
      }
      if (!is_one(from, run.from_end))
        while (is_one(to, run.to_end)) ++run.to_end;
      runs.push_back(run);
      i = run.from_end;
      j = run.to_end;
    }
    if (j < to.size()) return {};
    return runs;
  }

  // The reshape `moved` of the transpose `first` of x, as a transpose of a reshape of x.
  std::optional<ValueId> reshaped(Node&& moved, ValueId first, ValueId x, const Perm& perm) {
    const Dims to = attr_as<Dims>(moved, "shape");
    const auto runs = runs_of(b_->shape(first), to);
    if (!runs) return {};
    std::vector<const Run*> starts(perm.size());  // the run that begins at an axis of x
    for (const Run& run : *runs) {
      for (size_t i = run.from + 1; i < run.from_end; ++i)
        if (perm[i] != perm[i - 1] + 1) return {};  // neighbours here are none in x
      starts[static_cast<size_t>(perm[run.from])] = &run;
    }
    Dims shape;
    Perm order(to.size());
    for (const Run* run : starts)
      for (size_t j = run ? run->to : 0; run && j < run->to_end; ++j) {
        order[j] = static_cast<int64_t>(shape.size());
        shape.push_back(to[j]);
      }
    set_attr(moved, "shape", shape);
    moved.inputs[0] = x;
    return carry(std::move(moved), order);
  }

  ValueId carry(Node&& moved, const Perm& perm) {
    const ValueId y = b_->add(std::move(moved));
    if (std::is_sorted(perm.begin(), perm.end())) return y;
    const ValueId back = make_transpose(y, perm);
    mark(back);
    return back;
  }

  const Graph& source_;
  const Uses uses_;
  Builder* b_ = nullptr;
  std::vector<bool> from_here_;
  bool as_products_ = false;  // whether all convolutions are products of planes, and there are no poolings
};

}  // namespace

Graph layout(const Graph& graph) { return LayoutPass(graph).run(); }

}  // namespace tenon
