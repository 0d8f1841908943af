// See scatter.h. The copy is an ordinary lowering in which the node reads as its first operand
// (jit/lower/index_maps.cc).
#include "jit/lower/scatter.h"

#include "jit/analysis/index.h"
#include "jit/schedule/schedule.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/put_mode.h"
#include "src/ops/rules/view.h"

namespace tenon::jit {

bool is_scatter(OpId op) { return op == ops::scatter || op == ops::index_put; }

// The second kernel: out[.., index, ..] = updates, or the fold of both that the mode names.
Result<std::vector<LoweredKernel>> lower_scatter(const LowerInput& in) {
  if (in.members.size() != 1) return unsupported("a scatter shares its loops with nothing");
  const Graph& g = in.graph;
  const ValueId out = in.members[0];
  const Node& n = g.node(out);
  const TensorType &x = g.type(n.inputs[0]), &index = g.type(n.inputs[1]), &updates = g.type(n.inputs[2]);
  const int rank = x.rank();
  int64_t axis = attr_int(n, "axis");
  if (axis < 0) axis += rank;

  auto index_view = view_of(g, n.inputs[1], in.strides), update_view = view_of(g, n.inputs[2], in.strides);
  if (!index_view || !update_view) return unsupported("a scatter reads its indices and updates from memory");
  const Dims out_strides = *in.strides(out);

  LoweredKernel k;
  Kernel& kernel = k.kernel;
  kernel.name = std::string(op(n.op).name) + "_" + std::string(name(x.dtype));
  auto size = [&](Dim d) {
    for (size_t i = 0; i < k.sizes.size(); ++i)
      if (k.sizes[i] == d) return static_cast<int>(i);
    k.sizes.push_back(d);
    return static_cast<int>(k.sizes.size() - 1);
  };
  auto buffer = [&](ValueId v, Buffer::Role role, const char* label) {
    k.buffers.push_back(v);
    kernel.buffers.push_back({role, g.type(v).dtype, label, {}});
    return static_cast<int>(kernel.buffers.size() - 1);
  };
  const int index_buffer = buffer(index_view->base, Buffer::Role::in, "index");
  const int update_buffer = buffer(update_view->base, Buffer::Role::in, "updates");
  const int out_buffer = buffer(out, Buffer::Role::out, "y");

  // In scatter, the updated position keeps the indices of the other axes. In index_put, the index dimensions
  // replace the axis. Along the axis, updates go in order, one after another. The dimensions after the axis
  // are a row, the innermost loop, whose tiles threads share. Contiguous dimensions of a row are merged.
  const bool along = n.op == ops::scatter;
  const int width = along ? 1 : index.rank();
  struct Loop {
    Dim extent;
    Dim index, update, out;  // strides
  };
  std::vector<Loop> outer, ordered, row;
  DimTable& dims = *g.dims;
  for (int d = 0; d < updates.rank(); ++d) {
    const bool is_index = d >= axis && d < axis + width;
    Loop l{updates.shape[d], Dim(0), update_view->strides[d], Dim(0)};
    if (along || is_index) l.index = index_view->strides[along ? d : d - axis];
    if (!is_index) l.out = out_strides[d < axis ? d : d - width + 1];
    std::vector<Loop>& list = is_index ? ordered : d < axis ? outer : row;
    auto goes_on = [&](Dim before, Dim here) { return before == dims.mul(here, l.extent); };
    if (d > axis + width && goes_on(row.back().index, l.index) && goes_on(row.back().update, l.update) &&
        goes_on(row.back().out, l.out)) {
      l.extent = dims.mul(l.extent, row.back().extent);
      row.back() = l;
    } else {
      list.push_back(l);
    }
  }
  if (ordered.empty()) ordered.push_back({Dim(1), Dim(0), Dim(0), Dim(0)});

  Address index_at, update_at, out_at;
  auto step = [&](Address& address, Dim stride, Ref var) {
    if (stride == Dim(0)) return;
    if (stride == Dim(1))
      address.push_back({1, -1, var});
    else
      address.push_back({1, size(stride), var});
  };
  auto extent_of = [&](Dim d) { return d == Dim(1) ? Extent{1, -1} : Extent{1, size(d)}; };
  int loops = 0;
  auto variable = [&](const Loop& l) {
    const Ref var = kernel.add_ref(DType::i64, "i" + std::to_string(loops++));
    step(index_at, l.index, var), step(update_at, l.update, var), step(out_at, l.out, var);
    return var;
  };
  Stmt par{.kind = Stmt::Kind::par}, loop{.kind = Stmt::Kind::loop}, in_row{.kind = Stmt::Kind::loop};
  const bool rows = !row.empty() && in.target == Target::cpu;
  Loop last;
  if (rows) last = row.back(), row.pop_back();
  for (const Loop& l : outer) par.axes.push_back({variable(l), extent_of(l.extent)});
  for (const Loop& l : row) par.axes.push_back({variable(l), extent_of(l.extent)});
  if (rows) {
    const Ref tile = kernel.add_ref(DType::i64, "t");
    par.axes.push_back({tile, extent_of(last.extent), {kColumnTile, -1}});
    in_row.axes.push_back({variable(last), {}, {0, -1}, tile});
    in_row.simd = !along;  // in a scatter, each element has its own index
  }
  for (const Loop& l : ordered) loop.axes.push_back({variable(l), extent_of(l.extent)});
  if (par.axes.empty()) par.axes.push_back({kernel.add_ref(DType::i64, "i"), {1, -1}});
  step(index_at, index_view->offset, kNoRef);
  step(update_at, update_view->offset, kNoRef);

  // If an index applies to a whole row, it is read before the row.
  Block* body = rows && along ? &in_row.body : &loop.body;
  auto emit = [&](Stmt s, DType type) {
    s.type = type;
    s.result = kernel.add_ref(type);
    body->push_back(std::move(s));
    return kernel.types.size() - 1;
  };
  auto op2 = [&](OpId id, std::vector<Ref> args, DType type) {
    return static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::op, .op = id, .args = std::move(args)}, type));
  };
  Ref at = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::load, .buffer = index_buffer, .address = index_at}, index.dtype));
  if (index.dtype != DType::i64)
    at = static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::cast, .args = {at}}, DType::i64));
  const Ref extent = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::size, .size = size(rank ? x.shape[axis] : Dim(1))}, DType::i64));
  if (attr_as<bool>(n, "wrap")) {
    const Ref zero = static_cast<Ref>(
        emit(Stmt{.kind = Stmt::Kind::constant, .literal = Scalar::of(int64_t{0})}, DType::i64));
    const Ref negative = op2(ops::lt, {at, zero}, DType::b8);
    at = op2(ops::where, {negative, op2(ops::add, {at, extent}, DType::i64), at}, DType::i64);
  }
  at = op2(ops::index_in, {at, extent}, DType::i64);
  if (in.target == Target::cpu) {
    body->back().fault = 1;
    k.faults = {out};
  }
  if (rank > 0) step(out_at, out_strides[axis], at);

  if (rows) body = &in_row.body;
  const DType type = compute_type(x.dtype);
  Ref value = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::load, .buffer = update_buffer, .address = update_at}, type));
  if (const PutMode& mode = *find_put_mode(attr_as<std::string>(n, "mode")); !mode.sets) {
    const Ref old =
        static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::load, .buffer = out_buffer, .address = out_at}, type));
    value = op2(mode.row(type), {old, value}, type);
  }
  body->push_back(Stmt{.kind = Stmt::Kind::store, .args = {value}, .buffer = out_buffer, .address = out_at});
  if (rows) loop.body.push_back(std::move(in_row));
  par.body.push_back(std::move(loop));
  kernel.body.push_back(std::move(par));
  for (size_t i = 0; i < k.sizes.size(); ++i) kernel.sizes.push_back("s" + std::to_string(i));
  std::vector<LoweredKernel> result;
  result.push_back(std::move(k));
  return result;
}

}  // namespace tenon::jit
