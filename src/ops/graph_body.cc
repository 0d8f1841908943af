// See graph_body.h. Tested by tests/abi/capi*.c.
#include "src/ops/graph_body.h"

#include <algorithm>
#include <map>

#include "src/ir/builder.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/rows/names.h"
#include "src/ops/table.h"

namespace tenon {
namespace {

// Translates sizes of the body's table to the table of the graph that gets the body.
class Translate {
 public:
  Translate(const DimTable& from, DimTable& to) : from_(from), to_(to), values_(from.symbol_count()) {}

  bool known(Dim symbol) const { return values_[from_.symbol_number(symbol)].has_value(); }
  void bind(Dim symbol, Dim value) { values_[from_.symbol_number(symbol)] = value; }

  Dim operator()(Dim d) const {
    if (d.is_const()) return d;
    if (from_.is_overflow(d)) return to_.overflow();
    const DimTable::Expr& e = from_.expr(d);
    switch (e.kind) {
      case DimTable::Kind::symbol: return *values_[from_.symbol_number(d)];
      case DimTable::Kind::sum: {
        Dim sum(0);
        for (const DimTable::Term& term : e.terms) {
          Dim product(term.factor);
          for (Dim atom : term.atoms) product = to_.mul(product, (*this)(atom));
          sum = to_.add(sum, product);
        }
        return sum;
      }
      case DimTable::Kind::floor_div:
        return divisor(e) ? to_.floor_div((*this)(e.a), (*this)(e.b)) : to_.overflow();
      case DimTable::Kind::mod: return divisor(e) ? to_.mod((*this)(e.a), (*this)(e.b)) : to_.overflow();
      case DimTable::Kind::max: return to_.max((*this)(e.a), (*this)(e.b));
      case DimTable::Kind::min: return to_.min((*this)(e.a), (*this)(e.b));
    }
    return to_.overflow();
  }
  void apply(AttrValue& value) const {
    if (Dim* d = std::get_if<Dim>(&value)) *d = (*this)(*d);
    if (Dims* dims = std::get_if<Dims>(&value))
      for (Dim& d : *dims) d = (*this)(d);
  }

 private:
  bool divisor(const DimTable::Expr& e) const { return (*this)(e.b) != Dim(0); }

  const DimTable& from_;
  DimTable& to_;
  std::vector<std::optional<Dim>> values_;
};

struct GraphBody {
  std::shared_ptr<const Graph> graph;
  int arity = 0;
  int64_t nodes = 0;  // including those of nested bodies
  int depth = 1;      // of registered ops within one another

  // Adds the body to b's graph, with node's operands as its operands.
  Result<ValueId> put(Builder& b, const Node& node) const {
    const Op& row = op(node.op);
    Translate translate(*graph->dims, b.dims());
    std::map<ValueId, ValueId> map;
    for (size_t i = 0; i < row.attr_specs.size(); ++i)
      if (const Dim* d = std::get_if<Dim>(&node.attrs[i]))
        if (auto symbol = graph->dims->find_symbol(row.attr_specs[i].name)) translate.bind(*symbol, *d);
    for (int i = 0; i < arity; ++i) {
      const ValueId input = graph->inputs[i].value;
      TENON_TRY(unify(b.graph(), graph->type(input), b.type(node.inputs[i]), translate)
                    .at(describe(b.graph(), node) + ": operand " + std::to_string(i)));
      map[input] = node.inputs[i];
    }
    for (size_t i = arity; i < graph->inputs.size(); ++i) {
      const ValueId input = graph->inputs[i].value;
      map[input] = literal(b, attr(node, graph->node(input).name), graph->type(input).dtype);
    }
    for (ValueId v = 0; v < graph->nodes.size(); ++v) {
      Node inner = graph->node(v);
      if (inner.op == ops::input) continue;
      for (ValueId& operand : inner.inputs) operand = map[operand];
      for (AttrValue& value : inner.attrs) translate.apply(value);
      inner.name.clear();
      inner.group = -1;
      auto added = b.try_add(std::move(inner));
      if (!added.ok()) return added.status().at(describe(b.graph(), node));
      map[v] = *added;
    }
    return map[graph->outputs[0].value];
  }

  // Bounds the work of inference and expansion.
  Status measure() {
    constexpr int64_t kMostNodes = 10000;
    constexpr int kMostDepth = 32;
    for (const Node& n : graph->nodes) {
      const GraphBody* inner = op(n.op).body.target<GraphBody>();
      nodes += inner ? inner->nodes : 1;
      if (inner) depth = std::max(depth, inner->depth + 1);
      if (nodes > kMostNodes)
        return invalid("the body, the bodies of its nodes included, has more than " +
                       std::to_string(kMostNodes) + " nodes");
    }
    if (depth > kMostDepth)
      return invalid("its body is " + std::to_string(depth) + " levels deep, above " +
                     std::to_string(kMostDepth));
    return {};
  }

  // For expansion, after inference has accepted the node.
  ValueId operator()(Builder& b, const Node& node) const {
    auto v = put(b, node);
    TENON_CHECK(v.ok(), v.status().message());
    return *v;
  }

 private:
  Status unify(const Graph& g, const TensorType& want, const TensorType& got, Translate& translate) const {
    const DimTable& dims = *graph->dims;
    auto mismatch = [&](Code code) {
      return Status(code, "is " + g.print_type(got) + ", the body takes " + graph->print_type(want));
    };
    if (want.dtype != got.dtype || want.rank() != got.rank()) return mismatch(Code::invalid);
    for (int a = 0; a < want.rank(); ++a)
      if (dims.is_symbol(want.shape[a]) && !translate.known(want.shape[a]))
        translate.bind(want.shape[a], got.shape[a]);
    for (int a = 0; a < want.rank(); ++a) {
      const Dim size = translate(want.shape[a]);
      if (size == got.shape[a]) continue;
      return mismatch(size.is_const() && got.shape[a].is_const() ? Code::invalid : Code::unsupported);
    }
    return {};
  }

