// See gradient.h. A sweep over the nodes, the last one first: the parts of a node's gradient that its users have
// added are summed, and the node's rule adds parts to its operands. A node without a rule is replaced by its
// body for this purpose: the body's nodes are added and swept before the sweep goes on.
#include "src/passes/gradient.h"

#include <unordered_map>

#include "src/ops/gradients/gradients.h"
#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

// A part that is zero except for `size` positions from `low` on along one axis.
struct Slab {
  ValueId value;
  int axis;
  Dim low, end, high;
};

// What the users of a value have added to its gradient: the sum of the parts so far, and slabs.
struct Parts {
  ValueId sum = kNoValue;
  std::vector<ValueId> slabs;
};

class Sweep {
 public:
  Sweep(Builder& b, std::span<const ValueId> wrt) : b_(b) {
    for (ValueId v : wrt) wanted_.emplace(v, kNoValue);
    extend();
  }

  // Adds parts as they come, so that the parts of a value with many users are not alive at once.
  void add_part(ValueId v, ValueId part) {
    Parts& parts = parts_[v];
    if (slab_of(part))
      parts.slabs.push_back(part);
    else
      parts.sum = plus(parts.sum, part);
  }

  // Visits the nodes [first, end) in reverse order.
  Status run(ValueId first, ValueId end) {
    for (ValueId v = end; v-- > first;) {
      auto parts = parts_.find(v);
      if (parts == parts_.end()) continue;
      const ValueId dy = total(v, std::move(parts->second));
      parts_.erase(v);
      if (auto it = wanted_.find(v); it != wanted_.end()) it->second = dy;
      TENON_TRY(visit(v, dy));
    }
    return {};
  }

  // The gradient of a wanted value; zeros if no target depends on it.
  ValueId gradient_of(ValueId v) {
    ValueId& found = wanted_.at(v);
    if (found == kNoValue) {
      const TensorType type = b_.type(v);
      found = b_(ops::full, {},
                 {{"value", Scalar::of(int64_t{0})}, {"shape", type.shape}, {"dtype", type.dtype}});
    }
    return found;
  }

 private:
  bool depends(ValueId v) const { return v < depends_.size() && depends_[v]; }

  // Computes depends_ of the nodes that the graph has now.
  void extend() {
    for (ValueId v = static_cast<ValueId>(depends_.size()); v < b_.graph().nodes.size(); ++v) {
      const Node& node = b_.graph().node(v);
      bool some = false;
      for (ValueId operand : node.inputs) some = some || depends_[operand];
      some = some && op(node.op).gradient != gradients::zero;
      depends_.push_back(is_float(node.type.dtype) && (some || wanted_.contains(v)));
    }
  }

  Status visit(ValueId v, ValueId dy) {
    const Node node = b_.graph().node(v);
    const Op& row = op(node.op);
    if (row.gradient == gradients::zero) return {};
    GradientContext c{b_, node, v, dy, {}};
    bool some = false;
    for (ValueId operand : node.inputs) {
      c.wanted.push_back(depends(operand));
      some = some || c.wanted.back();
    }
    if (!some) return {};
    if (!row.gradient && row.has_body(b_.graph(), node)) return through_body(node, dy);
    if (!row.gradient)
      return unsupported(describe(b_.graph(), node) + ": no gradient of " + std::string(row.name) +
                         " is known");
    c.out.assign(node.inputs.size(), kNoValue);
    if (Status status = row.gradient(c); !status.ok()) return status.at(describe(b_.graph(), node));
    for (size_t i = 0; i < c.out.size(); ++i) {
      if (c.out[i] == kNoValue) continue;
      TENON_CHECK(c.wanted[i] && b_.type(c.out[i]) == b_.type(node.inputs[i]),
                  "the gradient of operand " + std::to_string(i) + " of " + describe(b_.graph(), node) +
                      " is " + b_.graph().print_type(b_.type(c.out[i])));
      add_part(node.inputs[i], c.out[i]);
    }
    return {};
  }

