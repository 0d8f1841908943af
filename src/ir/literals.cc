// See literals.h. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/*.tn.
#include "src/ir/literals.h"

#include <algorithm>

#include "src/ir/text.h"

namespace tenon {

Result<Dim> LiteralParser::size() { return dims_.parse(lexer_); }

Result<Dims> LiteralParser::sizes() {
  TENON_TRY(lexer_.expect("["));
  Dims out;
  if (lexer_.accept("]")) return out;
  do {
    TENON_ASSIGN(Dim d, size());
    out.push_back(d);
  } while (lexer_.accept(","));
  TENON_TRY(lexer_.expect("]"));
  return out;
}

Result<DType> LiteralParser::dtype() {
  if (lexer_.peek().kind != Token::Kind::name) return lexer_.expected("a dtype");
  std::string_view text = lexer_.peek().text;
  auto found = parse_dtype(text);
  if (found) {
    lexer_.next();
    return *found;
  }
  Nearest nearest(text);
  std::string dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    nearest.offer(name(static_cast<DType>(i)));
    dtypes += (i ? ", " : "") + std::string(name(static_cast<DType>(i)));
  }
  const std::string hint = nearest.hint();
  return lexer_.error("unknown dtype '" + std::string(text.substr(0, 80)) + "'" +
                      (hint.empty() ? ", the dtypes are " + dtypes : hint));
}

Result<TensorType> LiteralParser::type() {
  TensorType out;
  TENON_ASSIGN(out.dtype, dtype());
  TENON_ASSIGN(out.shape, sizes());
  return out;
}

Result<AttrValue> LiteralParser::attr_value(AttrKind kind) {
  switch (kind) {
    case AttrKind::integer: {
      TENON_ASSIGN(Dim d, size());
      return AttrValue(d);
    }
    case AttrKind::ints: {
      TENON_ASSIGN(Dims d, sizes());
      return AttrValue(std::move(d));
    }
    case AttrKind::floating: {
      TENON_ASSIGN(double x, lexer_.number());
      return AttrValue(x);
    }
    case AttrKind::boolean:
      if (!lexer_.at("true") && !lexer_.at("false")) return lexer_.expected("true or false");
      return AttrValue(lexer_.next().text == "true");
    case AttrKind::text: {
      TENON_ASSIGN(std::string text, lexer_.string());
      return AttrValue(std::move(text));
    }
    case AttrKind::dtype: {
      TENON_ASSIGN(DType d, dtype());
      return AttrValue(d);
    }
    case AttrKind::number: {
      Lexer::Mark mark = lexer_.mark();
      lexer_.accept("-");
      bool whole = lexer_.peek().kind == Token::Kind::integer;
      lexer_.reset(mark);
      if (whole) {
        TENON_ASSIGN(int64_t i, lexer_.integer());
        return AttrValue(Scalar::of(i));
      }
      TENON_ASSIGN(double x, lexer_.number());
      return AttrValue(Scalar::of(x));
    }
    case AttrKind::data: return data();
  }
  return lexer_.error("unknown kind of attribute");
}

Result<AttrValue> LiteralParser::data() {
  if (lexer_.peek().kind != Token::Kind::hex) return lexer_.expected("bytes such as 0x00ff");
  auto bytes = from_hex(lexer_.peek().text);
  if (!bytes) return lexer_.error("an odd number of hexadecimal digits");
  lexer_.next();
  auto owner = std::make_shared<const std::string>(std::move(*bytes));
  auto out = std::make_shared<ConstantData>();
  out->bytes = owner->data();
  out->size = owner->size();
  out->owner = owner;
  out->id = next_constant_id();
  return AttrValue(std::move(out));
}

Status LiteralParser::attribute(const Op& row, std::vector<NamedAttr>& given) {
  Token at = lexer_.peek();
  TENON_ASSIGN(std::string_view name, lexer_.name("an attribute"));
  auto spec =
      std::find_if(row.attr_specs.begin(), row.attr_specs.end(), [&](auto& s) { return s.name == name; });
  if (spec == row.attr_specs.end()) {
    Nearest nearest(name);
    for (const AttrSpec& s : row.attr_specs) nearest.offer(s.name);
    return Lexer::error(at, std::string(row.name) + " has no attribute '" + std::string(name.substr(0, 80)) +
                                "'" + nearest.hint());
  }
  for (const NamedAttr& other : given)
    if (other.name == name) return Lexer::error(at, "attribute " + spec->name + " given twice");
  TENON_TRY(lexer_.expect("="));
  TENON_ASSIGN(AttrValue value, attr_value(spec->kind));
  given.push_back({spec->name, std::move(value)});
  return {};
}

Result<std::vector<NamedAttr>> parse_attrs(const std::shared_ptr<DimTable>& dims, const Op& row,
                                           std::string_view text) {
  Lexer lexer(text);
  LiteralParser literals(lexer, *dims);
  std::vector<NamedAttr> given;
  while (!lexer.at_end()) {
    if (!given.empty()) TENON_TRY(lexer.expect(","));
    TENON_TRY(literals.attribute(row, given));
  }
  return given;
}

Result<Dims> parse_sizes(DimTable& dims, std::string_view text) {
  Lexer lexer(text);
  Dims out;
  while (!lexer.at_end()) {
    if (!out.empty()) TENON_TRY(lexer.expect(","));
    TENON_ASSIGN(Dim d, dims.parse(lexer));
    out.push_back(d);
  }
  return out;
}

}  // namespace tenon
