// llvm_text: types, constants and scalar instructions at a given number of lanes. Template language of the op
// table's `llvm` column (src/ir/op.h) and of the conversions below, expanded at `lanes` lanes (1: plain scalars):
//
//   $0 $1 $2      operands
//   $T            type of the last operand          <8 x float>      float
//   $R            type of the result
//   $C            i1, as many lanes                 <8 x i1>         i1
//   $N            $T as intrinsics spell it         v8f32            f32
//   $B            bits of one element of $T         32
//   $[x]          the constant x of type $T         splat (float x)  x
//   $i32 $half    this LLVM type                    <8 x i32>        i32
//   $i32[x]       the constant x of this type       splat (i32 x)    x
//   $name = ...   on every line but the last: a temporary; $name afterwards is its value
//
// Tested by tests/unit/jit/llvm/emit_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "src/ir/op.h"

namespace tenon::jit {

// The LLVM type of a value in registers (bool is i1) and in memory (bool is i8, narrow floats are i16 and i8).
std::string_view register_type(DType type);
std::string_view memory_type(DType type);
std::string at_lanes(std::string_view type, int lanes);  // "float", 8 -> "<8 x float>"
std::string constant_at_lanes(std::string_view type, std::string_view literal, int lanes);
std::string mangled(DType type, int lanes);            // "v8f32"
std::string literal(DType type, const Scalar& value);  // exact; infinities and NaN in hex

struct Spelling {
  std::string_view text;
  DType operand = DType::f32;  // of the last operand
  DType result = DType::f32;
  int lanes = 1;
};
// Expands a template. `emit` receives each line without its assignment and returns the name of its value.
// expand returns the name of the last line's value. A text without an instruction ("$0") is itself the value.
std::string expand(const Spelling& spelling, std::span<const std::string> operands,
                   const std::function<std::string(const std::string& line)>& emit);

// A value conversion as the interpreter does it (src/base/convert.h). A cast to a narrow float rounds to that
// type; its result is an f32.
std::string cast_template(DType from, DType to);
// Conversions from bits in memory to the value in registers, and back: narrow floats to and from f32, bytes
// to and from i1.
std::string load_template(DType memory);
// is_bf16: bf16 can represent the value exactly.
std::string store_template(DType memory, bool is_bf16 = false);

}  // namespace tenon::jit
