// See builder.h. Tested by tests/unit/ir/ir_test.cc.
#include "src/ir/builder.h"

#include <algorithm>
#include <cmath>

#include "src/base/text.h"

namespace tenon {
namespace {

constexpr std::string_view kAttrKindNames[] = {
    "an integer", "a list of integers", "a float", "true or false", "text", "a dtype", "a number", "data"};
static_assert(std::variant_size_v<AttrValue> == std::size(kAttrKindNames));
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(AttrKind::data), AttrValue>,
                             std::shared_ptr<ConstantData>>);

bool has_kind(const AttrValue& value, AttrKind kind) { return value.index() == static_cast<size_t>(kind); }

OpId row(std::string_view name) {
  auto id = find_op(name);
  TENON_CHECK(id, "no row " + std::string(name));
  return *id;
}

std::string count(size_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

Status check_arity(const Op& row, size_t given) {
  if (row.arity < 0) return given >= 1 ? Status() : invalid("takes at least 1 operand, given 0");
  size_t most = static_cast<size_t>(row.arity), least = most - static_cast<size_t>(row.optional);
  if (given >= least && given <= most) return {};
  std::string takes =
      least == most ? count(most, "operand") : std::to_string(least) + " to " + count(most, "operand");
  return invalid("takes " + takes + ", given " + std::to_string(given));
}

Status check_size(const DimTable& dims, Dim d) {
  if (!dims.valid(d)) return invalid("a size that is not of this graph");
  if (dims.is_overflow(d)) return invalid("a size too large");
  return {};
}

Status check_attr(const Graph& graph, const AttrSpec& spec, const AttrValue& value) {
  if (!has_kind(value, spec.kind))
    return invalid("attribute " + spec.name + " must be " +
                   std::string(kAttrKindNames[static_cast<int>(spec.kind)]) + ", not " +
                   std::string(kAttrKindNames[value.index()]));
  if (spec.kind == AttrKind::integer)
    return check_size(*graph.dims, std::get<Dim>(value)).at("attribute " + spec.name);
  if (spec.kind == AttrKind::ints)
    for (Dim d : std::get<Dims>(value)) TENON_TRY(check_size(*graph.dims, d).at("attribute " + spec.name));
  if (spec.kind == AttrKind::data && !std::get<std::shared_ptr<ConstantData>>(value))
    return invalid("attribute " + spec.name + " has no data");
  return {};
}

// Converts a number to the kind of the attribute if that loses nothing: 2 becomes a float or number, 2.0
// stays a float.
void convert(AttrValue& value, AttrKind kind) {
  if (const Dim* d = std::get_if<Dim>(&value); d && d->is_const()) {
    if (kind == AttrKind::floating)
      value = static_cast<double>(d->value());
    else if (kind == AttrKind::number)
      value = Scalar::of(d->value());
  } else if (const double* x = std::get_if<double>(&value)) {
    if (kind == AttrKind::number) value = Scalar::of(*x);
  } else if (const Scalar* s = std::get_if<Scalar>(&value)) {
    if (kind == AttrKind::floating)
      value = s->as_double();
    else if (kind == AttrKind::integer && s->is_int && Dim::fits(s->i))
      value = Dim(s->i);
  }
}

}  // namespace

void set_attr(Node& node, std::string_view name, AttrValue value) {
  const auto& specs = op(node.op).attr_specs;
  const auto found = std::ranges::find(specs, name, &AttrSpec::name);
  TENON_CHECK(found != specs.end(), std::string(op(node.op).name) + " has no attribute " + std::string(name));
  node.attrs[static_cast<size_t>(found - specs.begin())] = std::move(value);
}

std::string describe(const Graph& graph, const Node& node) {
  // Names may be long, but messages should not be.
  auto cut = [](const std::string& name) { return name.size() <= 80 ? name : name.substr(0, 80) + "..."; };
  std::string text = node.name.empty() ? "" : "%" + cut(node.name) + " = ";
  text += node.op < op_count() ? std::string(op(node.op).name) : "op " + std::to_string(node.op);
  text += "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i == 8) return text + ", ...)";
    if (i) text += ", ";
    text += cut(graph.value_name(node.inputs[i]));
    if (node.inputs[i] < graph.nodes.size()) text += ": " + graph.print_type(graph.type(node.inputs[i]));
  }
  return text + ")";
}

