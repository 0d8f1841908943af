// See text.h. Tested by tests/unit/base/base_test.cc.
#include "src/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

namespace tenon {
namespace {

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// For messages: short and printable, whatever the bytes are.
std::string show(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 40)) {
    if (c >= ' ' && c < 0x7f)
      out += c;
    else {
      out += "\\x";
      out += "0123456789abcdef"[(c >> 4) & 15];
      out += "0123456789abcdef"[c & 15];
    }
  }
  return out + (text.size() > 40 ? "...'" : "'");
}

}  // namespace

Lexer::Lexer(std::string_view source) : source_(source) { token_ = scan(); }

Token Lexer::next() {
  Token out = std::move(token_);
  last_line_ = out.line;
  last_column_ = out.column + static_cast<int>(std::min<size_t>(out.text.size(), kMaxName));
  token_ = scan();
  return out;
}

bool Lexer::accept(std::string_view word) {
  if (!at(word)) return false;
  next();
  return true;
}

Status Lexer::expect(std::string_view word) {
  if (accept(word)) return {};
  return expected("'" + std::string(word) + "'");
}

Status Lexer::expected(std::string_view what) const {
  if (by_lines_ && token_.line > last_line_) {
    Token end;
    end.line = last_line_;
    end.column = last_column_;
    return error(end, "expected " + std::string(what) + ", found the end of the line");
  }
  if (token_.kind == Token::Kind::bad) return error(token_.string);
  return error("expected " + std::string(what) + ", found " + (at_end() ? "the end" : show(token_.text)));
}

Status Lexer::error(const Token& token, std::string message) {
  return invalid(std::to_string(token.line) + ":" + std::to_string(token.column) + ": " + std::move(message));
}

Result<std::string_view> Lexer::name(std::string_view what) {
  if (token_.kind != Token::Kind::name) return expected(what);
  return next().text;
}

Result<std::string_view> Lexer::value_name() {
  if (!at("%")) return expected("a value such as %x");
  Token percent = next();
  if (token_.kind == Token::Kind::bad) return expected("a name");
  bool named = token_.kind == Token::Kind::name || token_.kind == Token::Kind::integer;
  if (!named || token_.begin() != percent.end()) return error(percent, "expected a name directly after '%'");
  return next().text;
}

Result<int64_t> Lexer::integer() {
  Token first = token_;
  bool negative = accept("-");
  if (token_.kind != Token::Kind::integer) return expected("an integer");
  uint64_t limit = uint64_t{1} << 63;
  if (token_.integer > (negative ? limit : limit - 1)) return error(first, "integer beyond 64 bits");
  uint64_t bits = next().integer;
  return static_cast<int64_t>(negative ? -bits : bits);
}

Result<double> Lexer::number() {
  bool negative = accept("-");
  double x;
  if (token_.kind == Token::Kind::integer || token_.kind == Token::Kind::floating)
    x = token_.floating;
  else if (at("inf"))
    x = std::numeric_limits<double>::infinity();
  else if (at("nan"))
    x = std::numeric_limits<double>::quiet_NaN();
  else
    return expected("a number");
  next();
  return negative ? -x : x;
}

Result<std::string> Lexer::string() {
  if (token_.kind != Token::Kind::string) return expected("text in double quotes");
  return next().string;
}

void Lexer::begin_statement() {
  by_lines_ = true;
  last_line_ = token_.line;
  last_column_ = token_.column;
}

void Lexer::skip_line(int line) {
  while (!at_end() && token_.line <= line) next();
}

void Lexer::reset(const Mark& mark) {
  at_ = mark.at;
  line_ = mark.line;
  line_start_ = mark.line_start;
  last_line_ = mark.last_line;
  token_ = mark.token;
}

Token Lexer::make(Token::Kind kind, size_t begin) const {
  Token t;
  t.kind = kind;
  t.text = source_.substr(begin, at_ - begin);
  t.line = line_;
  t.column = static_cast<int>(std::min<size_t>(begin - line_start_ + 1, std::numeric_limits<int>::max()));
  return t;
}

Token Lexer::bad(size_t begin, std::string why) const {
  Token t = make(Token::Kind::bad, begin);
  t.string = std::move(why);
  return t;
}

Token Lexer::scan() {
  for (; at_ < source_.size(); ++at_) {
    char c = source_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == ';' && comments_) {
      while (at_ + 1 < source_.size() && source_[at_ + 1] != '\n') ++at_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
  }
  size_t begin = at_;
  if (at_ >= source_.size()) return make(Token::Kind::end, source_.size());
  char c = source_[at_];
  if (is_letter(c)) {
    while (at_ < source_.size() && is_name_char(source_[at_])) ++at_;
    if (at_ - begin > kMaxName) return bad(begin, "name longer than 1 MiB");
    return make(Token::Kind::name, begin);
  }
  if (is_digit(c)) return scan_number();
  if (c == '"') return scan_string();
  ++at_;
  if ((c == '/' || c == '=') && at_ < source_.size() && source_[at_] == c) ++at_;
  if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0x7f)
    return bad(begin, "unexpected byte " + show(source_.substr(begin, 1)));
  return make(Token::Kind::punct, begin);
}

