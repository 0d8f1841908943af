// Text: the lexer, the literal printer and the literal reader of all text forms (graphs, kernels, sizes). The
// input is any bytes; the output is tokens with line and column. Nothing depends on the locale, and
// print_double(x) reads back as the same double (every NaN as `nan`).
//
//   name      [A-Za-z_][A-Za-z0-9_.]*          at most kMaxName bytes
//   integer   [0-9]+                           at most 2^64-1; a sign is a token of its own
//   floating  digits with . or an exponent     inf and nan are names
//   hex       0x[0-9a-fA-F]*                   bytes of data, not a number
//   string    "..." with \" \\ \n \t \r \xHH
//   punct     one character, // or ==         (the % of %x is punct too: see Lexer::value_name)
//   comments run from ; to the end of the line
// Tested by tests/unit/base/base_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tenon {

inline constexpr size_t kMaxName = size_t{1} << 20;

struct Token {
  enum class Kind : uint8_t { end, name, integer, floating, hex, string, punct, bad };
  Kind kind = Kind::end;
  std::string_view text;  // the bytes in the source
  int line = 1;           // from 1
  int column = 1;         // from 1, in bytes
  uint64_t integer = 0;
  double floating = 0;  // also set for an integer
  std::string string;   // decoded contents; of a bad token, the error
  size_t begin() const { return reinterpret_cast<size_t>(text.data()); }
  size_t end() const { return begin() + text.size(); }
  bool is(std::string_view word) const { return (kind == Kind::name || kind == Kind::punct) && text == word; }
};

class Lexer {
 public:
  // A position to return to with reset().
  struct Mark {
    size_t at;
    int line;
    size_t line_start;
    int last_line;
    Token token;
  };

  explicit Lexer(std::string_view source);  // the source must outlive the lexer and its tokens
  // If off, ';' is punctuation from the token after the current one on. ';' separates the header of a kernel.
  void comments(bool on) { comments_ = on; }

  const Token& peek() const { return token_; }
  Token next();  // returns the current token and advances
  bool at_end() const { return token_.kind == Token::Kind::end; }
  bool at(std::string_view word) const { return token_.is(word); }
  bool accept(std::string_view word);                    // a name or punctuation
  Status expect(std::string_view word);                  // "3:14: expected ')', found '}'"
  Result<std::string_view> name(std::string_view what);  // what: "an op name"
  // Reads %x or %12 and returns the part after the percent sign, which must follow directly.
  Result<std::string_view> value_name();
  Result<int64_t> integer();  // with an optional sign
  Result<double> number();    // integer, floating, inf, nan with an optional sign
  Result<std::string> string();

  // "line:column: message" at the current token, or at the given one.
  Status error(std::string message) const { return error(token_, std::move(message)); }
  static Status error(const Token& token, std::string message);
  Status expected(std::string_view what) const;  // "expected WHAT, found 'x'"
  // For texts in which a statement is one line: from here on, an expected token that is missing on this line
  // is reported after the last token read, as "found the end of the line".
  void begin_statement();
  int last_line() const { return last_line_; }  // of the token that was read last
  // Advances to the first token on a line after `line`.
  void skip_line(int line);

  Mark mark() const { return {at_, line_, line_start_, last_line_, token_}; }
  void reset(const Mark& mark);

 private:
  Token scan();
  Token scan_number();
  Token scan_string();
  Token make(Token::Kind kind, size_t begin) const;
  Token bad(size_t begin, std::string why) const;

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  bool comments_ = true;
  int last_line_ = 0;
  int last_column_ = 0;  // the column after that token
  bool by_lines_ = false;
  Token token_;
};

// The shortest decimal that reads back as x, with a point or an exponent so that it is no integer; or inf,
// -inf, nan.
std::string print_double(double x);
// Reads the whole text as a double or a signed integer; nullopt if it is anything else or out of range.
std::optional<double> read_double(std::string_view text);
std::optional<int64_t> read_int(std::string_view text);

// "a\"b" with the quotes, as the lexer reads it.
std::string quote(std::string_view text);
// As a string of JSON; control characters other than newlines become spaces.
std::string json_quoted(std::string_view text);
// For terminals: bytes that are not printable ASCII become \xHH.
std::string printable(std::string_view text);
// Characters of names in any locale: letters, digits, underscore, dot.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_name(std::string_view text);                         // whether the text is a name token
std::string to_hex(const void* bytes, size_t size);          // "0x00ff"
std::optional<std::string> from_hex(std::string_view text);  // with or without 0x; an even number of digits

// The candidate nearest to `word` by edit distance, or nothing if no candidate is near enough to be a typo.
class Nearest {
 public:
  explicit Nearest(std::string_view word) : word_(word) {}
  void offer(std::string_view candidate);
  const std::string& best() const { return best_; }
  // ", did you mean 'x'?" or "".
  std::string hint() const;
  // "no verb is called rum, did you mean 'run'?", then the candidates: "\nthere are: opt run".
  std::string message(std::string_view kind) const;

 private:
  std::string word_, best_, all_;
  size_t distance_ = SIZE_MAX;
};

}  // namespace tenon
