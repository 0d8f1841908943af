// See bind.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/plan/bind.h"

#include <algorithm>

namespace tenon {
namespace {

std::string list(std::span<const int64_t> values) {
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) s += (i ? "," : "") + std::to_string(values[i]);
  return s + "]";
}

// A stride matters only if the axis has more than one element.
bool strides_fit(const Plan::Expected& want, std::span<const int64_t> got) {
  if (want.elements <= 1) return true;
  if (got.empty()) {  // the host says: dense row-major
    int64_t step = 1;
    for (size_t i = want.shape.size(); i-- > 0;) {
      if (want.shape[i] != 1 && want.strides[i] != step) return false;
      step *= want.shape[i];
    }
    return true;
  }
  if (got.size() != want.shape.size()) return false;
  for (size_t i = 0; i < got.size(); ++i)
    if (want.shape[i] != 1 && want.strides[i] != got[i]) return false;
  return true;
}

struct Extent {
  uintptr_t begin = 0, end = 0;
};
Extent extent_of(const Plan::Expected& e, const Tensor& t) {
  if (e.elements == 0 || !t.data) return {};
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < e.shape.size(); ++i) {
    const int64_t reach = e.strides[i] * (e.shape[i] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto base = reinterpret_cast<uintptr_t>(t.data);
  return {base + static_cast<uintptr_t>(low * size_of(t.dtype)),
          base + static_cast<uintptr_t>((high + 1) * size_of(t.dtype))};
}

std::string symbol_name(const Graph& graph, int symbol) {
  return graph.dims->symbol_name(graph.dims->symbol_at(symbol));
}

// The wanted and the given shape, and the reason for the wanted one.
std::string mismatch(const Graph& graph, const Binder& binder, ValueId v, std::span<const int64_t> want,
                     std::span<const int64_t> got, std::span<const int64_t> symbols) {
  const TensorType& type = graph.type(v);
  std::string text =
      graph.value_name(v) + " is " + graph.print_type(type) + " = " + list(want) + ", got shape " + list(got);
  for (size_t a = 0; a < want.size() && a < got.size() && want.size() == got.size(); ++a) {
    if (want[a] == got[a]) continue;
    if (const std::string why = binder.because(graph, type.shape[a], symbols); !why.empty())
      text += ": " + why;
    break;
  }
  return text;
}

}  // namespace

std::string print_shape(std::span<const int64_t> shape) { return list(shape); }

Result<Binder> Binder::make(const Graph& graph) {
  Binder binder;
  const DimTable& dims = *graph.dims;
  std::vector<bool> solved(dims.symbol_count(), false);
  // Plain symbols first, then sizes of the form factor*symbol + offset.
  for (bool plain : {true, false}) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const InputBinding& in = graph.inputs[i];
      if (in.symbol && plain) {
        const int s = dims.symbol_number(*in.symbol);
        if (!solved[s]) binder.sources_.push_back({s, static_cast<int>(i), -1, 1, 0}), solved[s] = true;
      }
      const Dims& shape = graph.type(in.value).shape;
      for (size_t a = 0; a < shape.size(); ++a) {
        if (shape[a].is_const()) continue;
        const DimTable::Expr& e = dims.expr(shape[a]);
        Source source{0, static_cast<int>(i), static_cast<int>(a), 1, 0};
        if (e.kind == DimTable::Kind::symbol && plain) {
          source.symbol = dims.symbol_number(shape[a]);
        } else if (e.kind == DimTable::Kind::sum && !plain) {
          int symbol = -1;
          bool simple = true;
          for (const DimTable::Term& t : e.terms) {
            if (t.atoms.empty())
              source.offset = t.factor;
            else if (t.atoms.size() == 1 && dims.is_symbol(t.atoms[0]) && symbol < 0)
              symbol = dims.symbol_number(t.atoms[0]), source.factor = t.factor;
            else
              simple = false;
          }
          if (!simple || symbol < 0) continue;
          source.symbol = symbol;
        } else {
          continue;
        }
        if (!solved[source.symbol]) binder.sources_.push_back(source), solved[source.symbol] = true;
      }
    }
  }
  // Symbols in unused expressions need no value; symbols in types and attributes do.
  SymbolsOf used(dims);
  for (const Node& n : graph.nodes) {
    used.add(n.type.shape);
    for (const AttrValue& a : n.attrs) {
      if (auto d = std::get_if<Dim>(&a)) used.add(*d);
      if (auto d = std::get_if<Dims>(&a)) used.add(*d);
    }
  }
  // verify() also accepts strides as a source of symbols; here sizes are the only source.
  for (const InputBinding& in : graph.inputs)
    if (in.strides) used.add(*in.strides);
  for (Dim d : used.list())
    if (!solved[dims.symbol_number(d)])
      return invalid("no input determines the size " + dims.symbol_name(d) + " of graph @" + graph.name);
  return binder;
}