  static ValueId literal(Builder& b, const AttrValue& value, DType dtype) {
    if (const Dim* d = std::get_if<Dim>(&value)) return b.size(*d, dtype);
    if (const bool* yes = std::get_if<bool>(&value)) return b.scalar_int(*yes ? 1 : 0, dtype);
    if (const double* x = std::get_if<double>(&value)) return b.scalar(*x, dtype);
    const Scalar& s = std::get<Scalar>(value);
    return s.is_int ? b.scalar_int(s.i, dtype) : b.scalar(s.d, dtype);
  }
};

Result<TensorType> infer_body(const InferContext& c) {
  const GraphBody* body = op(c.node.op).body.target<GraphBody>();
  TENON_CHECK(body, "no graph body");
  Graph scratch;
  scratch.dims = c.graph.dims;
  Builder b(scratch);
  Node node = c.node;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    TENON_ASSIGN(node.inputs[i], b.try_input("", c.operand(static_cast<int>(i))));
  }
  TENON_ASSIGN(const ValueId result, body->put(b, node));
  return scratch.type(result);
}
Result<Dims> body_shape(InferContext& c) {
  if (c.whole) return c.whole->shape;
  TENON_ASSIGN(TensorType type, infer_body(c));
  return std::move(type.shape);
}
// The type rule runs first and keeps the whole type; inferring it in both rules would double the work at
// every nested body.
Result<DType> body_type(InferContext& c) {
  TENON_ASSIGN(c.whole, infer_body(c));
  return c.whole->dtype;
}

// Checks that the op provides every input and symbol of the body.
Status check_body(const Graph& g, int arity, const std::vector<AttrSpec>& specs) {
  if (!g.dims->equalities().empty())
    return unsupported("the body assumes that sizes are equal, which only the graph around it may do");
  for (int i = 0; i < g.dims->symbol_count(); ++i) {
    const Dim symbol = g.dims->symbol_at(i);
    if (g.dims->range(symbol) != std::pair(int64_t{0}, DimTable::kHighest))
      return unsupported("the body assumes that " + g.dims->print_range(symbol) +
                         ", which only the graph around it may do");
  }
  auto spec = [&](std::string_view name) -> const AttrSpec* {
    for (const AttrSpec& s : specs)
      if (s.name == name) return &s;
    return nullptr;
  };
  for (const AttrSpec& s : specs)
    if (s.kind != AttrKind::integer && s.kind != AttrKind::floating && s.kind != AttrKind::boolean &&
        s.kind != AttrKind::number)
      return invalid("attribute " + s.name +
                     ": the kinds of a registered op are int, float, bool and number");
  if (g.outputs.size() != 1) return invalid("the body must have one output");
  if (static_cast<int>(g.inputs.size()) < arity)
    return invalid("the body has " + std::to_string(g.inputs.size()) + " inputs for " +
                   std::to_string(arity) + " operands");
  std::vector<Dim> bound;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const ValueId v = g.inputs[i].value;
    if (g.inputs[i].strides || g.inputs[i].symbol || g.inputs[i].param)
      return invalid("the body's input " + g.value_name(v) + " may have only a name and a type");
    if (static_cast<int>(i) < arity) {
      for (Dim d : g.type(v).shape)
        if (g.dims->is_symbol(d)) bound.push_back(d);
    } else if (g.type(v).rank() != 0 || !spec(g.node(v).name)) {
      return invalid("the body's input " + g.value_name(v) +
                     " is neither an operand nor an attribute of shape []");
    }
  }
  for (int i = 0; i < g.dims->symbol_count(); ++i) {
    const Dim symbol = g.dims->symbol_at(i);
    const AttrSpec* s = spec(g.dims->symbol_name(symbol));
    if (std::find(bound.begin(), bound.end(), symbol) == bound.end() && !(s && s->kind == AttrKind::integer))
      return invalid("the body's size " + g.dims->symbol_name(symbol) +
                     " is neither a size of an operand nor an attribute of kind int");
  }
  if (g.outputs[0].updates) return invalid("the body's output must not update an input");
  if (g.outputs[0].strides) return invalid("the body's output must not declare strides");
  return {};
}

}  // namespace

Result<OpId> register_graph_body(std::string_view name, int arity, std::string_view attrs,
                                 std::string_view body, std::string_view doc) {
  const std::string where = "op " + std::string(name);
  if (arity < 0) return invalid(where + ": the arity must be 0 to 64");
  auto graph = parse_graph(body);
  if (!graph.ok()) return graph.status().at(where + ": body");
  auto specs = parse_attr_specs(attrs);
  if (!specs.ok()) return specs.status().at(where);
  TENON_TRY(check_body(*graph, arity, *specs).at(where));
  Op row;
  row.name = name;
  row.kind = Kind::composite;
  row.arity = arity;
  row.attrs = attrs;
  row.shape = body_shape;
  row.type = body_type;
  GraphBody made{std::make_shared<const Graph>(std::move(*graph)), arity};
  TENON_TRY(made.measure().at(where));
  row.body = std::move(made);
  row.doc = doc;
  return register_op(std::move(row));
}

}  // namespace tenon
