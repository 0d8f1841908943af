// LaneEmitter: the part of emit_llvm.cc below instructions: values, addresses, loads and stores of one kernel, as
// scalars or as vectors of W lanes. An address is, along the variable of the simd axis that is being emitted,
//   uniform   the variable is absent               a scalar load
//   unit      1 * variable                         a vector load; the tail is masked or goes through %stage
//   strided   anything else                        one scalar load for each lane, or interleave.cc
//   gather    a term's variable is itself a vector llvm.masked.gather, or near_gather.cc
// Lanes beyond the end never access memory: they are masked, or repeat the last lane that exists. Loads of `in`
// buffers are hoisted, because no store of the kernel can change them. No other load moves.
// Tested by tests/unit/jit/llvm/emit_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/llvm/llvm_function.h"
#include "jit/llvm/llvm_text.h"

namespace tenon::jit {

struct Value {
  std::string text;
  DType type = DType::f32;
  int lanes = 1;
  bool is_bf16 = false;  // an f32 whose low 16 bits are zeros: a store to bf16 rounds nothing
};

// The simd axis that is being emitted. Lane l of a vector is element base + l. If masked, only `count` lanes
// exist.
struct Simd {
  Ref var = kNoRef;
  Int base = 0;
  bool masked = false;
  Int count = 0;
};

// The address of a load or store; the legend at the top lists the kinds.
struct Place {
  enum class Kind { uniform, unit, strided, gather };
  Kind kind = Kind::uniform;
  std::string pointer;  // of the element, or of lane 0
  Int stride = 0;       // strided: elements between lanes
  std::string offsets;  // gather: <W x i64>, elements from pointer
  bool table = true;    // gather: other loops do not change the offsets, and lanes may lie next to each other
};

class LaneEmitter {
 protected:
  LaneEmitter(const Kernel& kernel, Isa isa)
      : k_(kernel), isa_(isa), w_(jit::lanes(isa)), refs_(kernel.types.size()) {
    find_neighbours();
  }

  Int extent(const Extent& e);
  std::string hint(Ref ref) const;

  // ---- values ----
  std::string expand_at(std::string_view text, const std::vector<std::string>& operands, DType operand,
                        DType result, int lanes, const std::string& name);
  std::string vector(const Value& v);
  // A vector whose lanes all hold the scalar.
  std::string spread(std::string_view type, const std::string& scalar, int lanes,
                     std::string_view name = "t");
  // Lane l of the result is number from(l) of the lanes of x, then of y.
  template <class From>
  std::string shuffle(const std::string& wide, const std::string& x, const std::string& y, int lanes,
                      const From& from, std::string_view name = "t") {
    std::string numbers = "<";
    for (int l = 0; l < lanes; ++l) numbers += (l ? ", i32 " : "i32 ") + std::to_string(from(l));
    return f_.pure("shufflevector " + wide + " " + x + ", " + wide + " " + y + ", " + at_lanes("i32", lanes) +
                       " " + numbers + ">",
                   name);
  }
  // Whether a bool of some lane that exists is true.
  std::string any_lane(std::string flags, int lanes, std::string_view name = "t", std::string_view any = "t");
  // Operands as texts with the same number of lanes, and that number.
  std::pair<std::vector<std::string>, int> level(const std::vector<Ref>& args);
  void define(Ref ref, std::string text, int lanes);
  std::string combine(OpId id, DType type, int lanes, const std::string& a, const std::string& b,
                      const std::string& name);
  std::string select(const std::string& mask, const std::string& type, const std::string& yes,
                     const std::string& no, std::string_view name);
  // Folds vectors pairwise, and the lanes of a vector by halves.
  std::string fold_pairs(OpId fold, DType type, int lanes, std::vector<std::string> values,
                         const std::string& name);
  std::string fold_halves(OpId fold, DType type, std::string value, const std::string& name);
  std::string lane_numbers(std::string_view type) const;
  std::string mask();

