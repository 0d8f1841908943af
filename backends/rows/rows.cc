// See rows.h. A group is one node. A step distributes the rows over threads; each thread has its own scratch memory.
#include "backends/rows/rows.h"

#include <algorithm>

#include "backends/rows/order.h"
#include "backends/rows/search.h"
#include "backends/rows/short_orders.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/operand.h"
#include "src/ops/rules/rules.h"

namespace tenon {
namespace {

constexpr int64_t kWorkPerThread = 1 << 13;  // elements; fewer do not pay for waking a thread
constexpr int64_t kPiece = 1 << 12;          // values of a search that one thread takes

// An operand at a plan's sizes. row() computes the address of a row.
struct Place {
  int buffer = 0;
  int64_t item = 0, offset = 0;  // bytes
  std::vector<int64_t> strides;  // of the outer axes, in elements

  char* row(void* const* buffers, std::span<const int64_t> index) const {
    int64_t at = 0;
    for (size_t i = 0; i < strides.size(); ++i) at += strides[i] * index[i];
    return static_cast<char*>(buffers[buffer]) + offset + at * item;
  }
};

class RowsStep : public Step {
 public:
  std::vector<int64_t> outer;            // sizes of the outer axes, which enumerate the rows
  std::vector<Place> places;             // operands, then the result
  int64_t rows = 0, thread_scratch = 0;  // thread_scratch: bytes
  int threads = 1;

  int64_t scratch_bytes() const override { return thread_scratch * threads; }
  int64_t bytes() const override {
    size_t sum = sizeof *this + outer.capacity() * sizeof(int64_t);
    for (const Place& p : places) sum += sizeof p + p.strides.capacity() * sizeof(int64_t);
    return static_cast<int64_t>(sum);
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    Call call{this, buffers, scratch};
    on.parallel.run(rows, threads, run_range, &call);
    return {};
  }

 protected:
  // index: of the row, along the outer axes.
  virtual void run_row(const int64_t* index, char* const* at, char* scratch) const = 0;

 private:
  static constexpr size_t kMostPlaces = 3;
  struct Call {
    const RowsStep* step;
    void* const* buffers;
    char* scratch;
  };
  static void run_range(void* arg, int thread, int64_t begin, int64_t end) {
    const Call& c = *static_cast<const Call*>(arg);
    const RowsStep& s = *c.step;
    int64_t index[kMaxRank] = {};
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r;
      for (size_t i = s.outer.size(); i-- > 0;) {
        index[i] = rest % s.outer[i];
        rest /= s.outer[i];
      }
      char* at[kMostPlaces];
      for (size_t k = 0; k < s.places.size(); ++k) at[k] = s.places[k].row(c.buffers, index);
      s.run_row(index, at, c.scratch + thread * s.thread_scratch);
    }
  }
};

class OrderStep final : public RowsStep {
 public:
  rows::OrderRow row;
  rows::OrderFn order = nullptr;

 protected:
  void run_row(const int64_t*, char* const* at, char* scratch) const override {
    order(row, at[0], reinterpret_cast<int64_t*>(at[1]), scratch);
  }
};

// The last outer axis enumerates pieces of kPiece values, so that threads share one row.
class SearchStep final : public RowsStep {
 public:
  rows::SearchRow row;
  rows::SearchFn search = nullptr;

 protected:
  void run_row(const int64_t* index, char* const* at, char*) const override {
    rows::SearchRow piece = row;
    piece.values = std::min(kPiece, row.values - index[outer.size() - 1] * kPiece);
    search(piece, at[0], at[1], reinterpret_cast<int64_t*>(at[2]));
  }
};

class RowsNode final : public Executable {
 public:
  OpId op = 0;
  std::string name;
  bool flag = false;     // the attribute `descending` of sort_order, `right` of search
  bool selects = false;  // the attribute `select` of sort_order
  int axis = 0;
  Dim start;
  std::vector<Operand> operands;  // then the result

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    return op == ops::sort_order ? prepare_order(sizes) : prepare_search(sizes);
  }
  bool may_fail() const override { return false; }
  std::string describe() const override { return name + " of rows"; }

 private:
  // Adds an operand to the step. All axes except `inner` enumerate rows; if `inner` < 0, all axes do.
  static void place(RowsStep& step, const Operand& o, const Sizes& sizes, int inner) {
    Place p;
    p.buffer = o.buffer;
    p.item = size_of(o.dtype);
    p.offset = sizes.eval(o.offset) * p.item;
    p.strides = sizes.eval(o.strides);
    if (inner >= 0 && !p.strides.empty()) p.strides.erase(p.strides.begin() + inner);
    step.places.push_back(std::move(p));
  }
  static void share(RowsStep& step, const Sizes& sizes, int64_t work) {
    step.rows = 1;
    for (int64_t n : step.outer) step.rows *= n;
    const int64_t shares = std::min(step.rows, step.rows * std::max<int64_t>(work, 1) / kWorkPerThread);
    step.threads = static_cast<int>(std::clamp<int64_t>(shares, 1, sizes.threads));
  }

