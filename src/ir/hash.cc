// See hash.h. Sums and products are hashed as sets, because their order follows the handles of the table,
// which depend on the graph's history. Tested by tests/unit/ir/ir_test.cc.
#include "src/ir/hash.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <unordered_map>

#include "src/ir/op.h"

namespace tenon {
namespace {

class GraphHasher {
 public:
  explicit GraphHasher(const Graph& graph) : graph_(graph) {}

  Hash128 run() {
    number_symbols();
    number(graph_.inputs.size());
    for (const InputBinding& in : graph_.inputs) {
      number(in.value);
      type(graph_.type(in.value));
      number(in.param);
      number(in.donated);
      maybe(in.strides);
      number(in.symbol.has_value());
      if (in.symbol) dim(*in.symbol);
    }
    number(graph_.nodes.size());
    for (const Node& n : graph_.nodes) node(n);
    number(graph_.outputs.size());
    for (const OutputBinding& out : graph_.outputs) {
      number(out.value);
      maybe(out.strides);
      number(out.updates ? static_cast<uint64_t>(*out.updates) + 1 : 0);
    }
    number(graph_.groups.size());
    for (const Group& g : graph_.groups) hasher_.text(g.backend);
    for (Dim symbol : symbols_) {
      auto [low, high] = graph_.dims->range(symbol);
      number(low);
      number(high);
    }
    number(graph_.dims->equalities().size());
    for (auto [a, b] : graph_.dims->equalities()) {
      dim(a);
      dim(b);
    }
    return hasher_.finish();
  }

 private:
  void number(uint64_t x) { hasher_.number(x); }

  void floating(double x) { number(std::isnan(x) ? 0x7ff8000000000000 : std::bit_cast<uint64_t>(x)); }

  void dim(Dim d) { hasher_.hash(dim_hash(d)); }

  void dims(const Dims& dims) {
    number(dims.size());
    for (Dim d : dims) dim(d);
  }

  void maybe(const std::optional<Dims>& strides) {
    number(strides.has_value());
    if (strides) dims(*strides);
  }

  void type(const TensorType& t) {
    number(static_cast<uint64_t>(t.dtype));
    dims(t.shape);
  }

  size_t symbol_number(Dim symbol) {
    auto [it, fresh] = numbers_.emplace(symbol.bits, symbols_.size());
    if (fresh) symbols_.push_back(symbol);
    return it->second;
  }

  // Symbols are numbered by their first use in the inputs, where most are whole sizes. Symbols that are never
  // a whole size are ordered by name; so a renamed graph may have another hash, which costs a cache hit and
  // nothing else.
  void number_symbols() {
    SymbolsOf inside(*graph_.dims);
    auto visit = [&](Dim d) {
      if (graph_.dims->is_symbol(d))
        symbol_number(d);
      else
        inside.add(d);
    };
    for (const InputBinding& in : graph_.inputs) {
      for (Dim d : graph_.type(in.value).shape) visit(d);
      for (Dim d : in.strides.value_or(Dims())) visit(d);
      if (in.symbol) visit(*in.symbol);
    }
    for (const Node& n : graph_.nodes) {
      for (const AttrValue& value : n.attrs) {
        if (auto* d = std::get_if<Dim>(&value)) visit(*d);
        if (auto* dims = std::get_if<Dims>(&value))
          for (Dim d : *dims) visit(d);
      }
    }
    for (const OutputBinding& out : graph_.outputs)
      for (Dim d : out.strides.value_or(Dims())) visit(d);
    for (auto [a, b] : graph_.dims->equalities()) visit(a), visit(b);
    std::vector<Dim> others = inside.list();
    std::sort(others.begin(), others.end(),
              [&](Dim a, Dim b) { return graph_.dims->symbol_name(a) < graph_.dims->symbol_name(b); });
    for (Dim d : others) symbol_number(d);
  }

  Hash128 dim_hash(Dim d) {
    auto known = dim_hashes_.find(d.bits);
    if (known != dim_hashes_.end()) return known->second;
    Hasher h;
    if (d.is_const()) {
      h.number(0).number(static_cast<uint64_t>(d.value()));
    } else if (graph_.dims->is_overflow(d)) {
      h.number(1);
    } else {
      const DimTable::Expr& e = graph_.dims->expr(d);
      h.number(2 + static_cast<uint64_t>(e.kind));
      if (e.kind == DimTable::Kind::symbol) {
        h.number(symbol_number(d));
      } else if (e.kind == DimTable::Kind::sum) {
        std::vector<Hash128> terms;
        for (const DimTable::Term& t : e.terms) terms.push_back(term_hash(t));
        add_sorted(h, std::move(terms));
      } else if (e.kind == DimTable::Kind::max || e.kind == DimTable::Kind::min) {
        add_sorted(h, {dim_hash(e.a), dim_hash(e.b)});
      } else {
        Hash128 a = dim_hash(e.a);
        h.hash(a).hash(dim_hash(e.b));
      }
    }
    return dim_hashes_[d.bits] = h.finish();
  }

  Hash128 term_hash(const DimTable::Term& t) {
    std::vector<Hash128> atoms;
    for (Dim atom : t.atoms) atoms.push_back(dim_hash(atom));
    Hasher h;
    h.number(static_cast<uint64_t>(t.factor));
    add_sorted(h, std::move(atoms));
    return h.finish();
  }

  static void add_sorted(Hasher& h, std::vector<Hash128> parts) {
    std::sort(parts.begin(), parts.end());
    h.number(parts.size());
    for (const Hash128& part : parts) h.hash(part);
  }

  void node(const Node& n) {
    hasher_.text(op(n.op).name);
    number(n.inputs.size());
    for (ValueId v : n.inputs) number(v);
    number(n.attrs.size());
    for (const AttrValue& value : n.attrs) attribute(value);
    type(n.type);
    number(static_cast<uint64_t>(static_cast<int64_t>(n.group)));
  }

  void attribute(const AttrValue& value) {
    number(value.index());
    switch (static_cast<AttrKind>(value.index())) {
      case AttrKind::integer: return dim(std::get<Dim>(value));
      case AttrKind::ints: return dims(std::get<Dims>(value));
      case AttrKind::floating: return floating(std::get<double>(value));
      case AttrKind::boolean: return number(std::get<bool>(value));
      case AttrKind::text: hasher_.text(std::get<std::string>(value)); return;
      case AttrKind::dtype: return number(static_cast<uint64_t>(std::get<DType>(value)));
      case AttrKind::number: {
        const Scalar& s = std::get<Scalar>(value);
        number(s.is_int);
        return s.is_int ? number(static_cast<uint64_t>(s.i)) : floating(s.d);
      }
      case AttrKind::data: {
        const auto& data = std::get<std::shared_ptr<ConstantData>>(value);
        hasher_.text(data ? std::string_view(static_cast<const char*>(data->bytes), data->size)
                          : std::string_view());
        return;
      }
    }
  }

  const Graph& graph_;
  Hasher hasher_;
  std::vector<Dim> symbols_;
  std::unordered_map<int64_t, size_t> numbers_;  // index into symbols_
  std::unordered_map<int64_t, Hash128> dim_hashes_;
};

}  // namespace

Hash128 hash(const Graph& graph) { return GraphHasher(graph).run(); }

}  // namespace tenon
