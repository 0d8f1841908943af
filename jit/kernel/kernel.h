// Kernel: loops over scalars, between a group and machine code. Its scalar instructions are the map rows of
// the op table. A kernel knows no machine: no pointers, lanes or threads beyond which loop is `par` and which
// is `simd`.
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
// Sizes (N, M) are i64 arguments: one kernel serves all shapes of its family. Addresses count elements from
// the start of a buffer: a sum of terms factor*size*variable. A load from a buffer of narrow floats widens to
// f32, and a store rounds from f32 (to nearest even). Elements of bool buffers are bytes 0 or 1. A statement
// `%q = trunc_div %a, %b fault 2` also checks its operands: if the fault column of the row rejects them, the
// fault word of the kernel becomes 2.
//
// The text prints and parses back exactly (grammar: jit/kernel/parse.cc). The hash of the text without its
// names identifies the kernel. Tested by tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
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
inline constexpr int kMostFaults = 9999;  // the largest number after `fault`
// Nested loops. Deeper text is refused, so recursion stays bounded.
inline constexpr int kMaxLoopDepth = 64;

// factor * sizes[size] * var. Size -1 and var kNoRef stand for 1. var is a loop variable or an i64 value.
struct Term {
  int64_t factor = 1;
  int size = -1;
  Ref var = kNoRef;
  friend auto operator<=>(const Term&, const Term&) = default;
};
using Address = std::vector<Term>;  // a sum; empty: 0

// An extent of a loop or length of a local: factor * sizes[size].
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
  Extent length;  // of a local: elements, private to one iteration of the par nest
};

