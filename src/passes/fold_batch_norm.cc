// See passes.h. batch_norm(conv(x, w, b?), mean, var, weight?, bias?) = conv(x, w * s, (b - mean) * s + bias)
// with s = weight / sqrt(var + eps) per output channel. All new values depend on constants only, so they are
// computed once. Tested by tests/golden/passes/fold_batch_norm.tn.
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

bool is_constant(const Graph& g, ValueId v) {
  while (g.node(v).op == ops::cast || op(g.node(v).op).view) v = g.node(v).inputs[0];
  return g.node(v).op == ops::constant || g.node(v).op == ops::full;
}

}  // namespace

Graph fold_batch_norm(const Graph& graph) {
  const std::vector<int> uses = graph.use_counts();
  return rewrite(graph, [&](Builder& b, Node&& node, ValueId old) {
    const Graph& g = b.graph();
    if (node.op != ops::batch_norm || g.node(node.inputs[0]).op != ops::convolution ||
        uses[graph.node(old).inputs[0]] != 1 || attr_int(node, "axis") != 1)
      return b.add(std::move(node));
    const Node conv = g.node(node.inputs[0]);
    const ValueId w = conv.inputs[1];
    bool constant = is_constant(g, w) && (conv.inputs.size() < 3 || is_constant(g, conv.inputs[2]));
    for (size_t i = 1; i < node.inputs.size(); ++i) constant = constant && is_constant(g, node.inputs[i]);
    const DType dtype = b.type(w).dtype;
    if (!constant || attr_as<bool>(conv, "transposed") ||
        attr_as<std::string>(conv, "layout") != "channels_first")
      return b.add(std::move(node));
    auto f32 = [&](ValueId v) { return b.cast(v, DType::f32); };
    const ValueId mean = f32(node.inputs[1]), var = f32(node.inputs[2]);
    const ValueId eps = b.scalar(attr_as<double>(node, "eps"), DType::f32);
    ValueId s = b(ops::rsqrt, {b(ops::add, {var, eps})});
    if (node.inputs.size() > 3) s = b(ops::mul, {f32(node.inputs[3]), s});
    Dims per_channel(b.shape(w).size(), Dim(1));
    per_channel[0] = b.shape(w)[0];
    const ValueId scaled = b.cast(b(ops::mul, {f32(w), b.reshape(s, per_channel)}), dtype);
    ValueId shift = conv.inputs.size() > 2 ? b(ops::sub, {f32(conv.inputs[2]), mean}) : b(ops::neg, {mean});
    shift = b(ops::mul, {shift, s});
    if (node.inputs.size() > 4) shift = b(ops::add, {shift, f32(node.inputs[4])});
    Node folded;
    folded.op = ops::convolution;
    folded.inputs = {conv.inputs[0], scaled, b.cast(shift, dtype)};
    folded.attrs = conv.attrs;
    return b.add(std::move(folded));
  });
}

}  // namespace tenon
