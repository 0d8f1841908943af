// tenon ops: prints the rows of the op table, one per line, or everything about one row. Tested by
// tests/cli_test.py.
#include <fmt/format.h>

#include "src/base/text.h"
#include "src/cli/verbs.h"
#include "src/ir/op.h"

namespace tenon::cli {
namespace {

std::string operands(const Op& row) {
  if (row.arity < 0) return "1 or more";
  if (row.optional > 0) return fmt::format("{} to {}", row.arity - row.optional, row.arity);
  return std::to_string(row.arity);
}

}  // namespace

int ops(const std::string& name) {
  if (name.empty()) {
    for (int i = 0; i < op_count(); ++i) {
      const Op& row = op(static_cast<OpId>(i));
      print_line(fmt::format("{:<20} {:<10} {}", row.name, kind_name(row.kind), row.doc));
    }
    return kDone;
  }
  auto id = find_op(name);
  if (!id) {
    Nearest nearest(name);
    for (int i = 0; i < op_count(); ++i) nearest.offer(op(static_cast<OpId>(i)).name);
    const std::string hint = nearest.hint();
    return fail(invalid("no op is called " + name + (hint.empty() ? ": tenon ops lists all ops" : hint)));
  }
  const Op& row = op(*id);
  print_line(fmt::format("{}\n  kind: {}\n  operands: {}\n  attributes: {}", row.name, kind_name(row.kind),
                         operands(row), row.attrs.empty() ? "none" : row.attrs));
  std::string facts;
  if (row.commutative) facts += " commutative";
  if (row.expensive) facts += " expensive";
  if (row.view) facts += " view";
  if (row.effect) facts += " effect";
  if (!facts.empty()) print_line("  facts:" + facts);
  if (row.ulp > 0) print_line(fmt::format("  f32 results are within {} ulp", row.ulp));
  print_line(fmt::format("  {}", row.doc));
  return kDone;
}

}  // namespace tenon::cli
