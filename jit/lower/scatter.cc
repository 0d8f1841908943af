// See scatter.h. The copy is an ordinary lowering in which the node reads as its first operand
// (jit/lower/index_maps.cc).
#include "jit/lower/scatter.h"

#include "jit/kernel/builder.h"
#include "jit/lower/kernel_draft.h"
#include "jit/schedule/schedule.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/indices.h"
#include "src/ops/rules/put_mode.h"
#include "src/ops/rules/view.h"

namespace tenon::jit {

bool is_scatter(OpId op) { return op == ops::scatter || op == ops::index_put; }

namespace {

// A dimension of the updates.
struct Loop {
  Dim extent;
  Dim index, update, out;  // strides
};

// The scatter's own strides in the group's output. A reshape behind it must keep the addresses of its elements.
Result<Dims> strides_of(const LowerInput& in) {
  const ValueId scatter = in.members[0], output = in.outputs[0];
  if (in.members.size() > 2 || in.outputs.size() > 1 || output != in.members.back())
    return unsupported("a scatter shares its loops with nothing");
  if (scatter == output) return *in.strides(scatter);
  ValueId from = output;
  while (from != scatter && in.graph.node(from).op == ops::reshape) from = in.graph.node(from).inputs[0];
  if (from != scatter || !is_dense_reshape(in, output))
    return unsupported("a scatter shares its loops with nothing");
  return dense_strides(*in.graph.dims, in.graph.type(scatter).shape);
}

// The second kernel: out[.., index, ..] = updates, or the fold of both that the mode names.
class Scatter {
 public:
  Scatter(const LowerInput& in, View index, View updates, Dims out_strides)
      : in_(in),
        index_(std::move(index)),
        updates_(std::move(updates)),
        n_(in.graph.node(in.members[0])),
        out_strides_(std::move(out_strides)),
        along_(n_.op == ops::scatter),
        axis_(attr_int(n_, "axis")) {
    if (axis_ < 0) axis_ += type(0).rank();
  }

  LoweredKernel run() {
    kernel_.name = std::string(op(n_.op).name) + "_" + std::string(name(type(0).dtype));
    const int index = buffer(index_.base, Buffer::Role::in, "index"),
              updates = buffer(updates_.base, Buffer::Role::in, "updates"),
              out = buffer(in_.outputs[0], Buffer::Role::out, "y");
    sort_loops();
    place_loops();
    // If an index applies to a whole row, it is read before the row.
    const Ref at = position(KernelBuilder(kernel_, rows_ && along_ ? in_row_.body : loop_.body), index);
    if (type(0).rank() > 0) step(out_at_, out_strides_[axis_], at);
    write(KernelBuilder(kernel_, rows_ ? in_row_.body : loop_.body), updates, out);
    if (rows_) loop_.body.push_back(std::move(in_row_));
    par_.body.push_back(std::move(loop_));
    kernel_.body.push_back(std::move(par_));
    k_.name_sizes();
    k_.writes_again = true;
    return std::move(k_);
  }

 private:
  const TensorType& type(int operand) const { return in_.graph.type(n_.inputs[operand]); }
  int size(Dim d) { return number_in(k_.sizes, d); }
  int buffer(ValueId v, Buffer::Role role, const char* label) {
    k_.buffers.push_back(v);
    kernel_.buffers.push_back({role, in_.graph.type(v).dtype, label, {}});
    return static_cast<int>(kernel_.buffers.size() - 1);
  }

  // In scatter, the updated position keeps the indices of the other axes. In index_put, the index dimensions
  // replace the axis. Along the axis, updates go in order, one after another. The dimensions after the axis
  // are a row, the innermost loop, whose tiles threads share. Contiguous dimensions of a row are merged.
  void sort_loops() {
    const int width = along_ ? 1 : type(1).rank();
    const Dims& shape = type(2).shape;
    DimTable& dims = *in_.graph.dims;
    for (int d = 0; d < type(2).rank(); ++d) {
      const bool is_index = d >= axis_ && d < axis_ + width;
      Loop l{shape[d], Dim(0), updates_.strides[d], Dim(0)};
      if (along_ || is_index) l.index = index_.strides[along_ ? d : d - axis_];
      if (!is_index) l.out = out_strides_[d < axis_ ? d : d - width + 1];
      std::vector<Loop>& list = is_index ? ordered_ : d < axis_ ? outer_ : row_;
      auto goes_on = [&](Dim before, Dim here) { return before == dims.mul(here, l.extent); };
      if (d > axis_ + width && goes_on(row_.back().index, l.index) && goes_on(row_.back().update, l.update) &&
          goes_on(row_.back().out, l.out)) {
        l.extent = dims.mul(l.extent, row_.back().extent);
        row_.back() = l;
      } else {
        list.push_back(l);
      }
    }
    if (ordered_.empty()) ordered_.push_back({Dim(1), Dim(0), Dim(0), Dim(0)});
  }

