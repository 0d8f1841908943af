// emit_llvm: a kernel as the text of one LLVM function, the counterpart of emit_cuda. Scalar instructions are
// templates ($0 $T $R ..., the legend is in llvm_text.h). llvm_function.h does control flow, hoisting and
// value numbering.
//
//   define void @NAME(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end)
//
// Inside a simd axis, a value is a vector of W = lanes(isa) elements whatever its dtype, unless it does not
// depend on the axis: then it is a scalar, computed before the loop. An axis is split into a loop over full
// vectors and a masked tail. No pointer is noalias: a buffer may be reused in place if every element is read
// before it is written. Tested by tests/unit/jit/llvm/emit_test.cc and tests/golden/jit/*.tn.
#include "jit/llvm/compiler.h"
#include "jit/llvm/emit_loops.h"

namespace tenon::jit {
namespace {

class Emitter final : LoopEmitter {
 public:
  Emitter(const Kernel& kernel, Isa isa) : LoopEmitter(kernel, isa) {}

  std::string run() {
    for (const char* name : {"buffers", "sizes", "scratch", "begin", "end"}) {
      f_.parameter(name);
      f_.unique(name);
    }
    for (size_t i = 0; i < k_.sizes.size(); ++i)
      sizes_.push_back(Int(argument("i64", "%sizes", "i64", i, k_.sizes[i])));
    Int scratch = 0;
    int argument_index = 0;
    for (const Buffer& b : k_.buffers) {
      if (b.role != Buffer::Role::local) {
        bases_.push_back(argument("ptr", "%buffers", "ptr", argument_index++, b.name));
        continue;
      }
      bases_.push_back(f_.pure("getelementptr i8, ptr %scratch, i64 " + scratch.text, b.name));
      Int bytes = f_.add(f_.mul(extent(b.length), size_of(b.type)), 63);
      scratch = f_.add(scratch, bytes.known ? Int(*bytes.known / 64 * 64)
                                            : Int(f_.pure("and i64 " + bytes.text + ", -64")));
    }
    if (can_fault(k_)) fault_ = argument("ptr", "%buffers", "ptr", argument_index, "fault");
    emit_par(k_.body[0]);
    return "define void @" + k_.name + "(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end) " +
           attributes() + " {\n" + f_.finish() + "}\n" + host_functions();
  }

 private:
  std::string attributes() const {
    switch (isa_) {
      case Isa::sse2: return "nounwind \"target-cpu\"=\"x86-64\"";
      case Isa::avx2: return "nounwind \"target-cpu\"=\"x86-64-v3\"";
      case Isa::avx512: return "nounwind \"target-cpu\"=\"x86-64-v4\" \"prefer-vector-width\"=\"512\"";
    }
    return "";
  }

  std::string argument(const std::string& type, const std::string& array, const std::string& element,
                       size_t index, const std::string& name) {
    std::string at = array;
    if (index)
      at = f_.entry("getelementptr " + element + ", ptr " + array + ", i64 " + std::to_string(index),
                    name + ".at");
    return f_.entry("load " + type + ", ptr " + at + ", align 8", name);
  }

  // Emits the par nest as one range [begin, end). Divides once to find its variables, then counts them like
  // an odometer. A simd nest counts its last axis in vectors and computes all vectors of a row in one inner
  // loop.
  void emit_par(const Stmt& s) {
    std::vector<Carried> none;
    const size_t outer = s.axes.size() - (s.simd ? 1 : 0);  // axes of the odometer
    auto body = [&] { emit_block(s.body); };
    auto vectors = [&](const Int& first, const Int& last) {  // of the simd axis
      const Int n = extent(s.axes.back().extent), rest = f_.remainder(n, w_), stop = f_.mul(last, w_);
      const Int begin = f_.mul(first, w_), whole = f_.min(stop, f_.sub(n, rest));
      const int at_once = vectors_at_once(s);
      const Int full =
          at_once == 1 ? whole : f_.sub(whole, f_.remainder(f_.sub(whole, begin), int64_t{w_} * at_once));
      const Int end = rest.is(0) ? whole : f_.min(stop, n);
      simd_axis(s, begin, full, end, at_once, outer > 0, none);
    };
    if (s.simd && outer == 0) return vectors(Int("%begin"), Int("%end"));
    f_.when_less("any", Int("%begin"), Int("%end"), false, none, [&] {
      Int in_row = 0, row = Int("%begin");
      std::string per_row;
      if (s.simd) {
        Int n = f_.divide(f_.add(extent(s.axes.back().extent), w_ - 1), w_);
        per_row = n.text;
        in_row = f_.here("srem i64 %begin, " + per_row);
        row = f_.here("sdiv i64 %begin, " + per_row);
      }
      std::vector<Carried> state(outer + (s.simd ? 1 : 0));
      for (size_t a = outer; a-- > 0;) {
        const std::string n = range(s.axes[a]).second.text;
        std::string digit = a == 0 ? row.text : f_.here("srem i64 " + row.text + ", " + n);
        if (a > 0) row = Int(f_.here("sdiv i64 " + row.text + ", " + n));
        state[a] = {"i64", hint(s.axes[a].var), digit};
      }
      if (s.simd) state[outer] = {"i64", hint(s.axes[outer].var) + ".vector", in_row.text};
      f_.loop("par", Int("%begin"), Int("%end"), true, state, [&](const std::string& at) -> Int {
        for (size_t a = 0; a < outer; ++a) define(s.axes[a].var, state[a].value, 1);
        Int done = 1;
        if (s.simd) {
          Int first = Int(state[outer].value);
          Int left = f_.sub(Int("%end"), Int(at));
          done = f_.min(left, f_.sub(Int(per_row), first));
          vectors(first, f_.add(first, done));
          state[outer].value = "0";
        } else {
          body();
        }
        Int carry = 1;
        for (size_t a = outer; a-- > 0;) {
          Int next = f_.add(Int(state[a].value), carry);
          if (a > 0) {
            std::string wrapped = f_.pure("icmp eq i64 " + next.text + ", " + range(s.axes[a]).second.text);
            carry = Int(f_.pure("zext i1 " + wrapped + " to i64"));
            next = Int(f_.pure("select i1 " + wrapped + ", i64 0, i64 " + next.text));
          }
          state[a].value = next.text;
        }
        return f_.add(Int(at), done);
      });
    });
  }

  void emit_stmt(const Stmt& s) override {
    switch (s.kind) {
      case Stmt::Kind::op:
      case Stmt::Kind::cast:
      case Stmt::Kind::bitcast:
      case Stmt::Kind::constant:
      case Stmt::Kind::size:
      case Stmt::Kind::index: return emit_scalar(s);
      case Stmt::Kind::load: return emit_load(s);
      case Stmt::Kind::store: return emit_store(s);
      case Stmt::Kind::loop: return emit_loop(s);
      case Stmt::Kind::reduce: return emit_reduce(s);
      case Stmt::Kind::scan: return emit_scan(s);
      case Stmt::Kind::par: break;
    }
    TENON_CHECK(false, "par inside the par nest");
  }
};

}  // namespace

std::string emit_llvm(const Kernel& kernel, Isa isa) { return Emitter(kernel, isa).run(); }

}  // namespace tenon::jit