  Result<std::unique_ptr<Step>> prepare_order(const Sizes& sizes) const {
    auto step = std::make_unique<OrderStep>();
    const Operand &x = operands[0], &y = operands[1];
    const auto inner = static_cast<size_t>(axis);
    step->outer = sizes.eval(x.shape);
    step->row.length = step->outer[inner];
    step->outer.erase(step->outer.begin() + axis);
    step->row.start = sizes.eval(start);
    step->row.selects = selects;
    step->row.count = sizes.eval(y.shape[inner]);
    step->row.stride = sizes.eval(x.strides[inner]);
    step->row.result_stride = sizes.eval(y.strides[inner]);
    if (step->row.length > rows::kLongestRow) return unsupported("rows of more than 2^31 - 1 elements");
    step->order = rows::order_of(x.dtype, flag);
    place(*step, x, sizes, axis);
    place(*step, y, sizes, axis);
    share(*step, sizes, step->row.count == 0 ? 0 : step->row.length);
    if (step->row.count > 0 && step->rows > 0)
      step->thread_scratch = align_up(rows::order_scratch(x.dtype, step->row));
    return std::unique_ptr<Step>(std::move(step));
  }

  Result<std::unique_ptr<Step>> prepare_search(const Sizes& sizes) const {
    auto step = std::make_unique<SearchStep>();
    const Operand &sorted = operands[0], &values = operands[1], &y = operands[2];
    const std::vector<int64_t> shape = sizes.eval(values.shape);
    const bool scalar = shape.empty(), one_row = sorted.shape.size() == 1;
    const int last = static_cast<int>(shape.size()) - 1;
    step->row.length = sizes.eval(sorted.shape.back());
    step->row.stride = sizes.eval(sorted.strides.back());
    step->row.values = scalar ? 1 : shape.back();
    if (!scalar) {
      step->row.value_stride = sizes.eval(values.strides.back());
      step->row.result_stride = sizes.eval(y.strides.back());
    }
    step->search = rows::search_of(sorted.dtype, flag);
    step->outer = shape;
    if (!scalar) step->outer.pop_back();
    place(*step, sorted, sizes, static_cast<int>(sorted.shape.size()) - 1);
    if (one_row) step->places[0].strides.assign(step->outer.size(), 0);
    place(*step, values, sizes, last);
    place(*step, y, sizes, last);
    step->outer.push_back(ceil_div(step->row.values, kPiece));
    const int64_t apart[] = {0, step->row.value_stride * kPiece, step->row.result_stride * kPiece};
    for (size_t k = 0; k < step->places.size(); ++k) step->places[k].strides.push_back(apart[k]);
    share(*step, sizes, std::min(kPiece, step->row.values));
    return std::unique_ptr<Step>(std::move(step));
  }
};

class RowsBackend final : public Backend {
 public:
  std::string_view name() const override { return "rows"; }

  Bid bid(const Graph& graph, ValueId v) const override {
    const OpId id = graph.node(v).op;
    if (id == ops::sort_order || id == ops::search) return {true, 1, "row by row"};
    return {false, 0, std::string(op(id).name) + " compares no rows"};
  }
  ValueId legalize(Builder& b, Node node) const override {
    return rows::is_short_order(b.graph(), node) ? rows::order_by_rank(b, node) : b.add(std::move(node));
  }
  Bid joins(const Graph&, const Uses&, std::span<const ValueId>, ValueId) const override {
    return {false, 0, "nothing joins an order or a search of rows"};
  }

  Result<std::unique_ptr<Executable>> build_group(const BuildContext& context,
                                                  std::span<const ValueId> members) override {
    const Graph& g = context.graph;
    auto strides = [&](ValueId v) { return context.strides_of(v); };
    const ValueId v = members.back();
    const Node& node = g.node(v);
    auto e = std::make_unique<RowsNode>();
    e->op = node.op;
    e->name = std::string(op(node.op).name);
    e->flag = attr_as<bool>(node, node.op == ops::sort_order ? "descending" : "right");
    if (node.op == ops::sort_order) {
      e->axis = *normal_axis(attr_int(node, "axis"), g.type(v).rank());
      e->start = attr_as<Dim>(node, "start");
      e->selects = attr_as<bool>(node, "select");
    }
    e->inputs = inputs_of(g, members);
    e->outputs = {v};
    for (ValueId i : node.inputs) {
      Operand o = operand_of(g, i, strides);
      o.buffer = e->position_of(o.base);
      e->operands.push_back(std::move(o));
    }
    Operand result = stored_operand(g, v);
    result.strides = context.layouts[v].strides;
    result.buffer = static_cast<int>(e->inputs.size());
    e->operands.push_back(std::move(result));
    return std::unique_ptr<Executable>(std::move(e));
  }
  std::string describe() const override { return "orders and searches of rows"; }
};

}  // namespace

Backend& rows_backend() { return immortal<RowsBackend>(); }

}  // namespace tenon
