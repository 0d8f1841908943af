// See outline.h.
#include "src/ir/outline.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>
#include <variant>

namespace tenon {
namespace {

// Writes one outline. Values are numbered in the order in which they are met.
class OutlineWriter {
 public:
  // operands: the strides of the values that the members read.
  OutlineWriter(const Graph& graph, const Outlines::StridesOf& operands, std::span<const ValueId> members)
      : graph_(graph), operands_(operands), members_(members) {}

  std::string write(std::span<const ValueId> outputs, const Outlines::StridesOf& strides_of) {
    for (ValueId m : members_) meet(m);
    for (ValueId o : outputs) {
      put(numbers_.at(o));
      put(strides_of(o).value());
    }
    return std::move(bytes_);
  }

  std::vector<ValueId> values() const {
    std::vector<ValueId> values(numbers_.size());
    for (const auto& [v, number] : numbers_) values[number] = v;
    return values;
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

  void meet(ValueId v) {
    const auto [number, fresh] = numbers_.try_emplace(v, static_cast<uint32_t>(numbers_.size()));
    if (!fresh) {
      put(Role::known);
      put(number->second);
      return;
    }
    const Node& node = graph_.node(v);
    const bool member = std::binary_search(members_.begin(), members_.end(), v);
    const std::optional<Dims> strides = member ? std::nullopt : operands_(v);
    const Role role = member ? Role::member : strides ? Role::stored : Role::inlined;
    put(role);
    put(node.op);
    put(node.type.dtype);
    put(node.type.shape);
    if (role == Role::stored) put(*strides);
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
  const Outlines::StridesOf& operands_;
  const std::span<const ValueId> members_;
  std::unordered_map<ValueId, uint32_t> numbers_;
  std::string bytes_;
};

}  // namespace

Outlines::Outlines(const Graph& graph, const Uses& uses, const StridesOf& strides_of)
    : graph_(graph), uses_(uses), operands_(strides_of), outputs_(strides_of) {}

Outlines::Outlines(const Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {
  std::unordered_map<ValueId, Dims> bound;
  for (const InputBinding& in : graph.inputs)
    if (in.strides) bound.try_emplace(in.value, *in.strides);
  for (const OutputBinding& out : graph.outputs)
    if (const auto strides = output_strides(graph, out)) bound.try_emplace(out.value, *strides);
  outputs_ = [bound = std::move(bound)](ValueId v) {
    const auto found = bound.find(v);
    return found != bound.end() ? found->second : Dims();  // no strides stand for dense ones
  };
  operands_ = [this](ValueId v) { return is_inlined(graph_, v) ? std::nullopt : outputs_(v); };
}

std::string Outlines::of(std::span<const ValueId> members, std::vector<ValueId>* values) const {
  OutlineWriter writer(graph_, operands_, members);
  std::string outline = writer.write(outputs_of(graph_, uses_, members), outputs_);
  if (values) *values = writer.values();
  return outline;
}

}  // namespace tenon