Status Binder::solve(const Graph& graph, const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                     std::span<int64_t> symbols) const {
  TENON_TRY(check_count(graph, "input", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (frozen[i]) continue;
    const ValueId v = graph.inputs[i].value;
    const TensorType& type = graph.type(v);
    const Tensor& t = inputs[i];
    if (t.dtype != type.dtype)
      return invalid("input " + graph.value_name(v) + " is " + graph.print_type(type) + ", got dtype " +
                     std::string(name(t.dtype)));
    if (t.shape.size() != type.shape.size())
      return invalid("input " + graph.value_name(v) + " is " + graph.print_type(type) + ", got shape " +
                     list(t.shape));
  }
  std::fill(symbols.begin(), symbols.end(), 0);
  for (const Source& s : sources_) {
    const Tensor& t = inputs[s.input];
    if (s.axis < 0) {
      if (!t.data) return invalid("input " + graph.value_name(graph.inputs[s.input].value) + " has no data");
      symbols[s.symbol] = *static_cast<const int64_t*>(t.data);
    } else if (s.factor == 1 && s.offset == 0) {
      symbols[s.symbol] = t.shape[s.axis];
    } else {
      auto wrong = [&](const std::string& why) {
        const ValueId v = graph.inputs[s.input].value;
        return invalid("input " + graph.value_name(v) + " is " + graph.print_type(graph.type(v)) +
                       ", got shape " + list(t.shape) + why);
      };
      int64_t n = t.shape[s.axis];
      if (n < 0) return wrong(": axis " + std::to_string(s.axis) + " is negative");
      if (__builtin_sub_overflow(n, s.offset, &n))
        return wrong(": " + symbol_name(graph, s.symbol) + " has no value that 64 bits hold");
      if (n % s.factor != 0) return wrong("");
      symbols[s.symbol] = n / s.factor;  // no overflow: n > INT64_MIN, because the size is not negative
    }
    if (symbols[s.symbol] < 0 && graph.dims->range(graph.dims->symbol_at(s.symbol)).first >= 0)
      return invalid("size " + symbol_name(graph, s.symbol) + ", " + where(graph, s.symbol) +
                     ", is negative: " + std::to_string(symbols[s.symbol]));
  }
  return {};
}

std::string Binder::where(const Graph& graph, int symbol) const {
  for (const Source& s : sources_) {
    if (s.symbol != symbol) continue;
    const std::string input = graph.value_name(graph.inputs[static_cast<size_t>(s.input)].value);
    return s.axis < 0 ? "the value of " + input : "axis " + std::to_string(s.axis) + " of " + input;
  }
  return "";
}

std::string Binder::because(const Graph& graph, Dim size, std::span<const int64_t> symbols) const {
  std::vector<Dim> used;
  graph.dims->collect_symbols(size, used);
  std::string text;
  for (Dim d : used) {
    const int s = graph.dims->symbol_number(d);
    text += (text.empty() ? "" : "; ") + graph.dims->symbol_name(d) + " is " + std::to_string(symbols[s]);
    if (const std::string from = where(graph, s); !from.empty()) text += ", " + from;
  }
  return text;
}

Status Binder::check_inputs(const Graph& graph, const std::vector<bool>& frozen,
                            std::span<const Tensor> inputs, std::span<const int64_t> symbols) const {
  // The assumptions by which the graph's sizes were simplified.
  for (const Source& s : sources_) {
    const Dim symbol = graph.dims->symbol_at(s.symbol);
    if (!graph.dims->in_range(symbol, symbols[s.symbol]))
      return invalid("graph @" + graph.name + " assumes " + graph.dims->print_range(symbol) + ", but " +
                     because(graph, symbol, symbols));
  }
  std::vector<int64_t> want;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (frozen[i]) continue;
    const ValueId v = graph.inputs[i].value;
    want.clear();
    for (Dim d : graph.type(v).shape) {
      const auto n = d.is_const() ? std::optional(d.value()) : graph.dims->eval(d, symbols);
      if (!n)
        return invalid("input " + graph.value_name(v) + " is " + graph.print_type(graph.type(v)) +
                       ": the size " + graph.dims->print(d) +
                       " has no value that 64 bits hold: " + because(graph, d, symbols));
      want.push_back(*n);
    }
    if (!std::equal(want.begin(), want.end(), inputs[i].shape.begin(), inputs[i].shape.end()))
      return invalid("input " + mismatch(graph, *this, v, want, inputs[i].shape, symbols));
  }
  return {};
}

