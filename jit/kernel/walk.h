// walk: the one way over the statements of a kernel: visits and searches, what a statement reads, and rewrites.
// Tested by tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <type_traits>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

inline bool is_access(const Stmt& s) { return s.kind == Stmt::Kind::load || s.kind == Stmt::Kind::store; }
inline bool is_loop(const Stmt& s) {
  return s.kind == Stmt::Kind::par || s.kind == Stmt::Kind::loop || s.kind == Stmt::Kind::reduce;
}
// Whether a term of the address has this variable.
inline bool steps_along(const Stmt& s, Ref var) {
  return std::ranges::any_of(s.address, [&](const Term& t) { return t.var == var; });
}

// Whether the address moves by `step` elements from one value of the variable to the next, and `step` is in the text.
inline bool steps_by(const Stmt& s, Ref var, int64_t step) {
  return std::ranges::any_of(s.address, [&](const Term& t) { return t == Term{step, -1, var}; });
}

// Whether two statements without bodies compute the same value or make the same check.
inline bool computes_same(const Stmt& a, const Stmt& b) {
  return a.kind == b.kind && a.op == b.op && a.type == b.type && a.fault == b.fault && a.args == b.args &&
         a.literal == b.literal && a.buffer == b.buffer && a.address == b.address && a.size == b.size;
}

// The terms of an address without its constants, and the sum of these.
struct SplitAddress {
  Address terms;
  int64_t constant = 0;
};
inline SplitAddress split_constants(const Address& address) {
  SplitAddress split;
  for (const Term& t : address)
    if (t.var == kNoRef && t.size < 0)
      split.constant += t.factor;
    else
      split.terms.push_back(t);
  return split;
}

// The loops around a statement. Null: there is none.
struct Around {
  const Stmt* loop = nullptr;  // the innermost loop
  const Stmt* simd = nullptr;  // the loop that runs across lanes
  int depth = 0;               // number of loops
};

// Calls visit(statement) or visit(statement, Around) for all statements in the order of the text, a loop before
// its body. The visitor may change a statement, but not the list around it.
template <class B, class Visit>  // B: Block or const Block
void each_stmt(B& block, const Visit& visit, const Around& around = {}) {
  for (auto& s : block) {
    if constexpr (std::is_invocable_v<const Visit&, decltype(s), const Around&>)
      visit(s, around);
    else
      visit(s);
    each_stmt(s.body, visit, {&s, s.simd ? &s : around.simd, around.depth + 1});
  }
}

// The first statement that passes the test, in the order of each_stmt. Null: there is none.
template <class Test>
const Stmt* find_stmt(const Block& block, const Test& test) {
  for (const Stmt& s : block) {
    if (test(s)) return &s;
    if (const Stmt* inner = find_stmt(s.body, test)) return inner;
  }
  return nullptr;
}

// Calls visit(ref) for each value and address variable that the statement itself reads.
template <class S, class Visit>  // S: Stmt or const Stmt
void each_read(S& s, const Visit& visit) {
  for (auto& r : s.args) visit(r);
  for (auto& r : s.yields) visit(r);
  for (auto& t : s.address)
    if (t.var != kNoRef) visit(t.var);
}

// Whether the statement or a statement of its body reads one of the values.
inline bool reads_any(const Stmt& s, const std::set<Ref>& refs) {
  std::set<Ref> uses;
  collect_uses(s, uses);
  return std::ranges::any_of(uses, [&](Ref r) { return refs.count(r) > 0; });
}

// Calls visit(ref) for each value that the statement itself defines, without loop variables.
template <class Visit>
void each_result(const Stmt& s, const Visit& visit) {
  if (s.result != kNoRef) visit(s.result);
  for (Ref r : s.results) visit(r);
}

// Replaces what the statement and the statements of its body read.
inline void replace_reads(Stmt& s, const std::map<Ref, Ref>& by) {
  auto replace = [&](Stmt& reader) {
    each_read(reader, [&](Ref& r) {
      if (const auto it = by.find(r); it != by.end()) r = it->second;
    });
  };
  replace(s);
  each_stmt(s.body, replace);
}

// Moves the statements of `from` to the end of `to`.
inline void append(Block& to, Block from) { std::ranges::move(from, std::back_inserter(to)); }

// Calls visit(statement, out) for all statements, the body of a loop before the loop. The visitor moves the
// statement, or what replaces it, to the end of the new list `out`.
template <class Visit>
void rewrite(Block& block, const Visit& visit) {
  Block out;
  for (Stmt& s : block) {
    rewrite(s.body, visit);
    visit(s, out);
  }
  block = std::move(out);
}

}  // namespace tenon::jit
