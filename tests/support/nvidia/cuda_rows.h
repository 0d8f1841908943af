// One kernel with all map rows that take operands of a type, and with casts from it; each has its own output. Used by
// emit_cuda_rows_test.cc and nvrtc_test.cc.
#pragma once

#include <optional>

#include "jit/kernel/kernel.h"
#include "src/ir/op.h"

namespace tenon::jit {

struct RowsKernel {
  struct Output {
    OpId row = 0;  // unused for a cast
    bool cast = false;
    std::vector<DType> operands;
  };
  Kernel kernel;
  std::vector<Output> outputs;  // one per buffer behind the inputs
};

// The inputs are %a, %b, %c of the type and %p of bool. narrow: numbers are stored as bf16, so that functions may be approximated.
inline RowsKernel rows_kernel(DType type, bool narrow = false) {
  RowsKernel rows;
  const std::string t(name(type));
  std::string buffers, body = "  %x = load %a[%i]\n %y = load %b[%i]\n %z = load %c[%i]\n %q = load %p[%i]\n";
  const auto add = [&](const std::string& value, DType result, RowsKernel::Output output) {
    const std::string n = std::to_string(rows.outputs.size());
    const bool halved = narrow && result == DType::f32;
    buffers += ", out %o" + n + ": " + std::string(name(halved ? DType::bf16 : result));
    body += "  %r" + n + " = " + value + "\n  store %o" + n + "[%i], %r" + n + "\n";
    rows.outputs.push_back(std::move(output));
  };
  for (OpId id = 0; id < op_count(); ++id) {
    const Op& row = op(id);
    if (row.kind != Kind::map || row.arity < 1 || row.arity > 3 || (!row.eval && !row.eval_int)) continue;
    std::vector<DType> operands(static_cast<size_t>(row.arity), type);
    auto result = scalar_result_type(id, operands);
    const bool asks = !result.ok() && row.arity == 3;
    if (asks) {
      operands[0] = DType::b8;
      result = scalar_result_type(id, operands);
    }
    if (!result.ok() || calls_host(row, type)) continue;  // calls of the host run only on the CPU
    std::string value(row.name);
    const char* names[] = {"%x", "%y", "%z"};
    for (int i = 0; i < row.arity; ++i)
      value += std::string(i ? ", " : " ") + (asks && i == 0 ? "%q" : names[i]);
    add(value, *result, {id, false, operands});
  }
  for (DType to :
       {DType::f32, DType::f64, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::b8})
    if (to != type) add("cast." + std::string(name(to)) + " %x", to, {0, true, {type}});
  const std::string text = "kernel @rows_" + t + (narrow ? "_narrow" : "") + "(N; in %a: " + t +
                           ", in %b: " + t + ", in %c: " + t + ", in %p: bool" + buffers +
                           ") {\n par simd %i in N {\n" + body + " }\n}";
  auto kernel = parse_kernel(text);
  TENON_CHECK(kernel.ok(), kernel.status().message() + "\n" + text);
  rows.kernel = std::move(*kernel);
  return rows;
}

}  // namespace tenon::jit