Status check_tensors(const Graph& graph, const Binder& binder, const Plan& plan,
                     const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) {
  TENON_TRY(check_count(graph, "output", outputs.size()));
  // The strings of a message are built only when a check fails.
  auto check = [&](const char* what, ValueId v, const Plan::Expected& want, const Tensor& t) -> Status {
    const TensorType& type = graph.type(v);
    auto who = [&] { return std::string(what) + " " + graph.value_name(v); };
    if (t.dtype != type.dtype)
      return invalid(who() + " is " + graph.print_type(type) + ", got dtype " + std::string(name(t.dtype)));
    if (!std::equal(t.shape.begin(), t.shape.end(), want.shape.begin(), want.shape.end()))
      return invalid(std::string(what) + " " +
                     mismatch(graph, binder, v, want.shape, t.shape, plan.symbols()));
    if (!strides_fit(want, t.strides))
      return invalid(who() + " has strides " + list(want.strides) + ", got " +
                     (t.strides.empty() ? "none: dense row-major" : list(t.strides)));
    if (!t.data && want.elements > 0) return invalid(who() + " has no data");
    return {};
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!frozen[i]) TENON_TRY(check("input", graph.inputs[i].value, plan.inputs[i], inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    TENON_TRY(check("output", graph.outputs[i].value, plan.outputs[i], outputs[i]));
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Extent out = extent_of(plan.outputs[o], outputs[o]);
    if (out.begin == out.end) continue;
    auto overlaps = [&](const Extent& e) { return e.begin < out.end && out.begin < e.end; };
    auto one_buffer = [&](size_t i) {
      const std::pair<int, int> pair(static_cast<int>(o), static_cast<int>(i));
      return outputs[o].data == inputs[i].data && std::ranges::count(plan.in_place, pair) > 0;
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!frozen[i] && overlaps(extent_of(plan.inputs[i], inputs[i])) && !one_buffer(i))
        return invalid("output " + graph.value_name(graph.outputs[o].value) + " overlaps input " +
                       graph.value_name(graph.inputs[i].value));
    for (size_t p = 0; p < o; ++p)
      if (overlaps(extent_of(plan.outputs[p], outputs[p])))
        return invalid("output " + graph.value_name(graph.outputs[o].value) + " overlaps another output");
  }
  return {};
}

Status check_devices(const Graph& graph, DeviceId device, const std::vector<bool>& frozen,
                     std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  TENON_TRY(check_count(graph, "input", inputs.size()));
  TENON_TRY(check_count(graph, "output", outputs.size()));
  auto place = [](DeviceId d) {
    return d.is_cpu() ? std::string("the CPU")
                      : "device " + std::to_string(d.index) + " of type " + std::to_string(d.type);
  };
  auto check = [&](const char* what, ValueId v, DeviceId want, const Tensor& t) -> Status {
    if (want == t.device || (want.is_cpu() && t.device.is_cpu()) || !t.data) return {};
    return invalid(std::string(what) + " " + graph.value_name(v) + " is on " + place(t.device) + ", not on " +
                   place(want));
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!frozen[i])
      TENON_TRY(
          check("input", graph.inputs[i].value, graph.inputs[i].symbol ? DeviceId() : device, inputs[i]));
  for (size_t o = 0; o < outputs.size(); ++o)
    TENON_TRY(check("output", graph.outputs[o].value, device, outputs[o]));
  return {};
}

Status check_count(const Graph& graph, std::string_view what, size_t given) {
  const bool out = what == "output";
  const size_t wanted = out ? graph.outputs.size() : graph.inputs.size();
  if (given == wanted) return {};
  return invalid("graph @" + graph.name + (out ? " has " : " takes ") + std::to_string(wanted) +
                 (out ? " outputs" : " inputs") + ", got " + std::to_string(given) + " " + std::string(what) +
                 (given == 1 ? "" : "s"));
}

Status check_params(const Graph& graph, std::span<const Tensor> params) {
  if (params.empty()) return {};
  TENON_TRY(check_count(graph, "param", params.size()));
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& t = params[i];
    if (!t.data) continue;
    const InputBinding& in = graph.inputs[i];
    const TensorType& type = graph.type(in.value);
    const std::string who = "param " + graph.value_name(in.value) + " is " + graph.print_type(type);
    if (t.dtype != type.dtype) return invalid(who + ", got dtype " + std::string(name(t.dtype)));
    bool fits = t.shape.size() == type.shape.size();
    int64_t elements = 1;
    for (size_t a = 0; fits && a < t.shape.size(); ++a) {
      fits = t.shape[a] >= 0 && (!type.shape[a].is_const() || type.shape[a].value() == t.shape[a]) &&
             !__builtin_mul_overflow(elements, std::max<int64_t>(1, t.shape[a]), &elements);
    }
    if (std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end()) elements = 0;
    if (!fits) return invalid(who + ", got shape " + list(t.shape));
    Plan::Expected want{{t.shape.begin(), t.shape.end()}, {}, elements};
    bool known = true;  // strides with symbols are unknown
    want.strides.assign(t.shape.size(), 1);
    for (size_t a = t.shape.size(); a-- > 1;)
      want.strides[a - 1] = want.strides[a] * std::max<int64_t>(1, t.shape[a]);
    for (size_t a = 0; in.strides && a < t.shape.size(); ++a) {
      known = known && (*in.strides)[a].is_const();
      if (known) want.strides[a] = (*in.strides)[a].value();
    }
    if (known && !strides_fit(want, t.strides))
      return invalid(who + " with strides " + list(want.strides) + ", got " + list(t.strides));
  }
  return {};
}

}  // namespace tenon