Token Lexer::scan_number() {
  size_t begin = at_;
  if (source_.substr(at_, 2) == "0x") {
    for (at_ += 2; at_ < source_.size() && hex_digit(source_[at_]) >= 0;) ++at_;
    return make(Token::Kind::hex, begin);
  }
  auto digits = [&] {
    while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
  };
  bool floating = false;
  digits();
  if (at_ < source_.size() && source_[at_] == '.') {
    floating = true;
    ++at_;
    digits();
  }
  if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
    size_t sign = at_ + 1 < source_.size() && (source_[at_ + 1] == '+' || source_[at_ + 1] == '-') ? 1 : 0;
    if (at_ + 1 + sign < source_.size() && is_digit(source_[at_ + 1 + sign])) {
      floating = true;
      at_ += 1 + sign;
      digits();
    }
  }
  if (at_ < source_.size() && is_name_char(source_[at_])) {
    while (at_ < source_.size() && is_name_char(source_[at_])) ++at_;
    return bad(begin, "malformed number " + show(source_.substr(begin, at_ - begin)));
  }
  Token t = make(floating ? Token::Kind::floating : Token::Kind::integer, begin);
  const char *first = t.text.data(), *last = first + t.text.size();
  if (std::from_chars(first, last, t.floating).ec != std::errc{})
    return bad(begin, "number out of range " + show(t.text));
  if (!floating && std::from_chars(first, last, t.integer).ec != std::errc{})
    return bad(begin, "integer beyond 64 bits " + show(t.text));
  return t;
}

Token Lexer::scan_string() {
  size_t begin = at_++;
  std::string out;
  while (at_ < source_.size() && source_[at_] != '"' && source_[at_] != '\n') {
    char c = source_[at_++];
    if (c != '\\') {
      out += c;
      continue;
    }
    if (at_ >= source_.size()) break;
    switch (source_[at_++]) {
      case '"': out += '"'; break;
      case '\\': out += '\\'; break;
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case 'x':
        if (at_ + 2 <= source_.size() && hex_digit(source_[at_]) >= 0 && hex_digit(source_[at_ + 1]) >= 0) {
          out += static_cast<char>(hex_digit(source_[at_]) * 16 + hex_digit(source_[at_ + 1]));
          at_ += 2;
          break;
        }
        [[fallthrough]];
      default: --at_; return bad(begin, "unknown escape in text");
    }
  }
  if (at_ >= source_.size() || source_[at_] != '"') return bad(begin, "text without closing quote");
  ++at_;
  Token t = make(Token::Kind::string, begin);
  t.string = std::move(out);
  return t;
}

std::string print_double(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char buffer[64];
  auto [last, ec] = std::to_chars(buffer, buffer + sizeof(buffer), x);
  std::string out(buffer, last);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::optional<double> read_double(std::string_view text) {
  double x = 0;
  auto [last, ec] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (ec != std::errc{} || last != text.data() + text.size()) return std::nullopt;
  return x;
}

std::optional<int64_t> read_int(std::string_view text) {
  int64_t x = 0;
  auto [last, ec] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (ec != std::errc{} || last != text.data() + text.size()) return std::nullopt;
  return x;
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c >= ' ' && c < 0x7f)
      out += c;
    else
      ((out += "\\x") += "0123456789abcdef"[(c >> 4) & 15]) += "0123456789abcdef"[c & 15];
  return out;
}

std::string json_quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out + "\"";
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      out += "\\x";
      out += "0123456789abcdef"[(c >> 4) & 15];
      out += "0123456789abcdef"[c & 15];
    } else
      out += c;
  }
  return out + '"';
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

std::string to_hex(const void* bytes, size_t size) {
  std::string out = "0x";
  out.reserve(2 + 2 * size);
  for (size_t i = 0; i < size; ++i) {
    unsigned char c = static_cast<const unsigned char*>(bytes)[i];
    out += "0123456789abcdef"[c >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.substr(0, 2) == "0x") text.remove_prefix(2);
  if (text.size() % 2) return std::nullopt;
  std::string out(text.size() / 2, '\0');
  for (size_t i = 0; i < out.size(); ++i) {
    int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<char>(high * 16 + low);
  }
  return out;
}

void Nearest::offer(std::string_view candidate) {
  constexpr size_t kLongest = 64;
  all_.append(" ").append(candidate);
  if (word_.size() > kLongest || candidate.size() > kLongest) return;
  const size_t n = word_.size(), m = candidate.size(), most = std::max(n, m) / 3;
  if (n > m + most || m > n + most) return;
  // Edits are: insert, delete, replace, exchange two neighbours. `rows` holds the distances for this letter
  // of the word and for the two letters before it.
  size_t rows[3][kLongest + 1];
  for (size_t i = 0; i <= n; ++i) {
    size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
    size_t least = SIZE_MAX;
    for (size_t j = 0; j <= m; ++j) {
      if (i == 0 || j == 0) {
        row[j] = i + j;
      } else {
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (word_[i - 1] != candidate[j - 1])});
        if (i > 1 && j > 1 && word_[i - 1] == candidate[j - 2] && word_[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], above2[j - 2] + 1);
      }
      least = std::min(least, row[j]);
    }
    if (least > most + 1) return;  // an exchange may still reduce it
  }
  // Ties go to the first candidate in the alphabet, whatever the order of offers.
  const size_t edits = rows[n % 3][m];
  if (edits > most || edits > distance_) return;
  if (edits == distance_ && best_ <= candidate) return;
  distance_ = edits;
  best_ = candidate;
}

std::string Nearest::hint() const { return best_.empty() ? "" : ", did you mean '" + best_ + "'?"; }

std::string Nearest::message(std::string_view kind) const {
  return "no " + std::string(kind) + " is called " + printable(word_) + hint() + "\nthere are:" + all_;
}

}  // namespace tenon
