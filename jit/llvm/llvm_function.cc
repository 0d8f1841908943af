// See llvm_function.h.
#include "jit/llvm/llvm_function.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/base/text.h"

namespace tenon::jit {
namespace {

std::optional<bool> known_less(const Int& a, const Int& b) {
  if (a.known && b.known) return *a.known < *b.known;
  if (a.text == b.text) return false;
  return std::nullopt;
}

}  // namespace

std::string Function::unique(std::string_view hint) {
  std::string base;
  for (char c : hint) base += is_name_char(c) ? c : '_';
  if (base.empty() || is_digit(base[0])) base = "v" + base;
  std::string name = base;
  while (!used_.try_emplace(name).second) name = base + "." + std::to_string(++used_[base]);
  return name;
}

int Function::position(std::string_view value) const {
  if (!value.starts_with('%')) return 0;
  auto it = positions_.find(value);
  TENON_CHECK(it != positions_.end(), "no value " + std::string(value) + " in this function");
  return it->second;
}

int Function::certain_position(bool everywhere) const {
  for (int d = depth(); d > 0; --d)
    if (!regions_[d].certain && !(everywhere && regions_[d].part)) return 2 * d - 1;
  return 0;
}

int Function::floor() const {
  for (int d = depth(); d > 0; --d)
    if (regions_[d].keep) return 2 * d;
  return 0;
}

std::string Function::place(const std::string& line, std::string_view hint, int lowest, bool number) {
  if (number)
    if (auto it = numbered_.find(line); it != numbered_.end()) return it->second;
  int position = lowest;
  bool constant = true;
  for (size_t at = 0; (at = line.find('%', at)) != line.npos;) {
    size_t end = at + 1;
    while (end < line.size() && is_name_char(line[end])) ++end;
    position = std::max(position, this->position(std::string_view(line).substr(at, end - at)));
    constant = false;
    at = end;
  }
  // An expression of constants stays next to its use: instruction selection folds it into the use only within
  // a block.
  if (constant) position = std::max(position, 2 * depth());
  std::string name = "%" + unique(hint);
  positions_[name] = position;
  Region& region = regions_[(position + 1) / 2];
  (position % 2 ? region.pre : region.body) += "  " + name + " = " + line + "\n";
  if (number) {
    numbered_[line] = name;
    region.lines.push_back(line);
  }
  return name;
}

void Function::seldom(const std::string& condition, std::string_view hint, bool everywhere,
                      const std::vector<std::string>& instructions) {
  if (condition == "false") return;
  std::string key = "seldom " + condition;
  for (const std::string& line : instructions) key += "\n" + line;
  if (numbered_.contains(key)) return;
  const int at = std::max({certain_position(everywhere), floor(), position(condition)});
  Region& region = regions_[(at + 1) / 2];
  const std::string then = unique(std::string(hint) + ".then"), done = unique(std::string(hint) + ".done");
  std::string& text = at % 2 ? region.pre : region.body;
  text += "  br i1 " + condition + ", label %" + then + ", label %" + done +
          ", !prof !{!\"branch_weights\", i32 1, i32 1048575}\n" + then + ":\n";
  for (const std::string& line : instructions) text += "  " + line + "\n";
  text += "  br label %" + done + "\n" + done + ":\n";
  (at % 2 ? region.pre_block : region.block) = done;
  numbered_[key] = "";
  region.lines.push_back(key);
}

std::string Function::entry(const std::string& line, std::string_view hint) {
  std::string name = "%" + unique(hint);
  positions_[name] = 0;
  entry_ += "  " + name + " = " + line + "\n";
  return name;
}

Int Function::add(const Int& a, const Int& b) {
  if (a.known && b.known) return *a.known + *b.known;
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return pure("add i64 " + a.text + ", " + b.text);
}

Int Function::sub(const Int& a, const Int& b) {
  if (a.known && b.known) return *a.known - *b.known;
  if (b.is(0)) return a;
  return pure("sub i64 " + a.text + ", " + b.text);
}

Int Function::mul(const Int& a, const Int& b) {
  if (a.known && b.known) return *a.known * *b.known;
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is(0) || b.is(0)) return 0;
  return pure("mul i64 " + a.text + ", " + b.text);
}

Int Function::divide(const Int& a, const Int& b) {
  if (a.known && b.known) return *a.known / *b.known;
  return b.is(1) ? a : a.is(0) ? Int(0) : Int(pure("udiv i64 " + a.text + ", " + b.text));
}

Int Function::remainder(const Int& a, int64_t b) {
  if (a.known) return *a.known % b;
  return b == 1 ? Int(0) : Int(pure("urem i64 " + a.text + ", " + std::to_string(b)));
}

Int Function::min(const Int& a, const Int& b) {
  if (a.known && b.known) return std::min(*a.known, *b.known);
  return pure("call i64 @llvm.smin.i64(i64 " + a.text + ", i64 " + b.text + ")");
}

