// See lower.h. Picks the axes of the group's domain and evaluates every output at their indices
// (evaluate.cc). If an axis has to be split or cut, starts again with the new axes.
#include "jit/lower/lower.h"

#include <algorithm>

#include "jit/lower/kernel_draft.h"
#include "jit/lower/scatter.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon::jit {
namespace {

constexpr int kMostCuts = 64;  // most cuts of a group of several nodes

// The domain that the group loops over: the operand of its reductions or scan, otherwise its first output.
Result<std::vector<DomainDim>> domain_of(const LowerInput& in) {
  const Graph& g = in.graph;
  ValueId root = in.written(in.outputs[0]).value;
  std::vector<bool> inner;
  bool folds = false, scans = false;
  for (ValueId v : in.members) {
    const Node& n = g.node(v);
    const Kind kind = op(n.op).kind;
    if (kind != Kind::reduce && kind != Kind::scan) continue;
    if (folds && (kind == Kind::scan || scans))
      return unsupported("a scan shares its loops with no other fold");
    scans = scans || kind == Kind::scan;
    if (folds) continue;
    if (in.is_sum(v)) continue;
    folds = true;
    root = n.inputs[0];
    const int rank = g.type(root).rank();
    inner = *axis_flags(kind == Kind::scan ? std::vector{attr_int(n, "axis")} : attr_ints(n, "axes"), rank);
  }
  const Dims& shape = g.type(root).shape;
  std::vector<DomainDim> domain;
  for (size_t d = 0; d < shape.size(); ++d) domain.push_back({shape[d], !inner.empty() && inner[d]});
  return domain;
}

// Returns the operand of the transpose that the output copies, if its elements are in the order of the output's memory.
std::optional<LowerInput::Output> untransposed(const LowerInput& in, ValueId output) {
  const Graph& g = in.graph;
  if (g.node(output).op != ops::reshape) return std::nullopt;
  const ValueId turned = g.node(output).inputs[0];
  if (g.node(turned).op != ops::transpose || in.strides(turned) ||
      g.type(turned).shape != g.type(output).shape)
    return std::nullopt;
  const ValueId value = g.node(turned).inputs[0];
  const auto perm = attr_ints(g.node(turned), "perm");
  const Dims of_output = *in.strides(output);
  Dims strides(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) strides[static_cast<size_t>(perm[i])] = of_output[i];
  if (strides != dense_strides(*g.dims, g.type(value).shape)) return std::nullopt;
  return LowerInput::Output{value, strides};
}

}  // namespace

bool is_dense_reshape(const LowerInput& in, ValueId output) {
  return in.graph.node(output).op == ops::reshape &&
         in.strides(output) == dense_strides(*in.graph.dims, in.graph.type(output).shape);
}

Result<Lowered> lower(const LowerInput& in) {
  Lowered result;
  DimTable& dims = *in.graph.dims;
  if (std::ranges::all_of(in.outputs,
                          [&](ValueId o) { return dims.product(in.graph.type(o).shape) == Dim(0); }))
    return result;
  TENON_ASSIGN(std::vector<DomainDim> domain, domain_of(in));
  std::vector<std::vector<LoopAxis>> work(1);
  for (uint32_t d = 0; d < domain.size(); ++d)
    work[0].push_back({domain[d].extent, Dim(0), domain[d].folded, d, Dim(1)});
  const bool folds = std::ranges::any_of(in.members, [&](ValueId v) {
    const Kind kind = op(in.graph.node(v).op).kind;
    return kind == Kind::reduce || kind == Kind::scan;
  });
  for (int tries = 0; !work.empty(); ++tries) {
    if (tries > kMostCuts && in.members.size() > 1)
      return unsupported("the loops need more than " + std::to_string(kMostCuts) + " cuts");
    std::vector<LoopAxis> axes = work.back();
    work.pop_back();
    Attempt outcome = lower_axes(in, domain, axes);
    if (outcome.kernel) {
      result.loops.push_back(std::move(*outcome.kernel));
      continue;
    }
    const Request& r = *outcome.request;
    if (r.kind == Request::Kind::decline) return unsupported(r.why);
    const LoopAxis axis = axes[r.axis];
    if (r.kind == Request::Kind::split) {
      auto outer = dims.divide(axis.extent, r.inner_extent);
      TENON_CHECK(outer.has_value(), "a split divides its axis");
      axes[r.axis] = {*outer, Dim(0), axis.inner, axis.dim, dims.mul(axis.weight, r.inner_extent)};
      axes.insert(axes.begin() + r.axis + 1, {r.inner_extent, axis.start, axis.inner, axis.dim, axis.weight});
      work.push_back(std::move(axes));
      continue;
    }
    if (folds && axis.inner) return unsupported("a concatenation or padding runs along the folded axis");
    Dims bounds{Dim(0)};
    bounds.insert(bounds.end(), r.bounds.begin(), r.bounds.end());
    bounds.push_back(axis.extent);
    for (size_t i = bounds.size() - 1; i-- > 0;) {  // so that the first piece is lowered first
      LoopAxis& segment = axes[r.axis] = axis;
      segment.extent = dims.sub(bounds[i + 1], bounds[i]);
      if (segment.extent == Dim(0)) continue;
      segment.start = dims.add(axis.start, bounds[i]);
      segment.pieces.push_back(r.piece);
      segment.pieces.back().piece = static_cast<int>(r.piece.step > 0 ? i : bounds.size() - 2 - i);
      work.push_back(axes);
    }
  }
  if (std::ranges::any_of(in.members, [&](ValueId v) { return is_scatter(in.graph.node(v).op); })) {
    // `loops` copies the operand; `updates` writes the updates
    TENON_ASSIGN(LoweredKernel updates, lower_scatter(in));
    result.updates.push_back(std::move(updates));
  }
  return result;
}

LowerInput::Output LowerInput::written(ValueId output) const {
  if (auto turned = untransposed(*this, output)) return *turned;
  if (!under_operand_shape || !is_dense_reshape(*this, output)) return {output, *strides(output)};
  ValueId operand = graph.node(output).inputs[0];
  while (graph.node(operand).op == ops::reshape && !strides(operand)) operand = graph.node(operand).inputs[0];
  return {operand, dense_strides(*graph.dims, graph.type(operand).shape)};
}

}  // namespace tenon::jit
