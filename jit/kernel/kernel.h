// Kernel: loops over scalars, between a group and machine code. Its scalar instructions are the map rows of
// the op table. Nothing here knows a machine: no pointers, lanes or threads beyond which loop is `par` and
// which is `simd`.
//
//   kernel @softmax(N, M; in %x: f32, out %y: f32; local %row: f32[M]) {
//     par %i in N {
//       %mx = reduce maximum simd %j in M {
//         %v = load %x[M*%i + %j]
//         yield %v
//       }
//       %s = reduce add simd %j2 in M {
//         %v2 = load %x[M*%i + %j2]
//         %d = sub %v2, %mx
//         %e = exp %d
//         store %row[%j2], %e
//         yield %e
//       }
//       for simd %j3 in M {
//         %e3 = load %row[%j3]
//         %q = div %e3, %s
//         store %y[M*%i + %j3], %q
//       }
//     }
//   }
//
// Sizes (N, M) are i64 arguments: one kernel serves every shape of its family. Addresses are in elements from
// the buffer's base: a sum of terms factor*size*variable. Buffers of narrow floats load to f32 and store from
// f32 (round to nearest even); bool buffers are bytes 0/1. A statement `%q = trunc_div %a, %b fault 2` also checks its operands:
// where they are such as the row's fault column names, the kernel's fault word becomes 2. The text prints and parses back exactly (grammar:
// jit/kernel/parse.cc); the hash of the text without its names is the kernel's identity. Tested by
// tests/unit/jit/kernel_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ir/op.h"

namespace tenon::jit {

using Ref = uint32_t;  // a scalar value or loop variable of the kernel
inline constexpr Ref kNoRef = ~Ref{0};
inline constexpr OpId kPlain = 0xffff;
inline constexpr int kMostFaults = 9999;  // the highest number of a statement that can fault
inline constexpr int kMaxLoopDepth =
    64;  // nested statements; deeper text is refused rather than recursed into

// factor * sizes[size] * var; size -1 and var kNoRef stand for 1. var is a loop variable or an i64 value.
struct Term {
  int64_t factor = 1;
  int size = -1;
  Ref var = kNoRef;
  friend bool operator==(const Term&, const Term&) = default;
};
using Address = std::vector<Term>;  // a sum; empty: 0

// A loop extent or local length: factor * sizes[size].
struct Extent {
  int64_t factor = 1;
  int size = -1;
  friend bool operator==(const Extent&, const Extent&) = default;
};

struct Buffer {
  enum class Role : uint8_t { in, out, local };
  Role role = Role::in;
  DType type = DType::f32;
  std::string name;
  Extent length;  // local only: elements, private to one iteration of the par nest
};

// %i in N         the elements 0 .. N-1
// %t in N by 64   tiles of 64 elements, counted; the last one may be shorter
// %t in N by P    likewise, of as many as a size says: one at least
// %i in %t        the elements of tile %t of a loop around: 64*%t up to 64*%t+63 or N-1
// %u in %t by 8   its smaller tiles: %u counts tiles of 8 from element 0 on; 8 divides 64
struct Axis {
  Ref var = kNoRef;
  Extent extent = {};   // unless of a tile
  Extent by = {0, -1};  // elements of a tile; 0: an axis of elements
  Ref of = kNoRef;      // the tile
  bool counts_tiles() const { return by.factor > 0; }
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Stmt {
  enum class Kind : uint8_t {
    op,  // %r = add %a, %b       an elementwise row; result type by its type rule; %r = index_in %i, %n fault 1
    cast,  // %r = cast.f32 %a      conversion as in src/base/convert.h; cast.bf16, cast.f16: an f32, rounded
    bitcast,   // %r = bitcast.i32 %a
    constant,  // %r = const.f32 1.5
    size,      // %r = size N           a size argument as i64
    index,     // %r = index %j         a loop variable as i64
    load,      // %r = load %x[...]     type = compute_type(buffer)
    store,     // store %y[...], %a
    par,       // par %i in N, simd %k in K { }   outermost only, exactly one; iterations are independent
    loop,      // for %j in M { }       sequential
    reduce,  // %r, %q = reduce add, maximum simd %j in M unroll 4 { ... yield %a, %b }   order: see interpret
    // %m, %s = reduce maximum, exp add simd %j in M { ... yield %a, %b }: one loop for two (see online)
    scan,  // %r = scan add %a      running fold over the `for` it stands directly in, this iteration included
  };
  Kind kind = Kind::op;
  OpId op = 0;              // op, scan
  DType type = DType::f32;  // of the result (op, cast, bitcast, constant, size, index, load, scan)
  Ref result = kNoRef;
  int fault = 0;  // op: the number that says this one's operands were a fault; 0: they are not checked
  std::vector<Ref> args = {};  // operands; store: the stored value; index: the variable
  Scalar literal = {};         // constant
  int buffer = -1;             // load, store
  Address address = {};        // load, store
  int size = -1;               // size
  // par, loop, reduce:
  std::vector<Axis> axes = {};     // nested, outermost first
  bool simd = false;               // the last axis runs across vector lanes
  int unroll = 1;                  // simd reduce: independent accumulators
  std::vector<OpId> combine = {};  // reduce: one row per result
  // reduce: empty, or per result kPlain or how it follows the first, whose yields are a: `exp add` behind a maximum m adds up
  // b * exp(a - m), `square add` behind a sum adds up square(a - mean) and yields a once more. Numbers as in two loops,
  // -inf, inf, NaN and no elements too; for GPUs (join_online_reductions.h).
  std::vector<OpId> online = {};
  std::vector<Ref> results = {};  // reduce
  std::vector<Ref> yields = {};   // reduce
  Block body = {};
};

struct Kernel {
  std::string name;
  std::vector<std::string> sizes;
  std::vector<Buffer> buffers;     // ins and outs in argument order, then locals
  std::vector<std::string> names;  // per Ref; may be empty
  std::vector<DType> types;        // per Ref
  Block body;                      // exactly one par statement

