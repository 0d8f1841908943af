// See bind.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/plan/bind.h"

#include <algorithm>
#include <cstdint>
#include <optional>

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

}  // namespace

std::string print_shape(std::span<const int64_t> shape) { return list(shape); }

Result<Binder> Binder::make(const Graph& graph, const std::vector<bool>& frozen, DeviceId device) {
  Binder binder;
  binder.graph_ = &graph;
  auto expect = [&](ValueId v, bool skip, DeviceId where) {
    const TensorType& type = graph.type(v);
    return Expected{v, type.dtype, skip, false, type.shape.size(), where};
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const InputBinding& in = graph.inputs[i];  // the host reads symbols
    binder.inputs_.push_back(expect(in.value, frozen[i], in.symbol ? DeviceId() : device));
    binder.inputs_.back().donated = in.donated;
    binder.donated_ += in.donated;
  }
  for (const OutputBinding& out : graph.outputs) binder.outputs_.push_back(expect(out.value, false, device));
  TENON_TRY(binder.find_sources());
  return binder;
}

namespace {

// factor * symbol + offset
struct Linear {
  Dim symbol;
  int64_t factor = 1, offset = 0;
};
std::optional<Linear> linear(const DimTable& dims, Dim size) {
  if (size.is_const()) return std::nullopt;
  if (dims.is_symbol(size)) return Linear{size};
  const DimTable::Expr& e = dims.expr(size);
  if (e.kind != DimTable::Kind::sum) return std::nullopt;
  Linear found;
  bool seen = false;
  for (const DimTable::Term& t : e.terms) {
    if (t.atoms.empty()) {
      found.offset = t.factor;
    } else {
      if (seen || t.atoms.size() != 1 || !dims.is_symbol(t.atoms[0])) return std::nullopt;
      found.symbol = t.atoms[0], found.factor = t.factor, seen = true;
    }
  }
  return seen ? std::optional(found) : std::nullopt;
}

}  // namespace

