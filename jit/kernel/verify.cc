// verify: checks the invariants of a kernel. Accepts any kernel, also a malformed one. If the result is ok,
// emitters and the interpreter need no further checks except of addresses. Reports every violation, one per
// line, with its statement.
//
//  names     the kernel, its sizes and its buffers have names that the parser reads; no name occurs twice
//  buffers   in and out first, then locals; only locals have a length; a simd par has no locals
//  par       the body is one par statement, and there is no other
//  values    every value and loop variable is defined once, before its uses, in their block or an enclosing one
//  types     no value is a narrow float; a loop variable is i64, read only by index and in addresses
//  op        a map row without attributes, with scalar code for its operands; types by its rule
//  fault     in an op whose row has a fault column, on integers for which the row has a spelling; numbers from 1
//  cast      from and to any dtype; to a narrow float gives an f32; bitcast keeps the width and excludes bool
//  constant  a bool is 0 or 1; an integer is in range and written as an integer
//  load      has the compute type of the buffer; store: a value of this type, and never into an `in` buffer
//  address   sizes in range; variables are loop variables or i64 values
//  tiles     a simd axis counts no tiles; an axis that runs through a tile is within the loop that counts them and
//            is no par axis; smaller tiles divide it; tiles whose length is a size have no smaller tiles
//  loops     at least one axis (par: any number), extents not negative, nested no deeper than 64
//  simd      no simd loop within another; a store within one has an address that changes with the lane
//  reduce    as many rows and yields as results, of equal types; rows fold (combine_identity) and have a spelling
//  online    `exp add` after a first `maximum`, or `square add` after a first `add` with the same yield; all floats
//            of one type; in a simd reduce without unroll whose body is scalars only; `square add` over whole axes
//  unroll    1, or 2, 4, 8 of a simd reduce
//  scan      directly in the body of a sequential `for` with one axis; its row folds
// Tested by tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
#include <algorithm>
#include <unordered_set>