Status check_type(const Graph& graph, const TensorType& type) {
  if (type.rank() > kMaxRank)
    return invalid("rank " + std::to_string(type.rank()) + " is above " + std::to_string(kMaxRank));
  if (static_cast<int>(type.dtype) >= kDTypeCount) return invalid("unknown dtype");
  bool constant = true, empty = false, fits = true;
  int64_t bytes = size_of(type.dtype);
  for (Dim d : type.shape) {
    TENON_TRY(check_size(*graph.dims, d));
    if (!d.is_const()) {
      constant = false;
      continue;
    }
    if (d.value() < 0) return invalid("negative size in " + graph.print_type(type));
    if (d.value() == 0)
      empty = true;
    else if (fits)
      fits = !__builtin_mul_overflow(bytes, d.value(), &bytes);
  }
  if (constant && !empty && !fits)
    return invalid(graph.print_type(type) + " has more bytes than 64 bits can count");
  return {};
}

Status fill_attrs(const Op& row, std::vector<NamedAttr> given, std::vector<AttrValue>& out) {
  out.clear();
  std::vector<bool> used(given.size());
  for (const AttrSpec& spec : row.attr_specs) {
    bool found = false;
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].name != spec.name) continue;
      if (found) return invalid(std::string(row.name) + ": attribute " + spec.name + " given twice");
      found = used[i] = true;
      convert(given[i].value, spec.kind);
      out.push_back(std::move(given[i].value));
    }
    if (found) continue;
    if (!spec.fallback) return invalid(std::string(row.name) + ": needs attribute " + spec.name);
    out.push_back(*spec.fallback);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (used[i]) continue;
    Nearest nearest(given[i].name);
    for (const AttrSpec& spec : row.attr_specs) nearest.offer(spec.name);
    return invalid(std::string(row.name) + ": no attribute " + std::string(given[i].name) + nearest.hint());
  }
  return {};
}

namespace {

// The type that the row's rules infer; it may still fail check_type.
Result<TensorType> by_rules(const Graph& graph, const Node& node, Claim* claim = nullptr) {
  if (node.op >= op_count()) return invalid("unknown op number " + std::to_string(node.op));
  const Op& row = op(node.op);
  auto where = [&](const Status& status) { return status.ok() ? status : status.at(describe(graph, node)); };
  TENON_TRY(where(check_arity(row, node.inputs.size())));
  for (ValueId v : node.inputs)
    if (v >= graph.nodes.size()) return where(invalid("no such operand " + graph.value_name(v)));
  if (node.attrs.size() != row.attr_specs.size())
    return where(invalid("needs " + count(row.attr_specs.size(), "attribute") + ", has " +
                         std::to_string(node.attrs.size())));
  for (size_t i = 0; i < node.attrs.size(); ++i)
    TENON_TRY(where(check_attr(graph, row.attr_specs[i], node.attrs[i])));
  TENON_CHECK(row.shape && row.type, "the row " + std::string(row.name) + " lacks a shape or type rule");
  InferContext context{graph, node, *graph.dims};
  context.claim = claim;
  TensorType type;
  TENON_ASSIGN(type.dtype, row.type(context));
  TENON_ASSIGN(type.shape, row.shape(context));
  return type;
}

// A pass or a body adds an invalid node. That is a bug of Tenon, unless a size is too large, which is a
// mistake in the graph.
[[noreturn]] void refused(const Graph& graph, const Node& node, const Status& status) {
  auto type = by_rules(graph, node);
  bool too_large = type.ok() && !check_type(graph, *type).ok();
  auto look = [&](Dim d) { too_large = too_large || graph.dims->is_overflow(d); };
  for (const AttrValue& value : node.attrs) {
    if (auto d = std::get_if<Dim>(&value)) look(*d);
    if (auto dims = std::get_if<Dims>(&value)) std::for_each(dims->begin(), dims->end(), look);
  }
  if (too_large) throw StatusError(status);
  check_failed(__FILE__, __LINE__, "the node can be added", status.message());
}

}  // namespace

Result<TensorType> infer(const Graph& graph, const Node& node, Claim* claim) {
  TENON_ASSIGN(TensorType type, by_rules(graph, node, claim));
  if (Status status = check_type(graph, type); !status.ok()) return status.at(describe(graph, node));
  return type;
}

Status Builder::check_name(const std::string& name) {
  if (name.empty()) return {};
  if (!is_name(name))
    return invalid("a value's name starts with a letter or _ and goes on with letters, digits, _ and .");
  if (named_ > graph_.nodes.size()) {
    names_.clear();
    named_ = 0;
  }
  for (; named_ < graph_.nodes.size(); ++named_)
    if (!graph_.nodes[named_].name.empty())
      names_.insert_or_assign(graph_.nodes[named_].name, static_cast<ValueId>(named_));
  auto it = names_.find(name);
  if (it != names_.end() && it->second < graph_.nodes.size() && graph_.nodes[it->second].name == name)
    return invalid("the name %" + name + " is taken");
  return {};
}

