// llvm_function: the text of one LLVM function under construction: nested regions (loops and conditions),
// value numbering, and hoisting.
//
// Every instruction without a side effect is written as far out as its operands allow, so the text is free of
// loop invariants and of repetition. No LLVM pass has to do this, and none could move a load across a store
// that may alias. A position counts outwards to inwards: 2L is the body of the region at depth L; 2L - 1 is
// the code in front of its first iteration, after its condition. Tested by tests/unit/jit/llvm/emit_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::jit {

// An i64 that may be known at emission time. text is an LLVM operand in both cases.
struct Int {
  std::optional<int64_t> known;
  std::string text;
  Int(int64_t value) : known(value), text(std::to_string(value)) {}
  Int(std::string name) : text(std::move(name)) {}
  bool is(int64_t value) const { return known && *known == value; }
};

// A value that a region changes. `value` is the start value on entry, the current value inside the body
// (which stores the next value here), and the last value afterwards.
struct Carried {
  std::string type, hint, value;
};

class Function {
 public:
  Function() : regions_(1) { regions_[0].block = "entry"; }

  void parameter(const std::string& name) { positions_["%" + name] = 0; }
  std::string unique(std::string_view hint);  // an unused name, without '%'

  // An instruction without side effects; `line` has no assignment. Written once and as far out as possible.
  std::string pure(const std::string& line, std::string_view hint = "t") {
    return place(line, hint, floor(), true);
  }
  // The same for a load from memory that nobody writes, as far out as the load is sure to be executed.
  // everywhere: every part of a split loop has this load (see split).
  std::string invariant_load(const std::string& line, std::string_view hint, bool everywhere) {
    return place(line, hint, certain_position(everywhere), true);
  }
  // Written at the current place, for instructions that read memory or may trap. `statement`: for
  // instructions without a value.
  std::string here(const std::string& line, std::string_view hint = "t") {
    return place(line, hint, depth() * 2, false);
  }
  void statement(const std::string& line) { regions_.back().body += "  " + line + "\n"; }
  // Instructions that run, in a block of their own, if the i1 `condition` holds, which is rare. Written once,
  // at the outermost place that follows `condition` and is sure to be reached. everywhere: as for
  // invariant_load.
  void seldom(const std::string& condition, std::string_view hint, bool everywhere,
              const std::vector<std::string>& instructions);
  // Written in the entry block, before all loops.
  std::string entry(const std::string& line, std::string_view hint);

  Int add(const Int& a, const Int& b);
  Int sub(const Int& a, const Int& b);
  Int mul(const Int& a, const Int& b);
  Int divide(const Int& a, const Int& b);  // a >= 0, b > 0
  Int remainder(const Int& a, int64_t b);
  Int min(const Int& a, const Int& b);

  // for (index = begin; index < end; index = result of body). sure: begin < end is known. If the condition is
  // known or sure, there is no test before the loop.
  using LoopBody = std::function<Int(const std::string& index)>;
  void loop(std::string_view hint, const Int& begin, const Int& end, bool sure, std::vector<Carried>& carried,
            const LoopBody& body);
  // if (a < b) body(). keep: code that only the body needs stays in it and is not hoisted.
  void when_less(std::string_view hint, const Int& a, const Int& b, bool keep, std::vector<Carried>& carried,
                 const std::function<void()>& body);
  // The regions that `body` enters are the parts of one loop that runs at least once.
  void split(const std::function<void()>& body);

  int position(std::string_view value) const;
  // Whether the innermost region computes the value, so that nothing that depends on it can be hoisted.
  bool is_local(std::string_view value) const { return position(value) >= 2 * depth(); }
  std::string finish();  // the body's text

 private:
  struct Region {
    std::string pre, body, block;    // block: label of the block where `body` ends
    std::string pre_block;           // label of the block where `pre` ends; empty: the block where it starts
    bool certain = false;            // runs whenever the enclosing region runs
    bool part = false;               // a part of a split loop
    bool keep = false;               // nothing is hoisted out of it
    std::vector<std::string> lines;  // numbered lines that become invalid when the region ends
  };
  int depth() const { return static_cast<int>(regions_.size()) - 1; }
  int certain_position(bool everywhere) const;
  int floor() const;
  std::string place(const std::string& line, std::string_view hint, int lowest, bool number);
  void leave(const std::string& value);
  void enter(Region region, const std::function<void()>& body, Region& out);
  std::string entry_;
  std::vector<Region> regions_;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <class T>
  using Map = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  Map<int> positions_;         // "%name" -> position
  Map<std::string> numbered_;  // line -> "%name"
  Map<int> used_;              // hint -> count
  bool split_ = false;
};

}  // namespace tenon::jit