#include "jit/kernel/walk.h"
#include "src/base/text.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : k_(kernel), state_(kernel.types.size(), State::undefined) {
    loop_variable_.resize(kernel.types.size());
    varies_.resize(kernel.types.size());
    tile_.resize(kernel.types.size());
  }

  Status run() {
    names();
    buffers();
    if (k_.names.size() != k_.types.size())
      error("as many names as types of values, got " + std::to_string(k_.names.size()));
    for (size_t i = 0; i < k_.types.size(); ++i)
      if (k_.types[i] != compute_type(k_.types[i]))
        error("a value of type " + std::string(name(k_.types[i])));
    if (k_.body.size() != 1 || k_.body[0].kind != Stmt::Kind::par) error("the body is one par statement");
    block(k_.body, nullptr, 0);
    return errors_.empty() ? Status() : invalid("kernel @" + k_.name + ": " + errors_);
  }

 private:
  using K = Stmt::Kind;
  enum class State : uint8_t { undefined, visible, gone };

  void error(const std::string& message) {
    errors_ += errors_.empty() ? "" : "\n";
    if (at_) errors_ += "`" + print_line(k_, *at_) + "`: ";
    errors_ += message;
  }

  void names() {
    if (!is_name(k_.name)) error("the kernel's name is not valid");
    std::unordered_set<std::string> sizes, buffers;
    for (const std::string& size : k_.sizes)
      if (!is_name(size) || !sizes.insert(size).second)
        error("the name of size '" + size + "' is not valid or occurs twice");
    for (const Buffer& b : k_.buffers) {
      bool digits = !b.name.empty() && b.name.find_first_not_of("0123456789") == std::string::npos;
      if (!(is_name(b.name) || digits) || !buffers.insert(b.name).second)
        error("the name of buffer '" + b.name + "' is not valid or occurs twice");
    }
  }

  void buffers() {
    bool locals = false;
    bool simd_par = !k_.body.empty() && k_.body[0].kind == K::par && k_.body[0].simd;
    for (const Buffer& b : k_.buffers) {
      bool local = b.role == Buffer::Role::local;
      if (locals && !local) error("buffer %" + b.name + " after a local");
      locals = local;
      if (local && simd_par) error("local %" + b.name + " in a kernel whose par is simd");
      if (!local && !(b.length == Extent{})) error("buffer %" + b.name + " has a length but is no local");
      if (local) extent(b.length, "the length of %" + b.name);
    }
  }

  bool size_ok(int size) const { return size >= 0 && size < static_cast<int>(k_.sizes.size()); }
  void extent(const Extent& e, const std::string& what) {
    if (e.factor < 0) error(what + " is negative");
    if (e.size != -1 && !size_ok(e.size)) error(what + " names no size");
  }

  void define(Ref ref) {
    if (ref >= state_.size()) return error("defines no value");
    if (state_[ref] != State::undefined) return error("defines a value twice");
    state_[ref] = State::visible;
    scope_.push_back(ref);
  }

  // Whether ref may be read here as a scalar or, with `loop_variable`, as a loop variable (in an index or
  // address).
  bool readable(Ref ref, bool loop_variable) {
    if (ref >= state_.size() || state_[ref] == State::undefined) {
      error("uses a value that is not defined yet");
      return false;
    }
    if (state_[ref] == State::gone)
      error("uses a value out of its scope");
    else if (loop_variable_[ref] && !loop_variable)
      error("a loop variable is read through index");
    else
      return true;
    return false;
  }

  bool args_ok(const Stmt& s, size_t count) {
    if (s.args.size() != count) {
      error("takes " + std::to_string(count) + " operands, got " + std::to_string(s.args.size()));
      return false;
    }
    return operands_ok(s);
  }
  bool operands_ok(const Stmt& s) {
    bool ok = true;
    for (Ref arg : s.args) ok &= readable(arg, s.kind == K::index);
    return ok;
  }
  DType arg_type(const Stmt& s, int i) const { return k_.types[s.args[i]]; }

  void address(const Stmt& s) {
    bool varies = false;
    for (const Term& t : s.address) {
      if (t.size != -1 && !size_ok(t.size)) error("the address names no size");
      if (t.var == kNoRef || !readable(t.var, true)) continue;
      if (k_.types[t.var] != DType::i64)
        error("an address variable of type " + std::string(name(k_.types[t.var])));
      varies |= t.factor != 0 && varies_[t.var];
    }
    if (s.kind == K::store && simd_ && !varies) error("every lane stores to one place");
    address_varies_ = varies;
  }

  bool foldable(OpId id, DType type) {
    if (id >= op_count()) {
      error("unknown row");
      return false;
    }
    Result<DType> result = scalar_result_type(id, {type, type});
    bool ok = result.ok() && *result == type && !spelling(op(id), type).empty() &&
              combine_identity(id, type).has_value();
    if (!ok) error(std::string(op(id).name) + " does not fold " + std::string(name(type)));
    return ok;
  }

  static bool fits(const Scalar& s, DType type) {
    if (is_float(type)) return true;
    if (!s.is_int) return false;
    if (is_bool(type)) return s.i == 0 || s.i == 1;
    int bits = 8 * size_of(type);
    if (!info(type).is_signed) return s.i >= 0 && s.i >> bits == 0;
    return s.i >> (bits - 1) == 0 || s.i >> (bits - 1) == -1;
  }

  void instruction(const Stmt& s) {
    size_t args = s.kind == K::constant || s.kind == K::size || s.kind == K::load ? 0 : 1;
    if (s.kind == K::op ? !operands_ok(s) : !args_ok(s, args)) return;
    DType want = s.type;
    switch (s.kind) {
      case K::op: {
        if (s.op >= op_count()) return error("unknown row");
        std::vector<DType> types;
        for (Ref arg : s.args) types.push_back(k_.types[arg]);
        Result<DType> type = scalar_result_type(s.op, types);
        if (!type.ok()) return error(type.status().message());
        want = *type;
        const DType last = types.back();
        if (s.fault != 0 && (op(s.op).fault.what.empty() || is_float(last) || is_bool(last) ||
                             spelling(op(s.op), last).empty() || s.fault < 1 || s.fault > kMostFaults))
          error("has nothing that could be a fault, or no number for it");
        break;
      }
      case K::cast: want = compute_type(s.type); break;
      case K::bitcast:
        if (size_of(arg_type(s, 0)) != size_of(s.type) || is_bool(s.type) || is_bool(arg_type(s, 0)) ||
            s.type != compute_type(s.type))
          error("a bitcast keeps the width");
        break;
      case K::constant:
        if (s.type != compute_type(s.type)) error("a constant of type " + std::string(name(s.type)));
        if (!fits(s.literal, s.type)) error("the literal does not fit " + std::string(name(s.type)));
        break;
      case K::size:
        if (!size_ok(s.size)) error("names no size");
        want = DType::i64;
        break;
      case K::index:
        if (!loop_variable_[s.args[0]]) error("index reads a loop variable");
        want = DType::i64;
        break;
      case K::load:
        if (!buffer_ok(s)) return;
        address(s);
        want = compute_type(k_.buffers[s.buffer].type);
        break;
      case K::scan:
        if (!scan_allowed_) error("a scan stands directly in a sequential for of one axis");
        want = arg_type(s, 0);
        foldable(s.op, want);
        break;
      default: break;
    }
    bool own = s.kind == K::cast ? k_.types.size() > s.result && k_.types[s.result] == want
                                 : s.type == want && k_.types.size() > s.result && k_.types[s.result] == want;
    if (!own) error("the result is of type " + std::string(name(want)));
    define(s.result);
    if (s.result >= varies_.size()) return;
    varies_[s.result] = s.kind == K::load && address_varies_;
    for (Ref arg : s.args) varies_[s.result] = varies_[s.result] || varies_[arg];
  }

  bool buffer_ok(const Stmt& s) {
    if (s.buffer >= 0 && s.buffer < static_cast<int>(k_.buffers.size())) return true;
    error("names no buffer");
    return false;
  }

  void store(const Stmt& s) {
    if (!args_ok(s, 1) || !buffer_ok(s)) return;
    const Buffer& b = k_.buffers[s.buffer];
    if (b.role == Buffer::Role::in) error("stores into an input");
    if (arg_type(s, 0) != compute_type(b.type))
      error("stores " + std::string(name(arg_type(s, 0))) + " into a buffer of " + std::string(name(b.type)));
    address(s);
  }

  void tile(const Stmt& s, const Axis& axis, bool simd) {
    extent(axis.by, "a tile");
    if (simd && axis.counts_tiles()) error("tiles across lanes");
    if (axis.of == kNoRef) return extent(axis.extent, "an extent");
    if (!(axis.extent == Extent{})) error("an axis of a tile has the tile's extent");
    if (s.kind == K::par) error("par runs over whole axes");
    if (!readable(axis.of, true)) return;
    if (tile_[axis.of] == 0) return error("the axis is of no tile");
    if (!axis.counts_tiles()) return;
    if (axis.by.size >= 0 || tile_[axis.of] < 0) return error("tiles within tiles of a size");
    if (tile_[axis.of] % axis.by.factor != 0)
      error("tiles of " + std::to_string(axis.by.factor) + " in tiles of " + std::to_string(tile_[axis.of]));
  }

  void loop(const Stmt& s, int depth) {
    bool reduce = s.kind == K::reduce;
    if (s.axes.empty() && (s.kind != K::par || s.simd)) error("no axis");
    if (s.simd && simd_) error("a simd loop within a simd loop");
    if (s.unroll != 1 && !(reduce && s.simd && (s.unroll == 2 || s.unroll == 4 || s.unroll == 8)))
      error("unroll is 1, or 2, 4, 8 of a simd reduce");
    size_t scope = scope_.size();
    for (size_t i = 0; i < s.axes.size(); ++i) {
      tile(s, s.axes[i], s.simd && i + 1 == s.axes.size());
      Ref var = s.axes[i].var;
      define(var);
      if (var >= state_.size()) continue;
      if (k_.types[var] != DType::i64) error("a loop variable of type " + std::string(name(k_.types[var])));
      loop_variable_[var] = true;
      if (s.axes[i].counts_tiles()) tile_[var] = s.axes[i].by.size < 0 ? s.axes[i].by.factor : -1;
      varies_[var] = s.simd && i + 1 == s.axes.size();
    }
    bool outer_simd = simd_;
    simd_ |= s.simd;
    if (depth > kMaxLoopDepth)
      error("nested deeper than " + std::to_string(kMaxLoopDepth));
    else
      block(s.body, &s, depth);
    at_ = &s;
    std::vector<bool> varies;
    if (reduce) varies = yields(s);
    simd_ = outer_simd;
    for (; scope_.size() > scope; scope_.pop_back()) state_[scope_.back()] = State::gone;
    for (size_t i = 0; i < s.results.size(); ++i) {
      define(s.results[i]);
      if (s.results[i] < varies_.size() && i < varies.size()) varies_[s.results[i]] = varies[i] && !s.simd;
    }
  }

  std::vector<bool> yields(const Stmt& s) {
    std::vector<bool> varies(s.yields.size());
    if (s.results.empty() || s.results.size() != s.yields.size() || s.combine.size() != s.yields.size()) {
      error(std::to_string(s.combine.size()) + " rows, " + std::to_string(s.yields.size()) + " yields, " +
            std::to_string(s.results.size()) + " results");
      return varies;
    }
    for (size_t i = 0; i < s.yields.size(); ++i) {
      if (!readable(s.yields[i], false)) continue;
      DType type = k_.types[s.yields[i]];
      foldable(s.combine[i], type);
      if (s.results[i] < k_.types.size() && k_.types[s.results[i]] != type)
        error("the result is of type " + std::string(name(type)));
      varies[i] = varies_[s.yields[i]];
    }
    if (!s.online.empty()) online(s);
    return varies;
  }
  void online(const Stmt& s) {
    if (s.online.size() != s.combine.size() || s.online[0] != kPlain)
      return error("the first result follows none");
    for (size_t i = 1; i < s.online.size(); ++i) {
      const OpId row = s.online[i];
      if (row == kPlain) continue;
      if (s.combine[i] != ops::add || (row != ops::exp && row != ops::square) ||
          s.combine[0] != (row == ops::exp ? ops::maximum : ops::add))
        error("what follows is an exp add behind a maximum, or a square add behind an add");
      if (std::max(s.yields[0], s.yields[i]) >= k_.types.size()) continue;
      const DType type = k_.types[s.yields[i]];
      if (!is_float(type) || type != k_.types[s.yields[0]]) error("what follows is a float as the first is");
      if (row == ops::square && s.yields[i] != s.yields[0]) error("a square add yields what the first does");
    }
    if (std::ranges::count(s.online, ops::square) > 1) error("one square add is enough");
    const bool tiles = std::ranges::any_of(s.axes, [](const Axis& a) { return !a.is_whole(); });
    if (tiles && std::ranges::count(s.online, ops::square)) error("a square add is of whole axes");
    if (!s.simd || s.unroll != 1) error("what follows stands in a simd reduce without unroll");
    if (std::ranges::any_of(s.body, [](const Stmt& i) { return !i.axes.empty() || i.kind == K::store; }))
      error("beside what follows stand scalars alone");
  }

  void block(const Block& block, const Stmt* loop, int depth) {
    for (const Stmt& s : block) {
      at_ = &s;
      scan_allowed_ = loop && loop->kind == K::loop && !loop->simd && loop->axes.size() == 1;
      if (s.kind == K::par && loop) error("par is outermost only");
      if (!is_loop(s) && !(s.body.empty() && s.axes.empty() && !s.simd && s.unroll == 1))
        error("has a body but is no loop");
      if (s.kind != K::op && s.fault != 0) error("a fault is an op's");
      if (s.kind != K::reduce &&
          !(s.combine.empty() && s.online.empty() && s.results.empty() && s.yields.empty()))
        error("has yields but is no reduce");
      if (is_loop(s))
        this->loop(s, depth + 1);
      else if (s.kind == K::store)
        store(s);
      else
        instruction(s);
    }
    at_ = nullptr;
  }

  const Kernel& k_;
  std::string errors_;
  const Stmt* at_ = nullptr;
  std::vector<State> state_;
  std::vector<Ref> scope_;
  std::vector<bool> loop_variable_;
  std::vector<int64_t> tile_;  // per loop variable: elements of the tiles that it counts; -1: a size
  std::vector<bool> varies_;   // per value: may differ between the lanes of the simd loop around it
  bool simd_ = false;
  bool scan_allowed_ = false;
  bool address_varies_ = false;
};

}  // namespace

Status verify(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace tenon::jit