// %i in N         the elements 0 .. N-1
// %t in N by 64   counts tiles of 64 elements; the last tile may be shorter
// %t in N by P    the same, with P elements in a tile; P >= 1
// %i in %t        the elements of tile %t of an outer loop: 64*%t up to 64*%t+63 or N-1
// %u in %t by 8   the smaller tiles in tile %t: %u counts tiles of 8 from element 0; 8 divides 64
struct Axis {
  Ref var = kNoRef;
  Extent extent = {};   // unused if `of` is set
  Extent by = {0, -1};  // elements per tile; 0: the axis counts elements
  Ref of = kNoRef;      // variable of the tile that this axis runs through
  bool counts_tiles() const { return by.factor > 0; }
  // Whether the axis counts all elements of its extent. Others count tiles, or the elements of a tile.
  bool is_whole() const { return of == kNoRef && !counts_tiles(); }
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Stmt {
  enum class Kind : uint8_t {
    op,        // %r = add %a, %b                  an elementwise row; result type by its type rule
               // %r = index_in %i, %n fault 1     the same with a check of its operands
    cast,      // %r = cast.f32 %a                 conversion as in src/base/convert.h
               // %r = cast.bf16 %a                an f32, rounded to bf16; f16 and 8-bit floats likewise
    bitcast,   // %r = bitcast.i32 %a
    constant,  // %r = const.f32 1.5
    size,      // %r = size N                      a size argument as i64
    index,     // %r = index %j                    a loop variable as i64
    load,      // %r = load %x[...]                type = compute_type(buffer)
    store,     // store %y[...], %a
    par,       // par %i in N, simd %k in K { }    outermost and only there; iterations are independent
    loop,      // for %j in M { }                  sequential
    reduce,    // %r, %q = reduce add, maximum simd %j in M unroll 4 { ... yield %a, %b }
               //                                  folds in the order that interpret() defines
               // %m, %s = reduce maximum, exp add simd %j in M { ... yield %a, %b }
               //                                  one loop instead of two (see online)
    scan,      // %r = scan add %a                 running fold, with this iteration, over the enclosing `for`
  };
  Kind kind = Kind::op;
  OpId op = 0;              // op, scan
  DType type = DType::f32;  // of the result (op, cast, bitcast, constant, size, index, load, scan)
  Ref result = kNoRef;
  int fault = 0;               // op: written to the fault word if the operands are a fault; 0: no check
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
  // reduce: empty, or one entry for each result. kPlain: an ordinary fold. Another row: the result follows
  // the first result, whose yields are a. `exp add` after a maximum m adds up b * exp(a - m), where b is its
  // own yield. `square add` after a sum adds up square(a - mean), and its own yield is a again. Results equal
  // those of two loops, also for -inf, inf, NaN and no elements. GPUs only (join_online_reductions.h).
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
std::string print_line(const Kernel& kernel, const Stmt& stmt);  // a statement, or the first line of a loop
// The text with every name replaced by a number: kernels with equal code have equal texts.
std::string canonical_text(const Kernel& kernel);
Result<Kernel> parse_kernel(std::string_view text);  // errors give line and column
// Checks all invariants, which jit/kernel/verify.cc lists at its top. The message has one line per violation.
Status verify(const Kernel& kernel);
uint64_t identity(const Kernel& kernel);  // hash of canonical_text
bool can_fault(const Kernel& kernel);     // some statement checks its operands
bool has_locals(const Kernel& kernel);
// Adds the values and address variables that the statement and its nested statements read.
void collect_uses(const Stmt& stmt, std::set<Ref>& uses);
// Finds the statement, in the block or nested in it, that computes the value. Null: there is none, or the
// value is a loop variable or the result of a reduce.
const Stmt* definition(const Block& block, Ref value);

// The LLVM template of the row for a last operand of this type. Empty: the row has a math body for this type,
// or no scalar code.
std::string_view spelling(const Op& row, DType last);
// Whether machine code calls the eval column of the row for each element, because the row has neither a
// spelling nor a math body for this type. CPU only, and only where all operands and the result have one type.
bool calls_host(const Op& row, DType last);
// The result type of a map row. invalid: the type rule of the row refuses the operands, or the row has no
// scalar code for them.
Result<DType> scalar_result_type(OpId op, const std::vector<DType>& operands);
// The neutral element of a reduce or scan that folds with this map row. nullopt: the row cannot fold.
std::optional<Scalar> combine_identity(OpId combine, DType type);

// Replaces every instruction whose row has a math column by the body in that column, except where `spelled`
// says that machine code has the row for this type of the last operand. The LLVM emitter and the interpreter
// run this with spelling(), so they agree bit for bit.
void expand_math(Kernel& kernel);
void expand_math(Kernel& kernel, bool (*spelled)(const Op& row, DType last));

// Interprets the whole kernel; defines what a kernel means. Checks every address against the lengths of the
// buffers, which come in the order of Kernel::buffers without locals. The result equals that of machine code
// with `lanes` lanes bit for bit, except for the sign and payload of a NaN.
//
// Order of folds: a simd reduce folds index k of its last axis into lane k % lanes of vector (k / lanes) %
// unroll; the elements behind the last full vector, into vector unroll - 1. All lanes start from the identity.
// Then it combines vectors pairwise (0 with 1, 2 with 3, then the results) and lanes by halves (l with
// l + lanes / 2, ...). Every other reduce and scan folds in order.
//
// fault: receives the number of a statement whose operands were a fault, and the run goes on. Null: the run
// ends there with `invalid`.
struct BufferView {
  void* data;
  int64_t length;  // elements
};
Status interpret(const Kernel& kernel, const std::vector<BufferView>& buffers,
                 const std::vector<int64_t>& sizes, int lanes = 16, int32_t* fault = nullptr);

// ---- at concrete sizes ----

// The extent at these sizes.
int64_t extent_value(const Extent& extent, const int64_t* sizes);
// Iterations of one axis. An axis that runs through a tile counts as a whole tile. tiles: elements per tile,
// by the variable that counts them; may be null for axes without tiles.
int64_t axis_iterations(const Axis& axis, const int64_t* sizes, std::map<Ref, int64_t>* tiles);
// Iterations of the flattened par nest. A simd par counts its last axis in vectors of `lanes`.
int64_t par_iterations(const Kernel& kernel, const int64_t* sizes, int lanes);
// Bytes of all locals in order, each aligned to 64 bytes.
int64_t scratch_bytes(const Kernel& kernel, const int64_t* sizes);

}  // namespace tenon::jit
