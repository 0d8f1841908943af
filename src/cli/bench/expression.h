// Expressions as graphs: `softmax(x*scale + mask)` with the shapes `x:4096x1024,mask:4096x1024`. The grammar, over the tokens of
// src/base/text.h:
//
//   program    = { NAME "=" expression ";" } expression { "," expression }     the last expressions are the outputs
//   expression = comparison of sums: < <= > >= ==
//   sum        = product { ("+" | "-") product }
//   product    = unary { ("*" | "/" | "//" | "%" | "@") unary }                "@" is matmul, "//" is floor_div, "%" is remainder
//   unary      = "-" unary | primary [ "**" unary ]
//   primary    = NUMBER | NAME | OP "(" argument { "," argument } ")" | "(" expression ")"
//   argument   = expression | ATTRIBUTE "=" value                              as in the text of graphs
//
// A name is a value of the program or an input. An input without a shape is a scalar of type f32. A number takes the dtype of the other
// operand. A required attribute axis or axes that is left out is the last axis. Tested by tests/bench_test.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"

namespace tenon::cli {

// shapes: entries NAME:SIZExSIZE, NAME:SIZExSIZE:DTYPE or NAME:SIZExSIZE:DTYPE:STRIDExSTRIDE, where DTYPE may be empty: f32. A size or
// a stride, which counts elements, is a number or a symbol; `NAME:` is a scalar. Messages begin with "line:column: ", or name the entry.
Result<Graph> parse_expression(std::string_view text, const std::vector<std::string>& shapes);

}  // namespace tenon::cli
