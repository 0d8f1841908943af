// print: a kernel as text, in the grammar of jit/kernel/parse.cc. Prints any kernel, also one that verify
// refuses. What verify accepts parses back to the same text. Tested by tests/unit/jit/kernel/kernel_test.cc and
// tests/golden/jit/*.tn.
#include <unordered_set>

#include "jit/kernel/walk.h"
#include "src/base/text.h"

namespace tenon::jit {
namespace {

// A name that the parser accepts: starts with a letter, or is all digits.
std::string clean(std::string name) {
  bool digits = true;
  for (char& c : name) {
    if (!is_name_char(c)) c = '_';
    digits = digits && is_digit(c);
  }
  return digits || !(is_digit(name[0]) || name[0] == '.') ? name : "v" + name;
}

std::string print_scalar(const Scalar& s) { return s.is_int ? std::to_string(s.i) : print_double(s.d); }

class Printer {
 public:
  // `canonical`: values, buffers and sizes are numbered in order of appearance and the kernel has no name.
  Printer(const Kernel& kernel, bool canonical) : kernel_(kernel), canonical_(canonical) {
    values_.resize(kernel.types.size());
    if (canonical) {
      number(kernel.body);
      return;
    }
    std::unordered_set<std::string> taken;
    for (Ref ref = 0; ref < values_.size(); ++ref) {
      std::string given = ref < kernel.names.size() ? clean(kernel.names[ref]) : "";
      std::string name = given.empty() ? std::to_string(ref) : given;
      if (taken.contains(name) && is_digit(name[0])) name = "v" + name;
      while (!taken.insert(name).second) name += "." + std::to_string(ref);
      values_[ref] = std::move(name);
    }
  }

  std::string kernel() {
    out_ = "kernel @" + (canonical_ ? "k" : clean(kernel_.name)) + "(";
    for (size_t i = 0; i < kernel_.sizes.size(); ++i) out_ += (i ? ", " : "") + size(static_cast<int>(i));
    bool locals = false;
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const Buffer& b = kernel_.buffers[i];
      bool local = b.role == Buffer::Role::local;
      out_ += i == 0 || local != locals ? "; " : ", ";
      locals = local;
      out_ += local ? "local " : b.role == Buffer::Role::in ? "in " : "out ";
      out_ += buffer(static_cast<int>(i)) + ": " + std::string(name(b.type));
      if (local) out_ += "[" + extent(b.length) + "]";
    }
    out_ += ") {\n";
    block(kernel_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string line(const Stmt& s) const {
    using K = Stmt::Kind;
    switch (s.kind) {
      case K::op:
        return result(s) + op_name(s.op) + " " + values(s.args) +
               (s.fault ? " fault " + std::to_string(s.fault) : "");
      case K::scan: return result(s) + "scan " + op_name(s.op) + " " + values(s.args);
      case K::cast: return result(s) + "cast." + std::string(name(s.type)) + " " + values(s.args);
      case K::bitcast: return result(s) + "bitcast." + std::string(name(s.type)) + " " + values(s.args);
      case K::constant:
        return result(s) + "const." + std::string(name(s.type)) + " " + print_scalar(s.literal);
      case K::size: return result(s) + "size " + size(s.size);
      case K::index: return result(s) + "index " + values(s.args);
      case K::load: return result(s) + "load " + buffer(s.buffer) + "[" + address(s.address) + "]";
      case K::store: return "store " + buffer(s.buffer) + "[" + address(s.address) + "], " + values(s.args);
      case K::par: return "par" + axes(s) + " {";
      case K::loop: return "for" + axes(s) + " {";
      case K::reduce: {
        std::string text = values(s.results) + " = reduce ";
        for (size_t i = 0; i < s.combine.size(); ++i) {
          text += i ? ", " : "";
          if (i < s.online.size() && s.online[i] != kPlain) text += op_name(s.online[i]) + " ";
          text += op_name(s.combine[i]);
        }
        return text + axes(s) + " {";
      }
    }
    return "";
  }

 private:
  void number(const Block& block) {
    auto define = [&](Ref ref) {
      if (ref < values_.size() && values_[ref].empty()) values_[ref] = std::to_string(next_++);
    };
    for (const Stmt& s : block) {
      for (const Axis& axis : s.axes) define(axis.var);
      number(s.body);
      define(s.result);
      for (Ref ref : s.results) define(ref);
    }
  }

  void block(const Block& block, int depth) {
    std::string indent(2 * depth, ' ');
    for (const Stmt& s : block) {
      out_ += indent + line(s) + "\n";
      if (!is_loop(s)) continue;
      this->block(s.body, depth + 1);
      if (s.kind == Stmt::Kind::reduce) out_ += indent + "  yield " + values(s.yields) + "\n";
      out_ += indent + "}\n";
    }
  }

  std::string op_name(OpId id) const { return id < op_count() ? std::string(op(id).name) : "?"; }
  std::string value(Ref ref) const { return ref < values_.size() ? "%" + values_[ref] : "%?"; }
  std::string values(const std::vector<Ref>& refs) const {
    std::string text;
    for (Ref ref : refs) text += (text.empty() ? "" : ", ") + value(ref);
    return text;
  }
  std::string result(const Stmt& s) const { return value(s.result) + " = "; }
  std::string size(int i) const {
    if (i < 0 || i >= static_cast<int>(kernel_.sizes.size())) return "?";
    return canonical_ ? "s" + std::to_string(i) : clean(kernel_.sizes[i]);
  }
  std::string buffer(int i) const {
    if (i < 0 || i >= static_cast<int>(kernel_.buffers.size())) return "%?";
    return "%" + (canonical_ ? "b" + std::to_string(i) : clean(kernel_.buffers[i].name));
  }
  std::string extent(const Extent& e) const {
    if (e.size < 0) return std::to_string(e.factor);
    return (e.factor == 1 ? "" : std::to_string(e.factor) + "*") + size(e.size);
  }
  std::string axes(const Stmt& s) const {
    std::string text;
    for (size_t i = 0; i < s.axes.size(); ++i) {
      text += i ? ", " : " ";
      if (s.simd && i + 1 == s.axes.size()) text += "simd ";
      const Axis& axis = s.axes[i];
      text += value(axis.var) + " in " + (axis.of == kNoRef ? extent(axis.extent) : value(axis.of));
      if (axis.by != Extent{0, -1}) text += " by " + extent(axis.by);
    }
    if (s.unroll != 1) text += " unroll " + std::to_string(s.unroll);
    return text;
  }
  // 2*N*%i - %j + 4
  std::string address(const Address& terms) const {
    std::string text;
    for (const Term& t : terms) {
      bool negative = t.factor < 0;
      uint64_t factor = negative ? 0 - static_cast<uint64_t>(t.factor) : static_cast<uint64_t>(t.factor);
      if (text.empty())
        text += negative ? "-" : "";
      else
        text += negative ? " - " : " + ";
      std::string product;
      if (t.size >= 0) product += size(t.size);
      if (t.var != kNoRef) product += (product.empty() ? "" : "*") + value(t.var);
      if (product.empty())
        text += std::to_string(factor);
      else
        text += (factor == 1 ? "" : std::to_string(factor) + "*") + product;
    }
    return text.empty() ? "0" : text;
  }

  const Kernel& kernel_;
  bool canonical_;
  int next_ = 0;
  std::vector<std::string> values_;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel, false).kernel(); }
std::string canonical_text(const Kernel& kernel) { return Printer(kernel, true).kernel(); }
std::string print_line(const Kernel& kernel, const Stmt& stmt) { return Printer(kernel, false).line(stmt); }

}  // namespace tenon::jit
