// See text.h; the grammar is at the top of parse.cc. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/*.tn.
#include <bit>
#include <cmath>
#include <cstring>

#include "src/base/text.h"
#include "src/ir/text.h"

namespace tenon {
namespace {

bool same_double(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {}

  std::string graph() {
    number_values();
    out_ = "graph @" + graph_.name + "(";
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (i) out_ += ", ";
      input(graph_.inputs[i]);
    }
    out_ += ") {\n";
    assumptions();
    for (ValueId v = 0; v < graph_.nodes.size(); ++v) {
      if (declared_[v]) continue;
      out_ += "  ";
      node(v);
      out_ += '\n';
    }
    out_ += "  return";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      out_ += (i ? ", " : " ") + name(graph_.outputs[i].value);
      if (const auto input = graph_.outputs[i].updates)
        out_ += " updates " + name(graph_.inputs[*input].value);
      else
        strides(graph_.outputs[i].strides);
    }
    out_ += "\n}\n";
    for (size_t i = 0; i < graph_.groups.size(); ++i) {
      out_ += "group " + std::to_string(i) + " = ";
      if (!graph_.groups[i].backend.empty()) out_ += graph_.groups[i].backend + " ";
      out_ += quote(graph_.groups[i].why) + "\n";
    }
    return std::move(out_);
  }

  std::string single(ValueId v) {
    node(v);
    return std::move(out_);
  }

 private:
  // Numbers the inputs first, as the parser sees them first.
  void number_values() {
    declared_.assign(graph_.nodes.size(), false);
    numbers_.resize(graph_.nodes.size());
    ValueId next = 0;
    for (const InputBinding& in : graph_.inputs)
      if (in.value < graph_.nodes.size() && !declared_[in.value]) {
        declared_[in.value] = true;
        numbers_[in.value] = next++;
      }
    for (ValueId v = 0; v < graph_.nodes.size(); ++v)
      if (!declared_[v]) numbers_[v] = next++;
  }

  std::string name(ValueId v) const {
    if (v >= numbers_.size() || !graph_.nodes[v].name.empty()) return graph_.value_name(v);
    return "%" + std::to_string(numbers_[v]);
  }

  void strides(const std::optional<Dims>& strides) {
    if (strides) out_ += " strides=[" + graph_.dims->print(*strides) + "]";
  }

  void input(const InputBinding& in) {
    out_ += name(in.value) + ": " + graph_.print_type(graph_.type(in.value));
    strides(in.strides);
    if (in.param) out_ += " param";
    if (in.donated) out_ += " donated";
    if (in.symbol) out_ += " = " + graph_.dims->print(*in.symbol);
  }

  void assumptions() {
    for (int i = 0; i < graph_.dims->symbol_count(); ++i) {
      Dim symbol = graph_.dims->symbol_at(i);
      auto [low, high] = graph_.dims->range(symbol);
      if (low == 0 && high == DimTable::kHighest) continue;
      out_ += "  assume " + graph_.dims->print_range(symbol) + "\n";
    }
    for (auto [a, b] : graph_.dims->equalities())
      out_ += "  assume (" + graph_.dims->print(a) + " == " + graph_.dims->print(b) + ")\n";
  }

  void node(ValueId v) {
    const Node& n = graph_.nodes[v];
    const Op& row = op(n.op);
    out_ += name(v) + " = ";
    out_ += row.name;
    if (!n.inputs.empty()) {
      out_ += '(';
      for (size_t i = 0; i < n.inputs.size(); ++i) out_ += (i ? ", " : "") + name(n.inputs[i]);
      out_ += ')';
    }
    bool open = false;
    for (size_t i = 0; i < row.attr_specs.size() && i < n.attrs.size(); ++i) {
      const AttrSpec& spec = row.attr_specs[i];
      if (spec.fallback && same_attr(*spec.fallback, n.attrs[i])) continue;
      out_ += open ? ", " : "{";
      open = true;
      out_ += spec.name + "=" + print_attr(*graph_.dims, spec.kind, n.attrs[i], options_);
    }
    if (open) out_ += '}';
    out_ += " : " + graph_.print_type(n.type);
    if (n.group >= 0) out_ += " @" + std::to_string(n.group);
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::string out_;
  std::vector<bool> declared_;
  std::vector<ValueId> numbers_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).graph(); }

std::string print_node(const Graph& graph, ValueId v, const PrintOptions& options) {
  return Printer(graph, options).single(v);
}

std::string print_attr(const DimTable& dims, AttrKind kind, const AttrValue& value,
                       const PrintOptions& options) {
  switch (kind) {
    case AttrKind::integer: return dims.print(std::get<Dim>(value));
    case AttrKind::ints: return "[" + dims.print(std::get<Dims>(value)) + "]";
    case AttrKind::floating: return print_double(std::get<double>(value));
    case AttrKind::boolean: return std::get<bool>(value) ? "true" : "false";
    case AttrKind::text: return quote(std::get<std::string>(value));
    case AttrKind::dtype: return std::string(name(std::get<DType>(value)));
    case AttrKind::number: {
      const Scalar& s = std::get<Scalar>(value);
      return s.is_int ? std::to_string(s.i) : print_double(s.d);
    }
    case AttrKind::data: {
      const auto& data = std::get<std::shared_ptr<ConstantData>>(value);
      if (!data->bytes && data->size) return "missing";  // a constant that has not been folded yet
      if (data->size <= options.data_limit) return to_hex(data->bytes, data->size);
      return to_hex(data->bytes, options.data_limit) + "...";
    }
  }
  return "?";
}

bool same_attr(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (auto* x = std::get_if<double>(&a)) return same_double(*x, std::get<double>(b));
  if (auto* x = std::get_if<std::shared_ptr<ConstantData>>(&a)) {
    const auto& y = std::get<std::shared_ptr<ConstantData>>(b);
    if (*x == y || !*x || !y) return *x == y;
    return (*x)->size == y->size && ((*x)->size == 0 || std::memcmp((*x)->bytes, y->bytes, y->size) == 0);
  }
  return a == b;
}

}  // namespace tenon
