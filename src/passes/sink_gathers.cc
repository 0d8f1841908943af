// See passes.h. A product of gathered rows computes the same row once for each index. With at least twice as many indices as rows:
//
//   matmul(gather(x[R,K], i), w[K,N]) = gather(matmul(x, w), i)
//   matmul(concat([gather(x, i), gather(y, j), z]), w) = matmul(z, w2) + gather(matmul(x, w0), i) + gather(matmul(y, w1), j)
//
// for the parts w0, w1 and w2 of w. The second rule changes the order of a sum, so it is for numbers of at least 32 bits.
// Tested by tests/golden/passes/sink_gathers.tn and tests/unit/passes/sink_gathers_test.cc.
#include "src/ops/rows/names.h"
#include "src/passes/elementwise.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

// A shorter row costs less to multiply than to gather.
constexpr int64_t kShortestRow = 32;

class GatherSinker {
 public:
  GatherSinker(Builder& b, const Node& product) : b_(b), product_(product), w_(product.inputs[1]) {}

  std::optional<ValueId> product_of(ValueId rows) {
    if (b_.shape(w_).size() != 2 || b_.type(rows).dtype != b_.type(w_).dtype) return {};
    if (is_gather(rows)) return gathered(rows, w_);
    const Node made = node(rows);
    if (made.op != ops::concat || made.inputs.size() < 2 || size_of(b_.type(w_).dtype) < 4) return {};
    const int64_t rank = static_cast<int64_t>(b_.shape(rows).size());
    if (wrap_axis(attr_int(made, "axis"), rank) != rank - 1) return {};
    if (std::ranges::count_if(made.inputs, [&](ValueId part) { return !is_gather(part); }) > 1) return {};
    return sum_of_parts(made.inputs);
  }

 private:
  const Node& node(ValueId v) const { return b_.graph().node(v); }

  // Whether v gathers rows of a matrix, each about twice or more often.
  bool is_gather(ValueId v) const {
    if (node(v).op != ops::gather || attr_int(node(v), "axis") != 0) return false;
    const Dims& rows = b_.shape(node(v).inputs[0]);
    if (rows.size() != 2 || !rows[0].is_const() || !rows[1].is_const() || rows[1].value() < kShortestRow)
      return false;
    const Dim count = b_.dims().product(b_.shape(node(v).inputs[1]));
    return count.is_const() && count.value() / 2 >= rows[0].value();
  }

  ValueId matmul(ValueId a, ValueId w) {
    Node made = product_;
    made.inputs = {a, w};
    made.name.clear();
    return b_.add(std::move(made));
  }

  ValueId gathered(ValueId rows, ValueId w) {
    Node gather = node(rows);
    gather.inputs[0] = matmul(gather.inputs[0], w);
    gather.name.clear();
    return b_.add(std::move(gather));
  }

  ValueId sum_of_parts(const std::vector<ValueId>& parts) {
    std::vector<ValueId> products;
    Dim begin = 0;
    for (const ValueId part : parts) {
      const Dim end = b_.dims().add(begin, b_.shape(part).back());
      const ValueId w = b_(ops::slice, {w_}, {{"axis", Dim(0)}, {"start", begin}, {"end", end}});
      if (is_gather(part))
        products.push_back(gathered(part, w));
      else
        products.insert(products.begin(), matmul(part, w));
      begin = end;
    }
    ValueId sum = products[0];
    for (size_t i = 1; i < products.size(); ++i) sum = b_(ops::add, {sum, products[i]});
    return sum;
  }

  Builder& b_;
  const Node& product_;
  const ValueId w_;
};

}  // namespace

Graph sink_gathers(const Graph& graph) {
  return rewrite(graph, [](Builder& b, Node&& node, ValueId) {
    if (node.op == ops::matmul)
      if (auto sunk = GatherSinker(b, node).product_of(node.inputs[0])) return *sunk;
    return b.add(std::move(node));
  });
}

}  // namespace tenon
