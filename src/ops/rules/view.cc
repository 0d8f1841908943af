// See view.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/ops/rules/view.h"

#include "src/ir/op.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

int64_t wrap(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// The strides of `to`, which has the same elements in the same order as `from`. Matches blocks of axes with
// equal products from the left. If a block merges axes of `from`, they must be contiguous with each other.
std::optional<Dims> reshape_strides(DimTable& dims, const Dims& from, const Dims& strides, const Dims& to) {
  Dims out(to.size(), Dim(0));
  size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    if (f < from.size() && from[f] == Dim(1)) {
      ++f;
      continue;
    }
    if (t < to.size() && to[t] == Dim(1)) {
      ++t;
      continue;
    }
    if (f == from.size() || t == to.size()) return std::nullopt;
    Dim step = strides[f], f_size = from[f], t_size = to[t];
    size_t f_end = f + 1, t_end = t + 1;
    while (f_size != t_size) {
      if (f_end < from.size() && dims.divide(t_size, f_size)) {  // `to` spans several axes of `from`
        if (from[f_end] != Dim(1)) {
          if (step != dims.mul(strides[f_end], from[f_end])) return std::nullopt;
          step = strides[f_end];
          f_size = dims.mul(f_size, from[f_end]);
        }
        ++f_end;
      } else if (t_end < to.size()) {
        t_size = dims.mul(t_size, to[t_end++]);
      } else {
        return std::nullopt;
      }
    }
    for (size_t k = t_end; k-- > t;) {
      out[k] = step;
      step = dims.mul(step, to[k]);
    }
    f = f_end;
    t = t_end;
  }
  return out;
}

// Applies the view `n` of the value that `v` describes; false if strides cannot express it.
bool look_through(const Graph& graph, const Node& n, View& v) {
  DimTable& dims = *graph.dims;
  const Dims& shape = graph.type(n.inputs[0]).shape;
  const Dims strides = v.strides;
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (n.op == ops::reshape) {
    auto reshaped = reshape_strides(dims, shape, strides, n.type.shape);
    if (!reshaped) return false;
    v.strides = *reshaped;
  } else if (n.op == ops::transpose) {
    auto perm = attr_ints(n, "perm");
    for (int64_t i = 0; i < rank; ++i) v.strides[i] = strides[wrap(perm[i], rank)];
  } else if (n.op == ops::expand) {
    const size_t skip = n.type.shape.size() - shape.size();
    v.strides.assign(n.type.shape.size(), Dim(0));
    for (int64_t i = 0; i < rank; ++i)
      if (shape[i] != Dim(1) || n.type.shape[skip + i] == Dim(1)) v.strides[skip + i] = strides[i];
  } else if (n.op == ops::slice) {
    const int64_t axis = wrap(attr_int(n, "axis"), rank);
    v.offset = dims.add(v.offset, dims.mul(attr_as<Dim>(n, "start"), strides[axis]));
    v.strides[axis] = dims.mul(strides[axis], attr_as<Dim>(n, "step"));
  } else if (n.op == ops::windows) {
    auto axes = attr_ints(n, "axes");
    for (size_t k = 0; k < axes.size(); ++k) {
      const int64_t axis = wrap(axes[k], rank);
      v.strides.push_back(dims.mul(strides[axis], attr_as<Dims>(n, "dilations")[k]));
      v.strides[axis] = dims.mul(strides[axis], attr_as<Dims>(n, "strides")[k]);
    }
  } else if (n.op == ops::flip) {
    const std::vector<bool> flipped = *axis_flags(attr_ints(n, "axes"), static_cast<int>(rank));
    for (int64_t a = 0; a < rank; ++a) {
      if (!flipped[a]) continue;
      v.offset = dims.add(v.offset, dims.mul(dims.sub(shape[a], Dim(1)), strides[a]));
      v.strides[a] = dims.mul(strides[a], Dim(-1));
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<View> view_of(const Graph& graph, ValueId value,
                            const std::function<std::optional<Dims>(ValueId)>& strides_of) {
  std::vector<ValueId> views;  // the outermost first; a loop, because chains may be long
  std::optional<Dims> strides;
  for (; !(strides = strides_of(value)); value = graph.node(value).inputs[0]) {
    if (!op(graph.node(value).op).view) return std::nullopt;
    views.push_back(value);
  }
  View v{value, Dim(0), std::move(*strides)};
  for (size_t i = views.size(); i-- > 0;)
    if (!look_through(graph, graph.node(views[i]), v)) return std::nullopt;
  return v;
}

}  // namespace tenon