  // ---- addresses ----
  std::string offset_pointer(std::string_view type, const std::string& base, const Int& elements);
  Place place(int buffer, const Address& address);
  // l, or the last lane that exists if that is smaller.
  Int lane(int l);
  // The vector with its last existing lane repeated in the lanes beyond the end.
  std::string clamp_lanes(const std::string& value, std::string_view type);
  bool has_masked_memory(DType type) const;
  // A vector on the stack. A tail is copied through it where the machine has no masked instruction for the
  // type.
  const std::string& stage();
  void copy(const std::string& to, const std::string& from, int element);

  // One load instruction. Moved out of loops if the kernel cannot write what it reads.
  std::string read(const Buffer& b, const std::string& line, const std::string& name, bool uniform = false);
  std::string read_lanes(const Buffer& b, const Place& p, const std::string& name);
  std::string read_apart(const Buffer& b, const Place& p, int64_t stride, const std::string& name);
  std::string gather(const Buffer& b, const Place& p, const std::string& name);
  // Whether the value depends on the variable of the simd axis alone, not on other loops.
  bool follows_axis(Ref value);
  // How many elements of this size one permutation of registers reads; 0: the ISA has none.
  int reach(DType type) const;
  // A gather whose lanes may lie within reach() elements of memory, from lane 0 to the last lane.
  std::string read_near(const Buffer& b, const Place& p, const std::string& name);
  // Lane l is element numbers[l] of the elements in `parts`, which are whole registers.
  std::string permuted(const std::vector<std::string>& parts, const std::string& numbers, int bytes);
  std::string pointers(const std::string& type, const Place& p);
  std::string memory_mangled(DType type) const;
  void emit_load(const Stmt& s);
  // Whether the load or store jumps from lane to lane but steps by one along `var`, in memory that the kernel
  // only reads or only writes. computed: values that the loop over `var` computes; the address must not
  // depend on them.
  bool crosses(const Stmt& s, Ref var, const std::set<Ref>& computed) const;
  // The bits of such a load for W steps of `var` from its current value on: W loads of whole vectors,
  // transposed in registers.
  std::vector<std::string> read_crossing(const Stmt& load);
  // The counterpart for stores: stores what W steps of `var` have left in columns_.
  void write_crossing(const Stmt& store, std::vector<std::string> columns);
  // Transposes W vectors of W elements: returns the vector of the first elements, of the second elements, ...
  std::vector<std::string> turned(std::vector<std::string> rows, const std::string& wide,
                                  const std::string& name);
  void emit_store(const Stmt& s);
  // Fills neighbours_.
  void find_neighbours();
  // Whether the store is one of neighbours_, whose vectors the last one of them stores.
  bool store_with_neighbours(const Stmt& s, const Place& p, const std::string& bits);

  const Kernel& k_;
  const Isa isa_;
  const int w_;
  Function f_;
  std::vector<Value> refs_;  // per Ref, once emitted
  std::vector<Int> sizes_;
  std::vector<std::string> bases_;  // per buffer
  std::string stage_;
  std::map<const Stmt*, std::string> turned_;                // loads whose bits are computed already
  std::map<const Stmt*, std::vector<std::string>> columns_;  // stores whose bits are written together, later
  struct Neighbour {  // one of the stores that fill a stretch of memory together
    const Stmt* first;
    size_t position, count;
  };
  struct Together {
    std::string pointer;               // of the first element
    std::vector<std::string> vectors;  // empty: not computed yet
  };
  std::map<const Stmt*, Neighbour> neighbours_;
  std::map<std::pair<const Stmt*, std::string>, Together>
      together_;                                 // by the first store and the base of the vector
  std::map<Ref, const Stmt*> definitions_;       // of follows_axis
  std::map<std::pair<Ref, Ref>, bool> follows_;  // by the variable and the value
  Simd simd_;                                    // var kNoRef outside simd axes
};

}  // namespace tenon::jit