ValueId Builder::append(Node node) {
  TENON_CHECK(graph_.nodes.size() < kNoValue, "too many nodes");
  graph_.nodes.push_back(std::move(node));
  return static_cast<ValueId>(graph_.nodes.size() - 1);
}

Result<ValueId> Builder::try_input(std::string name, TensorType type) {
  TENON_TRY(check_name(name));
  TENON_TRY(
      check_type(graph_, type).at("input %" + (name.empty() ? std::to_string(graph_.nodes.size()) : name)));
  Node node;
  node.op = row("input");
  node.type = std::move(type);
  node.name = std::move(name);
  ValueId v = append(std::move(node));
  graph_.inputs.push_back({v, false, std::nullopt, std::nullopt});
  return v;
}

Result<ValueId> Builder::try_add(OpId id, std::vector<ValueId> operands, std::vector<NamedAttr> attrs,
                                 std::string name) {
  if (id >= op_count()) return invalid("unknown op number " + std::to_string(id));
  Node node;
  node.op = id;
  node.inputs = std::move(operands);
  node.name = std::move(name);
  Status filled = fill_attrs(op(id), std::move(attrs), node.attrs);
  if (!filled.ok()) return node.name.empty() ? filled : filled.at("%" + node.name);
  return try_add(std::move(node));
}

Result<ValueId> Builder::try_add(Node node, Claim* claim) {
  static const OpId kInput = row("input");
  TENON_TRY(check_name(node.name));
  if (node.op == kInput) return invalid("inputs are declared, not added as nodes");
  TENON_ASSIGN(node.type, infer(graph_, node, claim));
  return append(std::move(node));
}

ValueId Builder::operator()(OpId id, std::initializer_list<ValueId> operands, std::vector<NamedAttr> attrs) {
  TENON_CHECK(id < op_count(), "unknown op number " + std::to_string(id));
  Node node;
  node.op = id;
  node.inputs = operands;
  const Status filled = fill_attrs(op(id), std::move(attrs), node.attrs);
  TENON_CHECK(filled.ok(), filled.message());
  return add(std::move(node));
}

bool Builder::is_unchanged(const Node& node) const {
  if (!former_ || node.op != former_->op || node.inputs.size() != former_->inputs.size() ||
      node.attrs != former_->attrs)
    return false;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (graph_.type(node.inputs[i]) != source_->type(former_->inputs[i])) return false;
  return true;
}

ValueId Builder::add(Node node) {
  static const OpId kInput = row("input");
  TENON_CHECK(node.op != kInput && (node.name.empty() || is_name(node.name)),
              "not a valid node: " + node.name);
  if (!check_name(node.name).ok()) node.name.clear();  // another node has the name
  if (is_unchanged(node)) {
    node.type = former_->type;
    return append(std::move(node));
  }
  auto type = infer(graph_, node);
  if (!type.ok()) refused(graph_, node, type.status());
  node.type = std::move(*type);
  return append(std::move(node));
}

ValueId Builder::scalar(double value, DType dtype) {
  static const OpId kFull = row("full");
  bool whole = !is_float(dtype) && value == std::floor(value) && std::abs(value) < 0x1p63;
  return (*this)(kFull, {},
                 {{"value", whole ? Scalar::of(static_cast<int64_t>(value)) : Scalar::of(value)},
                  {"shape", Dims{}},
                  {"dtype", dtype}});
}

ValueId Builder::scalar_int(int64_t value, DType dtype) {
  static const OpId kFull = row("full");
  return (*this)(kFull, {}, {{"value", Scalar::of(value)}, {"shape", Dims{}}, {"dtype", dtype}});
}

ValueId Builder::cast(ValueId v, DType to) {
  static const OpId kCast = row("cast");
  return type(v).dtype == to ? v : (*this)(kCast, {v}, {{"dtype", to}});
}

ValueId Builder::reshape(ValueId v, Dims shape) {
  static const OpId kReshape = row("reshape");
  return this->shape(v) == shape ? v : (*this)(kReshape, {v}, {{"shape", std::move(shape)}});
}

ValueId Builder::size(Dim d, DType dtype) {
  static const OpId kDim = row("dim");
  if (d.is_const())
    return is_float(dtype) ? scalar(static_cast<double>(d.value()), dtype) : scalar_int(d.value(), dtype);
  return (*this)(kDim, {}, {{"value", d}, {"dtype", dtype}});
}

}  // namespace tenon
