// See blocked_column_sums.h.
#include "jit/transform/blocked_column_sums.h"

#include <algorithm>

#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"
#include "jit/transform/kernel_edit.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

class BlockedColumnSums {
 public:
  BlockedColumnSums(LoweredKernel rows, const LowerInput& in) : rows_(std::move(rows)), in_(in) {}

  Result<std::vector<LoweredKernel>> run() {
    const Stmt& par = rows_.kernel.body[0];
    if (par.simd || par.axes.size() != 1) return unsupported("sums beside rows that are no single loop");
    const auto map =
        std::find_if(par.body.rbegin(), par.body.rend(), [](const Stmt& s) { return !s.axes.empty(); });
    if (map == par.body.rend() || map->kind != K::loop || !map->simd || map->axes.size() != 1)
      return unsupported("sums beside rows whose elements are no single loop");
    columns_ = map->axes[0].extent;
    DimTable& dims = *in_.graph.dims;
    for (const LoweredKernel::Sum& s : rows_.sums) {
      const auto strides = in_.strides(s.value);
      if (!strides || *strides != dense_strides(dims, in_.graph.type(s.value).shape))
        return unsupported("sums beside rows into memory that is not dense");
    }
    const Dim rows = dim(par.axes[0].extent);
    of_block_ = rows_of_block(dims, rows, in_.target);
    blocks_ = dims.ceil_div(rows, of_block_);
    for (const LoweredKernel::Sum& s : rows_.sums)
      temps_.push_back({rows_.kernel.buffers[s.buffer].type, dims.mul(blocks_, dim(columns_))});
    if (dims.is_overflow(temps_[0].length)) return unsupported("sums beside too many rows");
    std::vector<LoweredKernel> kernels{first(), second()};
    return kernels;
  }

 private:
  Dim dim(const Extent& e) const { return dim_of(e, rows_, *in_.graph.dims); }
  // for simd %c in COLUMNS { body }
  template <class Body>
  void over_columns(KernelBuilder& b, const Body& body) const {
    const Ref c = b.variable("c");
    b.loop({c, columns_}, true, [&](KernelBuilder& inner) { body(inner, c); });
  }

  LoweredKernel first() {
    LoweredKernel out = rows_;
    Kernel& k = out.kernel;
    const int temps = add_temps(out, temps_, temps_.size(), Buffer::Role::out);
    const auto count = static_cast<int>(temps_.size());
    const int width = size_of_columns(out);
    const Ref block = k.add_ref(DType::i64, "b");
    Stmt par = std::move(k.body[0]);
    Stmt rows{.kind = K::loop, .axes = {{.var = par.axes[0].var, .of = block}}, .body = std::move(par.body)};
    par.axes[0].var = block;
    par.axes[0].by =
        of_block_.is_const() ? Extent{of_block_.value()} : Extent{1, size_argument(out, of_block_)};
    par.body.clear();
    KernelBuilder b(k, par.body);
    for (const LoweredKernel::Sum& s : out.sums) {
      const DType type = k.buffers[s.buffer].type;
      const Ref zero = b.constant(type, *combine_identity(s.fold, type));
      over_columns(b, [&](KernelBuilder& in, Ref c) { in.store(s.buffer, {{1, -1, c}}, zero); });
    }
    par.body.push_back(std::move(rows));
    for (int t = 0; t < count; ++t)
      over_columns(b, [&](KernelBuilder& in, Ref c) {
        in.store(temps + t, at(width, block, c), in.load(out.sums[t].buffer, {{1, -1, c}}));
      });
    k.body[0] = std::move(par);
    k.name += "_blocks";
    out.sums.clear();
    return out;
  }

