// See scatter.h. The copy is an ordinary lowering in which the node stands for its first operand (jit/moves.cc).
#include "jit/scatter.h"

#include "jit/index.h"
#include "src/ops/names.h"
#include "src/ops/view.h"

namespace tenon::jit {

bool is_scatter(OpId op) { return op == ops::scatter || op == ops::index_put; }

// The second kernel: out[.., index, ..] = or += updates.
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

  // One loop per dimension of the updates. For scatter the updated position keeps the other axes' indices; for
  // index_put the index dimensions stand in place of the axis.
  const bool along = n.op == ops::scatter;
  const int width = along ? 1 : index.rank();
  Stmt par{.kind = Stmt::Kind::par}, loop{.kind = Stmt::Kind::loop};
  std::vector<Ref> vars;
  for (int d = 0; d < updates.rank(); ++d) {
    vars.push_back(kernel.add_ref(DType::i64, "i" + std::to_string(d)));
    const bool is_index = d >= axis && d < axis + width;
    (is_index ? loop : par).axes.push_back({vars[d], {1, size(updates.shape[d])}});
  }
  if (par.axes.empty()) par.axes.push_back({kernel.add_ref(DType::i64, "i"), {1, -1}});
  if (loop.axes.empty()) loop.axes.push_back({kernel.add_ref(DType::i64, "j"), {1, -1}});

  auto step = [&](Address& address, Dim stride, Ref var) {
    if (stride == Dim(0)) return;
    if (stride == Dim(1))
      address.push_back({1, -1, var});
    else
      address.push_back({1, size(stride), var});
  };
  Address index_at, update_at, out_at;
  for (int d = 0; d < updates.rank(); ++d) {
    step(update_at, update_view->strides[d], vars[d]);
    const bool is_index = d >= axis && d < axis + width;
    if (along)
      step(index_at, index_view->strides[d], vars[d]);
    else if (is_index)
      step(index_at, index_view->strides[d - axis], vars[d]);
    if (!is_index) step(out_at, out_strides[d < axis ? d : d - width + 1], vars[d]);
  }
  step(index_at, index_view->offset, kNoRef);
  step(update_at, update_view->offset, kNoRef);

  Block& body = loop.body;
  auto emit = [&](Stmt s, DType type) {
    s.type = type;
    s.result = kernel.add_ref(type);
    body.push_back(std::move(s));
    return kernel.types.size() - 1;
  };
  auto op2 = [&](OpId id, std::vector<Ref> args, DType type) {
    return static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::op, .op = id, .args = std::move(args)}, type));
  };
  Ref at = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::load, .buffer = index_buffer, .address = index_at}, index.dtype));
  if (index.dtype != DType::i64)
    at = static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::cast, .args = {at}}, DType::i64));
  const Ref zero = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::constant, .literal = Scalar::of(int64_t{0})}, DType::i64));
  const Ref one = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::constant, .literal = Scalar::of(int64_t{1})}, DType::i64));
  const Ref extent = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::size, .size = size(rank ? x.shape[axis] : Dim(1))}, DType::i64));
  const Ref negative = op2(ops::lt, {at, zero}, DType::b8);
  at = op2(ops::where, {negative, op2(ops::add, {at, extent}, DType::i64), at}, DType::i64);
  at = op2(ops::maximum,
           {op2(ops::minimum, {at, op2(ops::sub, {extent, one}, DType::i64)}, DType::i64), zero}, DType::i64);
  if (rank > 0) step(out_at, out_strides[axis], at);

  const DType type = compute_type(x.dtype);
  Ref value = static_cast<Ref>(
      emit(Stmt{.kind = Stmt::Kind::load, .buffer = update_buffer, .address = update_at}, type));
  if (attr_as<std::string>(n, "mode") == "add") {
    const Ref old =
        static_cast<Ref>(emit(Stmt{.kind = Stmt::Kind::load, .buffer = out_buffer, .address = out_at}, type));
    value = op2(type == DType::b8 ? ops::logical_or : ops::add, {old, value}, type);
  }
  body.push_back(Stmt{.kind = Stmt::Kind::store, .args = {value}, .buffer = out_buffer, .address = out_at});
  par.body.push_back(std::move(loop));
  kernel.body.push_back(std::move(par));
  for (size_t i = 0; i < k.sizes.size(); ++i) kernel.sizes.push_back("s" + std::to_string(i));
  std::vector<LoweredKernel> result;
  result.push_back(std::move(k));
  return result;
}

}  // namespace tenon::jit
