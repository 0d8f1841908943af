// The invariants of a graph:
//   1. Every node's op is a row; operands are earlier nodes (topological order, so there are no cycles).
//   2. Attributes are in row order, complete, and of the row's kinds; their sizes belong to the graph's table.
//   3. Types are what the row's rules infer: rank <= 16, no negative size, bytes within 64 bits.
//   4. Names are empty, or unique and valid in the text form.
//   5. Nodes with op `input` and Graph::inputs correspond one to one; they have no operands and no attributes.
//   6. There is an output; outputs are nodes of the graph. (The same value may be returned twice.)
//   7. The strides of a binding have its rank, and their sizes belong to the table.
//   8. An input that defines a symbol is i64[]; no two inputs define the same symbol.
//   9. Every symbol that the graph uses occurs in an input's shape or strides, or an input defines it.
//  10. Node::group is -1 or a group of the graph; no group depends on itself through nodes outside it (free views
//      belong to their readers).
//  11. Outputs that update an input come last. Each updates another input, which is no param and defines no symbol;
//      the output has its type and strides.
// verify() collects every violation and skips checks that a violation makes unsafe. Tested by tests/unit/ir/ir_test.cc.
#include "src/ir/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "src/base/text.h"
#include "src/ir/builder.h"

namespace tenon {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    if (!is_name(graph_.name)) fail("the graph", "its name cannot be spelled in text");
    auto input = find_op("input");
    TENON_CHECK(input, "no row input");
    input_ = *input;
    for (ValueId v = 0; v < graph_.nodes.size(); ++v) node(v);
    inputs();
    outputs();
    symbols();
    if (operands_exist_) groups();
    return errors_.empty() ? Status() : invalid(std::move(errors_));
  }

 private:
  void fail(const std::string& where, const std::string& why) {
    if (!errors_.empty()) errors_ += '\n';
    errors_ += where + ": " + why;
  }
  void fail(ValueId v, const std::string& why) { fail(graph_.value_name(v), why); }
  bool exists(ValueId v) const { return v < graph_.nodes.size(); }
  bool is_input(ValueId v) const { return graph_.nodes[v].op == input_; }

  // Invariants 1 to 4.
  void node(ValueId v) {
    const Node& n = graph_.nodes[v];
    if (!n.name.empty()) {
      if (!is_name(n.name)) fail(v, "the name cannot be spelled in text");
      if (!names_.emplace(n.name, v).second) fail(v, "the name is taken by an earlier node");
    }
    bool known = n.op < op_count(), ordered = true;
    if (!known) fail(v, "unknown op number " + std::to_string(n.op));
    for (ValueId operand : n.inputs) {
      if (!exists(operand)) {
        fail(v, "no such operand " + graph_.value_name(operand));
        ordered = operands_exist_ = false;
      } else if (operand >= v) {
        fail(v, "operand " + graph_.value_name(operand) + " does not stand before it");
        ordered = operands_exist_ = false;
      }
    }
    Status type = check_type(graph_, n.type);
    if (!type.ok()) fail(v, type.message());
    sound_.push_back(type.ok());
    if (!known || !ordered || !type.ok()) return;
    for (ValueId operand : n.inputs)
      if (!sound_[operand]) return;
    if (is_input(v)) {
      if (!n.inputs.empty() || !n.attrs.empty()) fail(v, "an input has no operands and no attributes");
      return;
    }
    auto inferred = infer(graph_, n);
    if (!inferred.ok()) return fail(v, inferred.status().message());
    if (*inferred != n.type)
      fail(v, "has type " + graph_.print_type(n.type) + ", inferred is " + graph_.print_type(*inferred));
  }

  // Invariants 5, 7, 8.
  void inputs() {
    std::vector<int> listed(graph_.nodes.size());
    std::map<Dim, ValueId> defined;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const InputBinding& in = graph_.inputs[i];
      std::string where = "input " + std::to_string(i);
      if (!exists(in.value)) {
        fail(where, "no such value");
        continue;
      }
      if (!is_input(in.value)) fail(in.value, "is listed as an input, but has op " + op_name(in.value));
      if (++listed[in.value] == 2) fail(in.value, "is listed twice as an input");
      strides(in.value, in.strides);
      if (in.donated && (in.param || in.symbol))
        fail(in.value,
             in.param ? "is a param, so it cannot be donated" : "defines a symbol, so it cannot be donated");
      if (!in.symbol) continue;
      if (!graph_.dims->valid(*in.symbol) || !graph_.dims->is_symbol(*in.symbol)) {
        fail(in.value, "defines what is not a symbol");
        continue;
      }
      if (graph_.type(in.value) != TensorType{DType::i64, {}})
        fail(in.value, "defines a symbol, so it must be i64[]" +
                           (sound_[in.value] ? ", not " + graph_.print_type(graph_.type(in.value)) : ""));
      auto [other, fresh] = defined.emplace(*in.symbol, in.value);
      if (!fresh)
        fail(in.value, "defines " + graph_.dims->print(*in.symbol) + ", as " +
                           graph_.value_name(other->second) + " does");
    }
    for (ValueId v = 0; v < graph_.nodes.size(); ++v)
      if (is_input(v) && listed[v] == 0) fail(v, "is not listed among the graph's inputs");
  }

  std::string op_name(ValueId v) const {
    OpId id = graph_.nodes[v].op;
    return id < op_count() ? std::string(op(id).name) : "number " + std::to_string(id);
  }

  // Invariants 6, 7.
  void outputs() {
    if (graph_.outputs.empty()) fail("the graph", "it has no output");
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const OutputBinding& out = graph_.outputs[i];
      if (exists(out.value))
        strides(out.value, out.strides), each_element_once(out.value, out.strides);
      else
        fail("output " + std::to_string(i), "no such value");
    }
    updates();
  }

  // Invariant 11.
  void updates() {
    std::set<int> updated;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const OutputBinding& out = graph_.outputs[i];
      const std::string who = "output " + std::to_string(i);
      if (!out.updates) {
        if (!updated.empty()) fail(who, "it follows an output that updates an input");
        continue;
      }
      const int input = *out.updates;
      if (input < 0 || input >= static_cast<int>(graph_.inputs.size())) {
        fail(who, "it updates an input that does not exist");
        continue;
      }
      const InputBinding& in = graph_.inputs[input];
      if (!exists(in.value) || !exists(out.value)) continue;
      const std::string to = "it updates " + graph_.value_name(in.value);
      if (!updated.insert(input).second) fail(who, to + ", as another output does");
      if (in.param || in.symbol || in.donated)
        fail(who, to + (in.param    ? ", a param"
                        : in.symbol ? ", which defines a symbol"
                                    : ", which is donated"));
      if (graph_.type(in.value) != graph_.type(out.value))
        fail(who, to + ": " + graph_.print_type(graph_.type(in.value)) + " with " +
                      graph_.print_type(graph_.type(out.value)));
      if (out.strides != in.strides) fail(who, to + ", but has other strides");
    }
  }

  // Other strides with symbols are checked when a plan is made.
  void each_element_once(ValueId v, const std::optional<Dims>& strides) {
    const Dims& shape = graph_.type(v).shape;
    if (!strides || strides->size() != shape.size()) return;
    std::vector<int64_t> sizes, steps;
    for (size_t a = 0; a < shape.size(); ++a) {
      if (!shape[a].is_const() && all_are(*strides, 0))
        return fail(v, "the output's strides are all 0, which puts all elements in one place");
      if (!shape[a].is_const() || !(*strides)[a].is_const()) return;
      sizes.push_back(shape[a].value()), steps.push_back((*strides)[a].value());
    }
    if (may_overlap(sizes, steps))
      fail(v,
           "the output's strides [" + graph_.dims->print(*strides) + "] put several elements in one place");
  }

  void strides(ValueId v, const std::optional<Dims>& strides) {
    if (!strides) return;
    if (strides->size() != graph_.type(v).shape.size())
      fail(v, std::to_string(strides->size()) + " strides for rank " + std::to_string(graph_.type(v).rank()));
    for (Dim d : *strides)
      if (!graph_.dims->valid(d) || graph_.dims->is_overflow(d)) return fail(v, "a stride without a value");
  }

  // Invariant 9.
  void symbols() {
    const DimTable& table = *graph_.dims;
    SymbolsOf used(table);
    auto collect = [&](const Dims& dims) {
      for (Dim d : dims)
        if (table.valid(d)) used.add(d);
    };
    for (const InputBinding& in : graph_.inputs) {
      if (exists(in.value)) collect(graph_.type(in.value).shape);
      if (in.strides) collect(*in.strides);
      if (in.symbol) collect({*in.symbol});
    }
    // Symbols that are first collected from here on are used but not determined.
    auto check = [&](const std::string& where, const Dims& dims) {
      const size_t known = used.list().size();
      collect(dims);
      for (size_t i = known; i < used.list().size(); ++i)
        fail(where, "no input determines the symbol " + table.print(used.list()[i]));
    };
    for (ValueId v = 0; v < graph_.nodes.size(); ++v) {
      std::string where = graph_.value_name(v);
      check(where, graph_.type(v).shape);
      for (const AttrValue& value : graph_.nodes[v].attrs) {
        if (auto* d = std::get_if<Dim>(&value)) check(where, {*d});
        if (auto* dims = std::get_if<Dims>(&value)) check(where, *dims);
      }
    }
    for (const OutputBinding& out : graph_.outputs)
      if (out.strides) check(graph_.value_name(out.value), *out.strides);
  }

  // Invariant 10. Units are groups and single nodes; an edge between units skips free views. Removes units
  // whose sources have all been removed, again and again; the units that remain are in a cycle or depend on
  // one.
  void groups() {
    int group_count = static_cast<int>(graph_.groups.size());
    bool known = true;
    for (ValueId v = 0; v < graph_.nodes.size(); ++v) {
      int group = graph_.nodes[v].group;
      if (group >= -1 && group < group_count) continue;
      fail(v, "no such group " + std::to_string(group));
      known = false;
    }
    for (int g = 0; g < group_count; ++g) {
      const std::string& backend = graph_.groups[g].backend;
      if (!backend.empty() && !is_name(backend))
        fail("group " + std::to_string(g), "its back end's name cannot be spelled");
    }
    if (!known || group_count == 0) return;
    auto unit = [&](ValueId v) {
      int group = graph_.nodes[v].group;
      return group >= 0 ? static_cast<size_t>(group) : group_count + size_t{v};
    };
    std::vector<std::vector<size_t>> readers(group_count + graph_.nodes.size());
    std::vector<int> waits(readers.size());
    std::vector<ValueId> source(graph_.nodes.size());  // the value behind free views
    for (ValueId v = 0; v < graph_.nodes.size(); ++v) {
      const Node& n = graph_.nodes[v];
      source[v] = v;
      if (n.group < 0 && n.op < op_count() && op(n.op).view && n.inputs.size() == 1) {
        source[v] = source[n.inputs[0]];
        continue;
      }
      for (ValueId operand : n.inputs) {
        size_t from = unit(source[operand]), to = unit(v);
        if (from == to) continue;
        readers[from].push_back(to);
        ++waits[to];
      }
    }
    std::vector<size_t> ready;
    for (size_t u = 0; u < readers.size(); ++u)
      if (waits[u] == 0) ready.push_back(u);
    while (!ready.empty()) {
      size_t u = ready.back();
      ready.pop_back();
      for (size_t to : readers[u])
        if (--waits[to] == 0) ready.push_back(to);
    }
    for (int g = 0; g < group_count; ++g)
      if (waits[g] > 0) fail("group " + std::to_string(g), "it depends on itself, or on a group that does");
  }

  const Graph& graph_;
  OpId input_ = 0;
  std::string errors_;
  std::unordered_map<std::string_view, ValueId> names_;
  std::vector<bool> sound_;  // per node: its type may be printed and used
  bool operands_exist_ = true;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

bool may_overlap(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  std::vector<std::pair<__int128, int64_t>> axes;  // stride, size
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 0) return false;
    const __int128 stride = strides[a];
    if (shape[a] > 1) axes.emplace_back(stride < 0 ? -stride : stride, shape[a]);
  }
  std::sort(axes.begin(), axes.end());
  __int128 reach = 0;  // how far the axes with smaller strides reach
  for (auto [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace tenon
