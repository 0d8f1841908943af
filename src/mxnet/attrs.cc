// See attrs.h.
#include "src/mxnet/attrs.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "src/base/text.h"

namespace tenon::mxnet {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool readable(const AttrColumn& column, std::string_view text) {
  if (column.none && text == "None") return true;
  if (column.kind == "int") return read_attr_int(text).has_value();
  if (column.kind == "float" || column.kind == "double") return read_attr_float(text).has_value();
  if (column.kind == "bool") return read_attr_bool(text).has_value();
  if (column.kind == "shape") return read_attr_tuple(text).has_value();
  if (column.kind == "dtype") return read_attr_dtype(text).has_value();
  return column.choices.empty() ||
         std::find(column.choices.begin(), column.choices.end(), text) != column.choices.end();
}

// What the kind is called in messages.
std::string expected(const AttrColumn& column) {
  if (!column.choices.empty()) {
    std::string all = "one of";
    for (const std::string_view choice : column.choices) all += " " + std::string(choice);
    return all;
  }
  if (column.kind == "int") return "an integer";
  if (column.kind == "float" || column.kind == "double") return "a number";
  if (column.kind == "bool") return "True or False";
  if (column.kind == "shape") return "a tuple of integers";
  return "a dtype that Tenon has";
}

}  // namespace

std::optional<int64_t> read_attr_int(std::string_view text) {
  text = trim(text);
  if (text.ends_with('L') || text.ends_with('l')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value > kMostInteger || value < -kMostInteger ? std::nullopt : std::optional(value);
}

std::optional<double> read_attr_float(std::string_view text) {
  text = trim(text);
  if (text == "inf" || text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-inf" || text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "True" || text == "False") return text == "True" ? 1 : 0;
  if (text.ends_with('f')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> read_attr_bool(std::string_view text) {
  text = trim(text);
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0") return false;
  return std::nullopt;
}

std::optional<Tuple> read_attr_tuple(std::string_view text) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  Tuple out;
  const char open = text.front();
  if (open != '(' && open != '[') {
    const auto one = read_attr_int(text);
    return one ? std::optional(Tuple{one}) : std::nullopt;
  }
  if (text.size() < 2 || text.back() != (open == '(' ? ')' : ']')) return std::nullopt;
  text = trim(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    if (out.size() == kMostElements) return std::nullopt;
    const size_t comma = text.find(',');
    const std::string_view element = trim(text.substr(0, comma));
    if (element == "None") {
      out.push_back(std::nullopt);
    } else {
      const auto one = read_attr_int(element);
      if (!one) return std::nullopt;
      out.push_back(one);
    }
    if (comma == text.npos) break;
    text = trim(text.substr(comma + 1));
  }
  return out;
}

std::optional<DType> dtype_of_flag(int64_t flag) {
  constexpr DType kFlags[] = {DType::f32, DType::f64, DType::f16, DType::u8, DType::i32,
                              DType::i8,  DType::i64, DType::b8,  DType::i16};
  if (flag >= 0 && flag < static_cast<int64_t>(std::size(kFlags))) return kFlags[flag];
  return flag == 12 ? std::optional(DType::bf16) : std::nullopt;
}

std::optional<DType> read_attr_dtype(std::string_view text) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16}, {"bfloat16", DType::bf16},
      {"int64", DType::i64},   {"int32", DType::i32},   {"int16", DType::i16},   {"int8", DType::i8},
      {"uint8", DType::u8},    {"bool", DType::b8}};
  for (const auto& [name, dtype] : kNames)
    if (name == text) return dtype;
  const auto flag = read_attr_int(text);
  return flag ? dtype_of_flag(*flag) : std::nullopt;
}

std::vector<AttrColumn> parse_columns(std::string_view columns) {
  std::vector<AttrColumn> out;
  while (!columns.empty()) {
    const size_t space = columns.find(' ');
    std::string_view one = columns.substr(0, space);
    columns = space == columns.npos ? std::string_view() : columns.substr(space + 1);
    if (one.empty()) continue;
    AttrColumn column;
    const size_t colon = one.find(':');
    column.name = one.substr(0, colon);
    one = one.substr(colon + 1);
    if (const size_t equals = one.find('='); equals != one.npos) {
      column.fallback = one.substr(equals + 1);
      one = one.substr(0, equals);
    }
    if (const size_t brace = one.find('{'); brace != one.npos) {
      std::string_view list = one.substr(brace + 1, one.size() - brace - 2);
      one = one.substr(0, brace);
      while (!list.empty()) {
        const size_t comma = list.find(',');
        column.choices.push_back(list.substr(0, comma));
        list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
      }
    }
    column.none = one.ends_with('?');
    if (column.none) one.remove_suffix(1);
    column.kind = one;
    out.push_back(std::move(column));
  }
  return out;
}

Result<Attrs> Attrs::read(const std::vector<AttrColumn>& columns, const SymbolNode& node) {
  for (const AttrColumn& column : columns) {
    const std::string* text = node.attr(column.name);
    if (!text && !column.fallback) return invalid("needs the attribute " + std::string(column.name));
    if (text && !readable(column, *text)) {
      const std::string what = "attribute " + std::string(column.name) + " is '" + text->substr(0, 80) +
                               "', not " + expected(column);
      return column.kind == "dtype" || !column.choices.empty() ? unsupported(what) : invalid(what);
    }
  }
  for (const auto& [key, value] : node.attrs) {
    if (key.size() > 4 && key.starts_with("__") && key.ends_with("__")) continue;
    const bool known =
        std::any_of(columns.begin(), columns.end(), [&](const AttrColumn& c) { return c.name == key; });
    if (!known) return unsupported("the attribute " + key.substr(0, 80) + " is not translated");
  }
  Attrs out;
  out.columns_ = &columns;
  out.node_ = &node;
  return out;
}

const AttrColumn& Attrs::column(std::string_view name) const {
  for (const AttrColumn& column : *columns_)
    if (column.name == name) return column;
  TENON_CHECK(false, "no attribute " + std::string(name));
}

std::string_view Attrs::value(std::string_view name) const {
  const std::string* text = node_->attr(name);
  return text ? std::string_view(*text) : *column(name).fallback;
}

bool Attrs::is_none(std::string_view name) const { return value(name) == "None"; }

template <class T>
T Attrs::read(std::string_view name, std::optional<T> (*reader)(std::string_view), const char* kind) const {
  const std::optional<T> read = reader(value(name));
  TENON_CHECK(read, "attribute " + std::string(name) + " is no " + kind);
  return *read;
}

int64_t Attrs::integer(std::string_view name) const { return read(name, read_attr_int, "integer"); }

double Attrs::number(std::string_view name) const {
  const double number = read(name, read_attr_float, "number");
  return column(name).kind == "float" ? static_cast<double>(static_cast<float>(number)) : number;
}

bool Attrs::flag(std::string_view name) const { return read(name, read_attr_bool, "bool"); }
std::string_view Attrs::text(std::string_view name) const { return value(name); }

DType Attrs::dtype(std::string_view name) const { return read(name, read_attr_dtype, "dtype"); }
Tuple Attrs::tuple(std::string_view name) const { return read(name, read_attr_tuple, "tuple"); }

std::vector<int64_t> Attrs::ints(std::string_view name) const {
  std::vector<int64_t> out;
  for (const std::optional<int64_t>& n : tuple(name)) {
    if (!n) throw StatusError(invalid("attribute " + std::string(name) + " has an element None"));
    out.push_back(*n);
  }
  return out;
}

}  // namespace tenon::mxnet