  Status through_body(const Node& node, ValueId dy) {
    const ValueId first = static_cast<ValueId>(b_.graph().nodes.size());
    // Gradient nodes that earlier bodies have left behind depend on nothing that counts.
    depends_.resize(first, false);
    const ValueId result = op(node.op).body(b_, node);
    extend();
    add_part(result, dy);
    return run(first, static_cast<ValueId>(b_.graph().nodes.size()));
  }

  // The sum in wide arithmetic, which is rounded once, at the end; a: kNoValue or the sum so far.
  ValueId plus(ValueId a, ValueId part) {
    if (a == kNoValue) return part;
    const DType wide = compute_type(b_.type(part).dtype);
    return b_(ops::add, {b_.cast(a, wide), b_.cast(part, wide)});
  }

  ValueId total(ValueId v, Parts parts) {
    join_slabs(parts.slabs);
    for (ValueId slab : parts.slabs) parts.sum = plus(parts.sum, slab);
    return b_.cast(parts.sum, b_.type(v).dtype);
  }

  // The part as a slab, if it is a pad with zeros along one axis.
  std::optional<Slab> slab_of(ValueId part) const {
    const Node& node = b_.graph().node(part);
    if (node.op != ops::pad || attr_as<Scalar>(node, "value").as_double() != 0) return {};
    const Dims &low = attr_as<Dims>(node, "low"), &high = attr_as<Dims>(node, "high");
    std::optional<Slab> slab;
    for (size_t i = 0; i < low.size(); ++i) {
      if (low[i] == Dim(0) && high[i] == Dim(0)) continue;
      if (slab) return {};
      const ValueId value = node.inputs[0];
      slab =
          Slab{value, static_cast<int>(i), low[i], b_.graph().dims->add(low[i], b_.shape(value)[i]), high[i]};
    }
    return slab;
  }

  // Slabs that follow one another, the gradients of a split, become one concatenation.
  void join_slabs(std::vector<ValueId>& parts) {
    std::vector<Slab> slabs;
    std::vector<ValueId> rest;
    for (ValueId part : parts) {
      auto slab = slab_of(part);
      if (slab && (slabs.empty() || slabs[0].axis == slab->axis))
        slabs.push_back(*slab);
      else
        rest.push_back(part);
    }
    if (slabs.size() < 2) return;
    for (size_t i = 0; i < slabs.size(); ++i) {  // slabs[i]: the one that starts where the former ends
      bool found = false;
      for (size_t k = i; k < slabs.size() && !found; ++k) {
        bool next = i > 0 && slabs[k].low == slabs[i - 1].end;
        if (i == 0) {
          next = true;
          for (const Slab& other : slabs)
            next = next && (other.end != slabs[k].low || other.end == other.low);
        }
        if (!next) continue;
        std::swap(slabs[i], slabs[k]);
        found = true;
      }
      if (!found) return;
    }
    Node concat;
    concat.op = ops::concat;
    concat.attrs = {Dim(slabs[0].axis)};
    for (const Slab& slab : slabs) concat.inputs.push_back(slab.value);
    const ValueId joined = b_.add(std::move(concat));
    Dims low(b_.shape(joined).size(), Dim(0)), high = low;
    low[slabs[0].axis] = slabs.front().low;
    high[slabs[0].axis] = slabs.back().high;
    const bool all = slabs.front().low == Dim(0) && slabs.back().high == Dim(0);
    rest.push_back(all ? joined : b_(ops::pad, {joined}, {{"low", low}, {"high", high}}));
    parts = std::move(rest);
  }

  Builder& b_;
  std::unordered_map<ValueId, ValueId> wanted_;  // the values of wrt and their gradients
  std::unordered_map<ValueId, Parts> parts_;
  // Per node: whether a value of wrt changes it. Nodes behind the vector's end are not differentiated.
  std::vector<bool> depends_;
};

Status check_float(const Graph& graph, ValueId v, const char* what) {
  const DType dtype = graph.type(v).dtype;
  if (is_float(dtype)) return {};
  return invalid(std::string(what) + " " + graph.value_name(v) + " is " + graph.print_type(graph.type(v)) +
                 "; only floats have gradients");
}

