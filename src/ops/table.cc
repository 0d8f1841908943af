// See src/ir/op.h and table.h. The built-in rows are created on first use. Registered rows are appended; no
// row ever moves or disappears, so op() needs no lock.
#include "src/ops/table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "src/base/no_fork.h"
#include "src/base/text.h"
#include "src/ops/bodies/bodies.h"
#include "src/ops/gradients/gradients.h"
#include "src/ops/math/math.h"
#include "src/ops/math/scalar.h"
#include "src/ops/rules/rules.h"
#include "src/ops/special/special.h"

namespace tenon {
namespace {

constexpr int kMaxOps = 4096;  // built-in and registered rows of one process

std::vector<Op> built_in_rows() {
  std::vector<Op> rows;
#define OP(row_name, ...) rows.push_back(Op{.name = #row_name, __VA_ARGS__});
#include "src/ops/rows/rows.def"
#undef OP
  return rows;
}

struct Table {
  std::array<std::atomic<const Op*>, kMaxOps> rows{};
  std::atomic<int> count{0};
  std::shared_mutex mutex;  // guards the members below, and appending
  std::unordered_map<std::string_view, OpId> ids;
  std::deque<Op> storage;
  std::deque<std::string> strings;  // the strings of registered rows

  Table() {
    for (Op& row : built_in_rows()) append(std::move(row));
  }

  OpId append(Op row) {
    const int id = count.load(std::memory_order_relaxed);
    auto specs = parse_attr_specs(row.attrs);
    TENON_CHECK(specs.ok(), std::string(row.name) + ": " + specs.status().message());
    row.attr_specs = std::move(*specs);
    const Op& kept = storage.emplace_back(std::move(row));
    ids.emplace(kept.name, static_cast<OpId>(id));
    rows[id].store(&kept, std::memory_order_release);
    count.store(id + 1, std::memory_order_release);
    return static_cast<OpId>(id);
  }