  void step(Address& address, Dim stride, Ref var) {
    if (stride == Dim(0)) return;
    address.push_back({1, stride == Dim(1) ? -1 : size(stride), var});
  }
  Ref variable(const Loop& l) {
    const Ref var = kernel_.add_ref(DType::i64, "i" + std::to_string(loops_++));
    step(index_at_, l.index, var), step(update_at_, l.update, var), step(out_at_, l.out, var);
    return var;
  }
  Extent extent_of(Dim d) { return d == Dim(1) ? Extent{1, -1} : Extent{1, size(d)}; }
  Axis axis_of(const Loop& l) {
    const Ref var = variable(l);
    return {var, extent_of(l.extent)};
  }

  // Gives the loops their axes, and the addresses the terms that do not depend on the index.
  void place_loops() {
    rows_ = !row_.empty() && in_.target == Target::cpu;
    Loop last;
    if (rows_) last = row_.back(), row_.pop_back();
    for (const Loop& l : outer_) par_.axes.push_back(axis_of(l));
    for (const Loop& l : row_) par_.axes.push_back(axis_of(l));
    if (rows_) {
      const Ref tile = kernel_.add_ref(DType::i64, "t");
      par_.axes.push_back({tile, extent_of(last.extent), {kColumnTile, -1}});
      in_row_.axes.push_back({variable(last), {}, {0, -1}, tile});
      in_row_.simd = !along_;  // in a scatter, each element has its own index
    }
    for (const Loop& l : ordered_) loop_.axes.push_back(axis_of(l));
    if (par_.axes.empty()) par_.axes.push_back({kernel_.add_ref(DType::i64, "i"), {1, -1}});
    step(index_at_, index_.offset, kNoRef);
    step(update_at_, updates_.offset, kNoRef);
  }

  // The updated position along the axis, checked unless the graph shows that it is one.
  Ref position(KernelBuilder b, int index) {
    Ref at = b.load(index, index_at_);
    if (type(1).dtype != DType::i64) at = b.cast(at, DType::i64);
    const Dim axis_size = *indexed_size(in_.graph, n_);
    if (is_index_into(in_.graph, n_.inputs[1], axis_size)) return at;
    const Ref extent = b.size(size(axis_size));
    if (attr_as<bool>(n_, "wrap")) {
      const Ref negative = b.op(ops::lt, {at, b.constant(DType::i64, Scalar::of(int64_t{0}))});
      at = b.op(ops::where, {negative, b.op(ops::add, {at, extent}), at});
    }
    if (in_.target != Target::cpu) return b.op(ops::index_in, {at, extent});
    k_.faults = {in_.members[0]};
    return b.add({.kind = Stmt::Kind::op, .op = ops::index_in, .fault = 1, .args = {at, extent}}, DType::i64);
  }

  // Stores the update.
  void write(KernelBuilder b, int updates, int out) {
    Ref value = b.load(updates, update_at_);
    if (const PutMode& mode = *find_put_mode(attr_as<std::string>(n_, "mode")); !mode.sets)
      value = b.op(mode.row(compute_type(type(0).dtype)), {b.load(out, out_at_), value});
    b.store(out, out_at_, value);
  }

  const LowerInput& in_;
  const View index_, updates_;
  const Node& n_;
  const Dims out_strides_;
  const bool along_;  // scatter
  int64_t axis_;
  LoweredKernel k_;
  Kernel& kernel_ = k_.kernel;
  std::vector<Loop> outer_, ordered_, row_;
  bool rows_ = false;  // the last dimension of a row has a loop of its own
  int loops_ = 0;
  Address index_at_, update_at_, out_at_;
  Stmt par_{.kind = Stmt::Kind::par}, loop_{.kind = Stmt::Kind::loop}, in_row_{.kind = Stmt::Kind::loop};
};

}  // namespace

Result<LoweredKernel> lower_scatter(const LowerInput& in) {
  TENON_ASSIGN(Dims out, strides_of(in));
  const Node& n = in.graph.node(in.members[0]);
  auto index = view_of(in.graph, n.inputs[1], in.strides),
       updates = view_of(in.graph, n.inputs[2], in.strides);
  if (!index || !updates) return unsupported("a scatter reads its indices and updates from memory");
  return Scatter(in, std::move(*index), std::move(*updates), std::move(out)).run();
}

}  // namespace tenon::jit
