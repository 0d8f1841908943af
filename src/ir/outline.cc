// See outline.h.
#include "src/ir/outline.h"

#include <algorithm>
#include <bit>
#include <variant>

namespace tenon {
namespace {

// Writes one outline. Values are numbered in the order in which they are met.
class OutlineWriter {
 public:
  OutlineWriter(const Graph& graph, const std::unordered_map<ValueId, Dims>& strides,
                std::span<const ValueId> members)
      : graph_(graph), strides_(strides), members_(members) {}

  std::string write(std::span<const ValueId> outputs) {
    for (ValueId m : members_) meet(m);
    for (ValueId o : outputs) {
      put(numbers_.at(o));
      strides(o);
    }
    return std::move(bytes_);
  }

 private:
  enum class Role : uint8_t { known, member, inlined, stored };

  void put(std::integral auto x) { bytes_.append(reinterpret_cast<const char*>(&x), sizeof x); }
  void put(Dim d) { put(d.bits); }
  void put(double x) { put(std::bit_cast<uint64_t>(x)); }
  void put(DType t) { put(static_cast<uint8_t>(t)); }
  void put(Role role) { put(static_cast<uint8_t>(role)); }
  void put(const Dims& dims) {
    put(dims.size());
    for (Dim d : dims) put(d);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  void put(const Scalar& s) {
    put(s.is_int);
    put(s.i);
    put(s.d);
  }
  void put(const std::shared_ptr<ConstantData>& data) { put(data ? data->id : 0); }

  void strides(ValueId v) {
    const auto bound = strides_.find(v);
    put(bound != strides_.end());
    if (bound != strides_.end()) put(bound->second);
  }

  void meet(ValueId v) {
    const auto [number, fresh] = numbers_.try_emplace(v, static_cast<uint32_t>(numbers_.size()));
    if (!fresh) {
      put(Role::known);
      put(number->second);
      return;
    }
    const Node& node = graph_.node(v);
    const bool member = std::binary_search(members_.begin(), members_.end(), v);
    const Role role = member ? Role::member : is_inlined(graph_, v) ? Role::inlined : Role::stored;
    put(role);
    put(node.op);
    put(node.type.dtype);
    put(node.type.shape);
    if (role == Role::stored) strides(v);
    // Lowering looks through a stored view in places, but never past another stored value.
    if (role == Role::stored && !op(node.op).view) return;
    for (const AttrValue& attr : node.attrs) {
      put(attr.index());
      std::visit([&](const auto& x) { put(x); }, attr);
    }
    put(node.inputs.size());
    for (ValueId i : node.inputs) meet(i);
  }

  const Graph& graph_;
  const std::unordered_map<ValueId, Dims>& strides_;
  const std::span<const ValueId> members_;
  std::unordered_map<ValueId, uint32_t> numbers_;
  std::string bytes_;
};

}  // namespace

Outlines::Outlines(const Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {
  for (const InputBinding& in : graph.inputs)
    if (in.strides) strides_.try_emplace(in.value, *in.strides);
  for (const OutputBinding& out : graph.outputs)
    if (const auto strides = output_strides(graph, out)) strides_.try_emplace(out.value, *strides);
}

std::string Outlines::of(std::span<const ValueId> members) const {
  return OutlineWriter(graph_, strides_, members).write(outputs_of(graph_, uses_, members));
}

}  // namespace tenon