  LoweredKernel second() {
    LoweredKernel out;
    Kernel& k = out.kernel;
    k.name = rows_.kernel.name + "_sums";
    out.temps = temps_;
    Stmt fold{.kind = K::reduce};
    Block stores;
    KernelBuilder in_fold(k, fold.body), after_fold(k, stores);
    const int width = size_of_columns(out), blocks = size_argument(out, blocks_);
    const Ref column = k.add_ref(DType::i64, "j"), block = k.add_ref(DType::i64, "b");
    fold.axes = {{block, {1, blocks}}};
    for (size_t t = 0; t < temps_.size(); ++t) {
      const LoweredKernel::Sum& s = rows_.sums[t];
      const DType type = temps_[t].type;
      const auto to = static_cast<int>(k.buffers.size());
      k.buffers.push_back({Buffer::Role::out, in_.graph.type(s.value).dtype, "y" + std::to_string(to), {}});
      k.buffers.push_back({Buffer::Role::in, type, "w" + std::to_string(t), {}});
      out.buffers.push_back(s.value);
      out.buffers.push_back(TempId(t));
      fold.combine.push_back(s.fold);
      fold.yields.push_back(in_fold.load(to + 1, at(width, block, column)));
      fold.results.push_back(k.add_ref(type));
      after_fold.store(to, {{1, -1, column}}, fold.results.back());
    }
    Stmt par{.kind = K::par, .axes = {{column, columns_of(out)}}, .simd = true};
    par.body.push_back(std::move(fold));
    append(par.body, std::move(stores));
    k.body.push_back(std::move(par));
    return out;
  }

  int size_of_columns(LoweredKernel& k) const { return size_argument(k, dim(columns_)); }
  Extent columns_of(LoweredKernel& k) const { return {1, size_of_columns(k)}; }
  static Address at(int width, Ref block, Ref column) { return {{1, width, block}, {1, -1, column}}; }

  LoweredKernel rows_;
  const LowerInput& in_;
  Extent columns_;
  Dim of_block_, blocks_;
  std::vector<Temp> temps_;
};

// Members that read a value, directly or through views.
std::vector<ValueId> readers(const LowerInput& in, ValueId v) {
  std::vector<ValueId> list;
  for (ValueId m : in.members)
    for (ValueId i : in.graph.node(m).inputs) {
      while (i != v && op(in.graph.node(i).op).view) i = in.graph.node(i).inputs[0];
      if (i == v) list.push_back(m);
    }
  return list;
}

// The stored output of a sum: the sum itself, or the cast that is its only reader, perhaps through reshapes.
// kNoValue: members read the sum in other ways.
ValueId stored_sum(const LowerInput& in, ValueId sum) {
  const Graph& g = in.graph;
  auto is_stored = [&](ValueId v) { return std::ranges::count(in.outputs, v) > 0; };
  const std::vector<ValueId> read = readers(in, sum);
  if (read.empty()) return is_stored(sum) ? sum : kNoValue;
  const ValueId cast = read[0];
  ValueId from = g.node(cast).inputs[0];
  while (g.node(from).op == ops::reshape) from = g.node(from).inputs[0];
  const bool alone = read.size() == 1 && from == sum && !is_stored(sum) && readers(in, cast).empty();
  return alone && is_stored(cast) && g.node(cast).op == ops::cast &&
                 compute_type(g.type(cast).dtype) == compute_type(g.type(sum).dtype)
             ? cast
             : kNoValue;
}

}  // namespace

std::vector<LowerInput::Sum> sums_beside_rows(const LowerInput& in) {
  const Graph& g = in.graph;
  std::vector<ValueId> rows;
  std::vector<LowerInput::Sum> sums;
  auto flags = [&](ValueId v) {
    return *axis_flags(attr_ints(g.node(v), "axes"), g.type(g.node(v).inputs[0]).rank());
  };
  for (ValueId v : in.members) {
    const Kind kind = op(g.node(v).op).kind;
    if (kind == Kind::scan || kind == Kind::move) return {};
    if (kind != Kind::reduce) continue;
    if (flags(v).empty() || flags(v).back())
      rows.push_back(v);
    else
      sums.push_back({v, v});
  }
  if (rows.empty() || sums.empty()) return {};
  const Dims& shape = g.type(g.node(rows[0]).inputs[0]).shape;
  std::vector<bool> along = flags(rows[0]);
  Dims row;
  for (size_t d = 0; d < shape.size(); ++d)
    if (along[d]) row.push_back(shape[d]);
  if (!adds_up_columns(g.dims->product(row), in.target)) return {};
  along.flip();
  for (LowerInput::Sum& sum : sums) {
    sum.output = stored_sum(in, sum.fold);
    if (sum.output == kNoValue || flags(sum.fold) != along ||
        g.type(g.node(sum.fold).inputs[0]).shape != shape)
      return {};
  }
  return sums;
}

Result<std::vector<LoweredKernel>> blocked_column_sums(LoweredKernel rows, const LowerInput& in) {
  return BlockedColumnSums(std::move(rows), in).run();
}

}  // namespace tenon::jit