  Ref add_ref(DType type, std::string name = {});
};

std::string print(const Kernel& kernel);
std::string print_line(const Kernel& kernel, const Stmt& stmt);  // one statement, of a block its first line
// The text with every name replaced by a number: equal code, equal text.
std::string canonical_text(const Kernel& kernel);
Result<Kernel> parse_kernel(std::string_view text);  // errors give line and column
// All invariants (listed at the top of jit/kernel/verify.cc); every violation, one per line.
Status verify(const Kernel& kernel);
uint64_t identity(const Kernel& kernel);  // hash of canonical_text
bool can_fault(const Kernel& kernel);     // some statement checks its operands
// Adds what the statement and those within read: values, and variables of addresses.
void collect_uses(const Stmt& stmt, std::set<Ref>& uses);
// The statement of the block, or of one within, that computes the value; null: none, or it is a loop's variable or what it folds.
const Stmt* definition(const Block& block, Ref value);

// What the op table says about a row used on scalars. The spelling of the row for a last operand of this
// type; empty: it has a math body there, or none.
std::string_view spelling(const Op& row, DType last);
// Whether machine code computes the row by calling its eval column for each element: it has neither a spelling nor a math
// body for that type. On the CPU only, and only where the operands and the result have one type.
bool calls_host(const Op& row, DType last);
// The result type of a map row; invalid if the row's type rule refuses, or if it has no scalar code for these
// types.
Result<DType> scalar_result_type(OpId op, const std::vector<DType>& operands);
// The value a reduce or scan that folds with this map row starts from, before the first element; nullopt: it
// cannot fold.
std::optional<Scalar> combine_identity(OpId combine, DType type);

// Replaces every instruction whose row has a math column by its body, unless `spelled` says that machine code has the row for
// that type of its last operand. The LLVM emitter and the interpreter run this with spelling(), so they agree bit for bit.
void expand_math(Kernel& kernel);
void expand_math(Kernel& kernel, bool (*spelled)(const Op& row, DType last));

// The slow truth: runs the whole kernel. Checks every address against the buffers' lengths; buffers in the
// order of Kernel::buffers without locals. `lanes` is the vector width whose machine code it equals bit for
// bit (but for the sign and payload of a NaN). A simd reduce over the last axis' index k folds into lane k %
// lanes of vector (k / lanes) % unroll, all starting from the identity; then the vectors are combined
// pairwise (0 with 1, 2 with 3, then those), then the lanes by halves (l with l + lanes / 2, ...). Every
// other reduce and scan folds in order. fault: where a kernel that can fault leaves the number of a statement whose operands
// were one, and goes on; null: the run ends there, as invalid.
struct BufferView {
  void* data;
  int64_t length;  // elements
};
Status interpret(const Kernel& kernel, const std::vector<BufferView>& buffers,
                 const std::vector<int64_t>& sizes, int lanes = 16, int32_t* fault = nullptr);

// ---- at concrete sizes ----

// Iterations of the flattened par nest; a simd par counts its last axis in vectors of `lanes`.
int64_t extent_value(const Extent& extent, const int64_t* sizes);
// Iterations of one axis, that of a tile taken as whole. tiles: elements of each tile by its variable.
int64_t axis_iterations(const Axis& axis, const int64_t* sizes, std::map<Ref, int64_t>* tiles);
int64_t par_iterations(const Kernel& kernel, const int64_t* sizes, int lanes);
// Locals in order, each aligned to 64 bytes.
int64_t scratch_bytes(const Kernel& kernel, const int64_t* sizes);

}  // namespace tenon::jit