// The float values among `values` at the chosen positions; absent: all.
template <class Binding>
Result<std::vector<ValueId>> chosen(const Graph& graph, const std::vector<Binding>& values,
                                    const std::optional<std::vector<int>>& positions, const char* what) {
  std::vector<ValueId> out;
  if (!positions) {
    for (const Binding& binding : values)
      if (is_float(graph.type(binding.value).dtype)) out.push_back(binding.value);
    return out;
  }
  for (int i : *positions) {
    if (i < 0 || i >= static_cast<int>(values.size()))
      return invalid("gradient: there is no " + std::string(what) + " " + std::to_string(i) + " among " +
                     std::to_string(values.size()));
    out.push_back(values[i].value);
  }
  return out;
}

Result<ValueId> add_head(Builder& b, ValueId target) {
  const TensorType type = b.type(target);
  std::string name = "d_" + b.graph().value_name(target).substr(1);
  auto head = b.try_input(name, type);
  for (int i = 2; !head.ok() && i < 100; ++i) head = b.try_input(name + "_" + std::to_string(i), type);
  return head;
}

}  // namespace

Result<std::vector<ValueId>> add_gradients(Builder& b, std::span<const ValueId> targets,
                                           std::span<const ValueId> heads, std::span<const ValueId> wrt) {
  const Graph& graph = b.graph();
  const ValueId end = static_cast<ValueId>(graph.nodes.size());
  for (std::span<const ValueId> values : {targets, wrt})
    for (ValueId v : values)
      if (v >= end) return invalid("gradient: there is no value " + std::to_string(v));
  for (ValueId v : heads)
    if (v >= end && v != kNoValue) return invalid("gradient: there is no value " + std::to_string(v));
  if (!heads.empty() && heads.size() != targets.size())
    return invalid("gradient: " + std::to_string(heads.size()) + " heads for " +
                   std::to_string(targets.size()) + " targets");
  for (ValueId v : targets) TENON_TRY(check_float(graph, v, "the target"));
  for (ValueId v : wrt) TENON_TRY(check_float(graph, v, "the value"));
  Sweep sweep(b, wrt);
  for (size_t i = 0; i < targets.size(); ++i) {
    const TensorType type = b.type(targets[i]);
    ValueId head = heads.empty() ? kNoValue : heads[i];
    if (head == kNoValue)
      head =
          b(ops::full, {}, {{"value", Scalar::of(int64_t{1})}, {"shape", type.shape}, {"dtype", type.dtype}});
    if (!(b.type(head) == type))
      return invalid("the head " + graph.value_name(head) + " is " + graph.print_type(b.type(head)) +
                     ", the target " + graph.value_name(targets[i]) + " is " + graph.print_type(type));
    sweep.add_part(targets[i], head);
  }
  TENON_TRY(sweep.run(0, end));
  std::vector<ValueId> out;
  for (ValueId v : wrt) out.push_back(sweep.gradient_of(v));
  return out;
}

Result<Graph> gradient(const Graph& graph, const GradientOptions& options) {
  Graph made = without_updates(graph);
  made.dims = std::make_shared<DimTable>(*graph.dims);
  for (Node& node : made.nodes) node.group = -1;
  made.groups.clear();
  TENON_ASSIGN(const std::vector<ValueId> targets, chosen(graph, graph.outputs, options.targets, "output"));
  TENON_ASSIGN(const std::vector<ValueId> wrt, chosen(graph, graph.inputs, options.wrt, "input"));
  for (ValueId v : targets) TENON_TRY(check_float(graph, v, "the target"));
  Builder b(made);
  std::vector<ValueId> heads;
  for (size_t i = 0; options.heads && i < targets.size(); ++i) {
    TENON_ASSIGN(const ValueId head, add_head(b, targets[i]));
    heads.push_back(head);
  }
  TENON_ASSIGN(const std::vector<ValueId> gradients, add_gradients(b, targets, heads, wrt));
  if (!options.keep_outputs) made.outputs.clear();
  for (ValueId v : gradients) made.outputs.push_back({v, std::nullopt});
  return rewrite(made, [](Builder& builder, Node&& node, ValueId) { return builder.add(std::move(node)); });
}

}  // namespace tenon