Status Binder::find_sources() {
  const Graph& graph = *graph_;
  const DimTable& dims = *graph.dims;
  std::vector<bool> solved(dims.symbol_count(), false);
  auto add = [&](const Source& s) {
    if (!solved[s.symbol]) sources_.push_back(s), solved[s.symbol] = true;
  };
  for (bool plain : {true, false}) {  // plain symbols first
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const InputBinding& in = graph.inputs[i];
      if (in.symbol) add({dims.symbol_number(*in.symbol), static_cast<int>(i), -1, 1, 0});
      const Dims& shape = graph.type(in.value).shape;
      for (size_t a = 0; a < shape.size(); ++a)
        if (auto size = linear(dims, shape[a]); size && plain == dims.is_symbol(shape[a]))
          add({dims.symbol_number(size->symbol), static_cast<int>(i), static_cast<int>(a), size->factor,
               size->offset});
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
  return {};
}

bool Binder::Expected::admits(const Tensor& t) const {
  return t.dtype == dtype && t.shape.size() == rank &&
         (t.device == device || !t.data || (t.device.is_cpu() && device.is_cpu()));
}

Status Binder::refuse(Role role, const Expected& want, const Tensor& t) const {
  auto place = [](DeviceId d) {
    return d.is_cpu() ? std::string("the CPU")
                      : "device " + std::to_string(d.index) + " of type " + std::to_string(d.type);
  };
  const std::string who = std::string(name(role)) + " " + graph_->value_name(want.value) + " is ";
  const std::string type = graph_->print_type(graph_->type(want.value));
  if (t.dtype != want.dtype) return invalid(who + type + ", got dtype " + std::string(name(t.dtype)));
  if (t.shape.size() != want.rank) return invalid(who + type + ", got shape " + list(t.shape));
  return invalid(who + "on " + place(t.device) + ", not on " + place(want.device));
}

Status Binder::bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, BoundCall* call) const {
  TENON_TRY(check_count(*graph_, Role::input, inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    call->inputs[i] = inputs[i].data;
    if (!inputs_[i].frozen && !inputs_[i].admits(inputs[i]))
      return refuse(Role::input, inputs_[i], inputs[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    call->outputs[i] = outputs[i].data;
    if (!outputs_[i].admits(outputs[i])) return refuse(Role::output, outputs_[i], outputs[i]);
  }
  std::ranges::fill(call->symbols, 0);
  for (const Source& s : sources_) TENON_TRY(read_symbol(s, inputs[s.input], &call->symbols[s.symbol]));
  return {};
}

Status Binder::read_symbol(const Source& s, const Tensor& t, int64_t* symbol) const {
  const Graph& graph = *graph_;
  const ValueId v = graph.inputs[s.input].value;
  auto name_of_symbol = [&] { return graph.dims->symbol_name(graph.dims->symbol_at(s.symbol)); };
  if (s.axis < 0) {
    if (!t.data) return invalid("input " + graph.value_name(v) + " has no data");
    *symbol = *static_cast<const int64_t*>(t.data);
  } else if (s.factor == 1 && s.offset == 0) {
    *symbol = t.shape[s.axis];
  } else {
    auto wrong = [&](const std::string& why) {
      return invalid("input " + graph.value_name(v) + " is " + graph.print_type(graph.type(v)) +
                     ", got shape " + list(t.shape) + why);
    };
    int64_t n = t.shape[s.axis];
    if (n < 0) return wrong(": axis " + std::to_string(s.axis) + " is negative");
    if (__builtin_sub_overflow(n, s.offset, &n))
      return wrong(": " + name_of_symbol() + " has no value that fits into 64 bits");
    if (n % s.factor != 0) return wrong("");
    *symbol = n / s.factor;  // no overflow: n > INT64_MIN, because the size is not negative
  }
  if (*symbol < 0 && graph.dims->range(graph.dims->symbol_at(s.symbol)).first >= 0)
    return invalid("size " + name_of_symbol() + ", " + where(s.symbol) +
                   ", is negative: " + std::to_string(*symbol));
  return {};
}

std::string Binder::where(int symbol) const {
  for (const Source& s : sources_) {
    if (s.symbol != symbol) continue;
    const std::string input = graph_->value_name(graph_->inputs[s.input].value);
    return s.axis < 0 ? "the value of " + input : "axis " + std::to_string(s.axis) + " of " + input;
  }
  return "";
}

std::string Binder::because(Dim size, std::span<const int64_t> symbols) const {
  const DimTable& dims = *graph_->dims;
  std::vector<Dim> used;
  dims.collect_symbols(size, used);
  std::string text;
  for (Dim d : used) {
    const int s = dims.symbol_number(d);
    text += (text.empty() ? "" : "; ") + dims.symbol_name(d) + " is " + std::to_string(symbols[s]);
    if (const std::string from = where(s); !from.empty()) text += ", " + from;
  }
  return text;
}

// The wanted and the given shape, and the reason for the wanted one.
std::string Binder::mismatch(ValueId v, std::span<const int64_t> want, std::span<const int64_t> got,
                             std::span<const int64_t> symbols) const {
  const TensorType& type = graph_->type(v);
  std::string text = graph_->value_name(v) + " is " + graph_->print_type(type) + " = " + list(want) +
                     ", got shape " + list(got);
  for (size_t a = 0; a < want.size() && a < got.size() && want.size() == got.size(); ++a) {
    if (want[a] == got[a]) continue;
    if (const std::string why = because(type.shape[a], symbols); !why.empty()) text += ": " + why;
    break;
  }
  return text;
}

Status Binder::check_sizes(std::span<const Tensor> inputs, std::span<const int64_t> symbols) const {
  const Graph& graph = *graph_;
  // The assumptions by which the graph's sizes were simplified.
  for (const Source& s : sources_) {
    const Dim symbol = graph.dims->symbol_at(s.symbol);
    if (!graph.dims->in_range(symbol, symbols[s.symbol]))
      return invalid("graph @" + graph.name + " assumes " + graph.dims->print_range(symbol) + ", but " +
                     because(symbol, symbols));
  }
  std::vector<int64_t> want;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i].frozen) continue;
    const ValueId v = inputs_[i].value;
    want.clear();
    for (Dim d : graph.type(v).shape) {
      const auto n = d.is_const() ? std::optional(d.value()) : graph.dims->eval(d, symbols);
      if (!n)
        return invalid("input " + graph.value_name(v) + " is " + graph.print_type(graph.type(v)) +
                       ": the size " + graph.dims->print(d) +
                       " has no value that fits into 64 bits: " + because(d, symbols));
      want.push_back(*n);
    }
    if (!std::ranges::equal(want, inputs[i].shape))
      return invalid("input " + mismatch(v, want, inputs[i].shape, symbols));
  }
  return {};
}

// The strings of a message are built only when a check fails.
Status Binder::check_one(Role role, const Expected& e, const Plan::Expected& want, const Tensor& t,
                         const Plan& plan, bool late) const {
  auto who = [&] { return std::string(name(role)) + " " + graph_->value_name(e.value); };
  if (!std::ranges::equal(t.shape, want.shape))
    return invalid(std::string(name(role)) + " " + mismatch(e.value, want.shape, t.shape, plan.symbols()));
  if (!strides_fit(want, t.strides))
    return invalid(who() + " has strides " + list(want.strides) + ", got " +
                   (t.strides.empty() ? "none: dense row-major" : list(t.strides)));
  if (!t.data && want.elements > 0 && !late) return invalid(who() + " has no data");
  return {};
}