  std::string_view keep(std::string_view text) { return strings.emplace_back(text); }
};

Table& table() {
  static Table& table = *new Table;  // never destroyed: host threads may outlive static destructors
  return table;
}

// Whether the text is a name token without dots.
bool is_plain_name(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

std::optional<AttrKind> attr_kind(std::string_view word) {
  static constexpr std::pair<std::string_view, AttrKind> kWords[] = {
      {"int", AttrKind::integer},   {"ints", AttrKind::ints}, {"float", AttrKind::floating},
      {"bool", AttrKind::boolean},  {"text", AttrKind::text}, {"dtype", AttrKind::dtype},
      {"number", AttrKind::number}, {"data", AttrKind::data},
  };
  for (auto [name, kind] : kWords)
    if (name == word) return kind;
  return std::nullopt;
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<AttrValue> parse_ints(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  Dims dims;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    auto value = parse_number<int64_t>(text.substr(0, comma));
    if (!value) return std::nullopt;
    dims.push_back(Dim(*value));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return dims;
}

std::optional<AttrValue> parse_default(AttrKind kind, std::string_view text) {
  const auto integer = parse_number<int64_t>(text);
  const auto floating = parse_number<double>(text);
  switch (kind) {
    case AttrKind::integer: return integer ? std::optional<AttrValue>(Dim(*integer)) : std::nullopt;
    case AttrKind::ints: return parse_ints(text);
    case AttrKind::floating: return floating ? std::optional<AttrValue>(*floating) : std::nullopt;
    case AttrKind::boolean:
      return text == "true" || text == "false" ? std::optional<AttrValue>(text == "true") : std::nullopt;
    case AttrKind::text:
      return is_plain_name(text) ? std::optional<AttrValue>(std::string(text)) : std::nullopt;
    case AttrKind::dtype:
      if (auto dtype = parse_dtype(text)) return *dtype;
      return std::nullopt;
    case AttrKind::number:
      if (integer) return Scalar::of(*integer);
      return floating ? std::optional<AttrValue>(Scalar::of(*floating)) : std::nullopt;
    case AttrKind::data: return std::nullopt;
  }
  return std::nullopt;
}

Status check_columns(const Op& row) {
  auto lacks = [&](bool lacking, std::string what) {
    return lacking ? invalid("a " + std::string(kind_name(row.kind)) + " row needs " + what) : Status();
  };
  const bool scalar_columns = row.math || row.eval || row.eval_int || !row.llvm.f.empty() ||
                              !row.llvm.s.empty() || !row.llvm.u.empty() || !row.llvm.b.empty();
  bool dtype_decides = false;
  for (const AttrSpec& spec : row.attr_specs) dtype_decides |= spec.kind == AttrKind::dtype;
  switch (row.kind) {
    case Kind::input: return lacks(row.arity != 0, "arity 0");
    case Kind::map:
      TENON_TRY(lacks(!row.fault.what.empty() && !(row.fault.eval && row.eval_int && !row.fault.llvm.empty()),
                      "an eval_int column, and all of its fault column"));
      return lacks(!row.eval && !row.eval_int && !row.body && !dtype_decides,
                   "an eval or eval_int column, or a body");
    case Kind::reduce:
    case Kind::scan: {
      TENON_TRY(lacks(row.arity != 1, "one operand"));
      TENON_TRY(lacks(row.combine.empty(), "a combine column"));
      return lacks(!row.identity, "an identity column");
    }
    case Kind::contract: return lacks(!row.body, "a body, its definition");
    case Kind::composite: {
      TENON_TRY(lacks(!row.body, "a body"));
      return lacks(scalar_columns || !row.combine.empty() || row.identity, "a body and no scalar columns");
    }
    case Kind::move:
    case Kind::opaque: return {};
  }
  return {};
}

}  // namespace

std::string_view kind_name(Kind kind) {
  static constexpr std::string_view kNames[] = {"input", "map",      "reduce",    "scan",
                                                "move",  "contract", "composite", "opaque"};
  return kNames[static_cast<int>(kind)];
}

Result<std::vector<AttrSpec>> parse_attr_specs(std::string_view attrs) {
  std::vector<AttrSpec> specs;
  while (!attrs.empty()) {
    const size_t space = std::min(attrs.find(' '), attrs.size());
    const std::string_view item = attrs.substr(0, space);
    attrs.remove_prefix(std::min(space + 1, attrs.size()));
    const size_t colon = item.find(':');
    const size_t equals = item.find('=');
    const std::string text = "attribute '" + std::string(item) + "': ";
    if (colon == item.npos) return invalid(text + "needs name:kind");
    AttrSpec spec;
    spec.name = item.substr(0, colon);
    if (!is_plain_name(spec.name)) return invalid(text + "not a name");
    for (const AttrSpec& other : specs)
      if (other.name == spec.name) return invalid(text + "named twice");
    auto kind = attr_kind(item.substr(colon + 1, equals == item.npos ? item.npos : equals - colon - 1));
    if (!kind) return invalid(text + "the kind is none of int ints float bool text dtype number data");
    spec.kind = *kind;
    if (equals != item.npos) {
      spec.fallback = parse_default(*kind, item.substr(equals + 1));
      if (!spec.fallback) return invalid(text + "the default does not read as its kind");
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

Status check_row(const Op& row) {
  if (!is_plain_name(row.name)) return invalid("op '" + std::string(row.name) + "': not a name");
  const std::string where = "op " + std::string(row.name);
  if (row.arity < -1 || row.arity > 64) return invalid(where + ": arity must be -1 or 0 to 64");
  if (row.optional < 0 || row.optional > std::max(row.arity, 0))
    return invalid(where + ": more optional operands than operands");
  if (!row.shape || !row.type) return invalid(where + ": needs a shape rule and a type rule");
  if (row.doc.empty()) return invalid(where + ": needs a sentence (doc)");
  auto specs = parse_attr_specs(row.attrs);
  if (!specs.ok()) return specs.status().at(where);
  Op with_specs = row;
  with_specs.attr_specs = *specs;
  return check_columns(with_specs).at(where);
}

Scalar identity_of(const Op& row, DType dtype) {
  const double value = row.identity(dtype);
  if (is_float(dtype)) return Scalar::of(value);
  if (is_bool(dtype)) return Scalar::of(int64_t{value > 0});
  return Scalar::of(value >= 0x1p63 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(value));
}

int op_count() { return table().count.load(std::memory_order_acquire); }

const Op& op(OpId id) {
  TENON_CHECK(id < kMaxOps, "no op " + std::to_string(id));
  const Op* row = table().rows[id].load(std::memory_order_acquire);
  TENON_CHECK(row, "no op " + std::to_string(id));
  return *row;
}

std::optional<OpId> find_op(std::string_view name) {
  Table& t = table();
  const NoFork no_fork;
  std::shared_lock lock(t.mutex);
  auto it = t.ids.find(name);
  return it == t.ids.end() ? std::nullopt : std::optional<OpId>(it->second);
}

Result<OpId> register_op(Op row) {
  TENON_TRY(check_row(row));
  Table& t = table();
  const NoFork no_fork;
  std::unique_lock lock(t.mutex);
  if (t.ids.contains(row.name)) return invalid("op " + std::string(row.name) + ": the name is taken");
  if (!row.combine.empty() && !t.ids.contains(row.combine))
    return invalid("op " + std::string(row.name) + ": combine names no row: " + std::string(row.combine));
  if (t.count.load() >= kMaxOps) return invalid("op " + std::string(row.name) + ": the table is full");
  for (std::string_view* view : {&row.name, &row.attrs, &row.combine, &row.doc, &row.llvm.f, &row.llvm.s,
                                 &row.llvm.u, &row.llvm.b, &row.fault.what, &row.fault.llvm})
    *view = t.keep(*view);
  return t.append(std::move(row));
}

}  // namespace tenon