// Runs body in a new innermost region and moves the text of the region to `out`.
void Function::enter(Region region, const std::function<void()>& body, Region& out) {
  bool split = std::exchange(split_, false);
  region.part = split;
  regions_.push_back(std::move(region));
  body();
  out = std::move(regions_.back());
  regions_.pop_back();
  for (const std::string& line : out.lines) numbered_.erase(line);
  split_ = split;
}

void Function::split(const std::function<void()>& body) {
  bool before = std::exchange(split_, true);
  body();
  split_ = before;
}

// The region that defines `value` has ended: from now on the value belongs to this region.
void Function::leave(const std::string& value) {
  auto [it, is_new] = positions_.try_emplace(value, 2 * depth());
  it->second = std::min(it->second, 2 * depth());
}

void Function::loop(std::string_view hint, const Int& begin, const Int& end, bool sure,
                    std::vector<Carried>& carried, const LoopBody& body) {
  auto known = known_less(begin, end);
  if (known && !*known) return;
  const bool guarded = !sure && !known;
  const std::string id = unique(hint), index = "%" + id;
  const std::string pre = unique(id + ".pre"), head = unique(id + ".loop"), done = unique(id + ".done");
  std::string any;
  if (guarded) any = pure("icmp slt i64 " + begin.text + ", " + end.text, id + ".any");

  std::vector<std::string> starts, phis;
  for (Carried& c : carried) {
    starts.push_back(c.value);
    phis.push_back("%" + unique(c.hint));
    positions_[phis.back()] = 2 * (depth() + 1);
    c.value = phis.back();
  }
  positions_[index] = 2 * (depth() + 1);
  Int next = 0;
  std::string more;
  Region inner;
  Region fresh;
  fresh.block = head;
  fresh.certain = !guarded;
  enter(
      fresh,
      [&] {
        next = body(index);
        more = here("icmp slt i64 " + next.text + ", " + end.text, id + ".more");
      },
      inner);

  Region& outer = regions_.back();
  std::string& text = outer.body;
  std::string from = outer.block;
  if (guarded) {
    text += "  br i1 " + any + ", label %" + pre + ", label %" + done + "\n" + pre + ":\n";
    from = pre;
  }
  if (!inner.pre_block.empty()) from = inner.pre_block;
  text += inner.pre + "  br label %" + head + "\n" + head + ":\n";
  text += "  " + index + " = phi i64 [ " + begin.text + ", %" + from + " ], [ " + next.text + ", %" +
          inner.block + " ]\n";
  for (size_t i = 0; i < carried.size(); ++i)
    text += "  " + phis[i] + " = phi " + carried[i].type + " [ " + starts[i] + ", %" + from + " ], [ " +
            carried[i].value + ", %" + inner.block + " ]\n";
  text += inner.body + "  br i1 " + more + ", label %" + head + ", label %" + done + "\n" + done + ":\n";
  const std::string before = outer.block;
  outer.block = done;
  for (size_t i = 0; i < carried.size(); ++i) {
    std::string last = carried[i].value;
    if (guarded) {
      last = "%" + unique(carried[i].hint);
      text += "  " + last + " = phi " + carried[i].type + " [ " + starts[i] + ", %" + before + " ], [ " +
              carried[i].value + ", %" + inner.block + " ]\n";
    }
    leave(last);
    carried[i].value = last;
  }
}

void Function::when_less(std::string_view hint, const Int& a, const Int& b, bool keep,
                         std::vector<Carried>& carried, const std::function<void()>& body) {
  if (auto known = known_less(a, b)) {
    if (*known) body();
    return;
  }
  const std::string id = unique(hint), then = unique(id + ".then"), done = unique(id + ".done");
  const std::string test = pure("icmp slt i64 " + a.text + ", " + b.text, id);
  std::vector<std::string> starts;
  for (const Carried& c : carried) starts.push_back(c.value);
  Region inner;
  Region fresh;
  fresh.block = then;
  fresh.keep = keep;
  enter(fresh, body, inner);

  Region& outer = regions_.back();
  std::string& text = outer.body;
  // The blocks of the body name `then` as their predecessor.
  const std::string first = inner.pre_block.empty() ? then : unique(id + ".pre");
  text += "  br i1 " + test + ", label %" + first + ", label %" + done + "\n" + first + ":\n" + inner.pre;
  if (first != then) text += "  br label %" + then + "\n" + then + ":\n";
  text += inner.body + "  br label %" + done + "\n" + done + ":\n";
  for (size_t i = 0; i < carried.size(); ++i) {
    std::string last = "%" + unique(carried[i].hint);
    text += "  " + last + " = phi " + carried[i].type + " [ " + starts[i] + ", %" + outer.block + " ], [ " +
            carried[i].value + ", %" + inner.block + " ]\n";
    leave(last);
    carried[i].value = last;
  }
  outer.block = done;
}

std::string Function::finish() {
  TENON_CHECK(depth() == 0, "an LLVM region was left open");
  return "entry:\n" + entry_ + regions_[0].body + "  ret void\n";
}

}  // namespace tenon::jit