namespace {

// The bytes of a tensor that the host passes.
struct Bytes {
  uintptr_t begin, end;
  bool written;
  bool overlap(const Bytes& o) const { return begin < o.end && o.begin < end; }
};

Bytes bytes_of(const Plan::Expected& e, const Tensor& t, bool written) {
  if (e.elements == 0 || !t.data) return {0, 0, written};
  const auto data = reinterpret_cast<uintptr_t>(t.data);
  return {data + static_cast<uintptr_t>(e.low), data + static_cast<uintptr_t>(e.high), written};
}

}  // namespace

// Whether no output or donated input shares bytes with another tensor, other than those that may be one buffer. In time
// n log n.
bool Binder::apart(const Plan& plan, std::span<const Tensor> inputs, std::span<const Tensor> outputs) const {
  StackArray<bool, 64> skipped(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) skipped[i] = inputs_[i].frozen || plan.inputs[i].elements == 0;
  for (auto [o, i] : plan.in_place)
    if (outputs[o].data == inputs[i].data) skipped[i] = true;  // the output stands for both
  StackArray<Bytes, 64> all(inputs.size() + outputs.size());
  size_t count = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!skipped[i]) all[count++] = bytes_of(plan.inputs[i], inputs[i], inputs_[i].donated);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (plan.outputs[o].elements != 0 && outputs[o].data)
      all[count++] = bytes_of(plan.outputs[o], outputs[o], true);
  std::sort(all.data(), all.data() + count, [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  uintptr_t read_end = 0, written_end = 0;  // of those that begin earlier
  for (const Bytes& b : std::span(all.data(), count)) {
    if (b.begin < written_end || (b.written && b.begin < read_end)) return false;
    uintptr_t& end = b.written ? written_end : read_end;
    end = std::max(end, b.end);
  }
  return true;
}

Status Binder::check(const Plan& plan, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                     bool late) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs_[i].frozen) TENON_TRY(check_one(Role::input, inputs_[i], plan.inputs[i], inputs[i], plan));
  for (size_t o = 0; o < outputs.size(); ++o)
    TENON_TRY(check_one(Role::output, outputs_[o], plan.outputs[o], outputs[o], plan, late));
  constexpr size_t kFewPairs = 256;  // are compared faster than sorted
  if ((outputs.size() + donated_) * (inputs.size() + outputs.size()) > kFewPairs &&
      apart(plan, inputs, outputs))
    return {};
  const auto input = [&](size_t i) { return bytes_of(plan.inputs[i], inputs[i], false); };
  const auto refused = [](const std::string& who, const std::string& other) {
    return invalid(who + " overlaps " + other);
  };
  const auto name_of_input = [&](size_t i) { return "input " + graph_->value_name(inputs_[i].value); };
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Bytes out = bytes_of(plan.outputs[o], outputs[o], true);
    if (out.begin == out.end) continue;
    const auto who = [&] { return "output " + graph_->value_name(outputs_[o].value); };
    const auto one_buffer = [&](size_t i) {
      const std::pair<int, int> pair(static_cast<int>(o), static_cast<int>(i));
      return outputs[o].data == inputs[i].data && std::ranges::count(plan.in_place, pair) > 0;
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!inputs_[i].frozen && input(i).overlap(out) && !one_buffer(i))
        return refused(who(), name_of_input(i));
    for (size_t p = 0; p < o; ++p)
      if (bytes_of(plan.outputs[p], outputs[p], true).overlap(out)) return refused(who(), "another output");
  }
  for (size_t i = 0; donated_ > 0 && i < inputs.size(); ++i)
    for (size_t k = 0; inputs_[i].donated && k < inputs.size(); ++k)
      if (k != i && !inputs_[k].frozen && input(k).overlap(input(i)))
        return refused("donated " + name_of_input(i), name_of_input(k));
  return {};
}

const char* name(Role role) {
  return role == Role::input ? "input" : role == Role::output ? "output" : "param";
}

Status check_count(const Graph& graph, Role role, size_t given) {
  const bool out = role == Role::output;
  const size_t wanted = out ? graph.plain_outputs() : graph.inputs.size();
  if (given == wanted) return {};
  return invalid("graph @" + graph.name + (out ? " has " : " takes ") + std::to_string(wanted) +
                 (out ? " outputs" : " inputs") + ", got " + std::to_string(given) + " " + name(role) +
                 (given == 1 ? "" : "s"));
}

Status check_params(const Graph& graph, std::span<const Tensor> params) {
  if (params.empty()) return {};
  TENON_TRY(check_count(graph, Role::param, params.size()));
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
