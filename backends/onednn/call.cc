// See call.h.
#include "backends/onednn/call.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "backends/onednn/exit_gate.h"
#include "backends/onednn/library.h"
#include "src/base/align.h"

namespace tenon::onednn {
namespace {

using dnnl::memory;

// Element by element, for strides that the library does not describe.
void copy_strided(const char* from, const std::vector<int64_t>& from_strides, char* to,
                  const std::vector<int64_t>& to_strides, const std::vector<int64_t>& dims, int64_t item) {
  int64_t at[kMaxRank + 2] = {};
  const size_t rank = dims.size();
  for (;;) {
    std::memcpy(to, from, static_cast<size_t>(item));
    size_t axis = rank;
    for (;;) {
      if (axis == 0) return;
      --axis;
      from += from_strides[axis] * item;
      to += to_strides[axis] * item;
      if (++at[axis] < dims[axis]) break;
      from -= from_strides[axis] * item * dims[axis];
      to -= to_strides[axis] * item * dims[axis];
      at[axis] = 0;
    }
  }
}

struct Place {
  enum class Kind { buffer, scratch, fixed } kind = Kind::scratch;
  int buffer = -1;
  int64_t offset = 0;  // bytes
  char* fixed = nullptr;

  char* address(void* const* buffers, char* scratch) const {
    switch (kind) {
      case Kind::buffer: return static_cast<char*>(buffers[buffer]) + offset;
      case Kind::scratch: return scratch + offset;
      case Kind::fixed: break;
    }
    return fixed;
  }
};

struct Slot {
  memory::desc descriptor;
  Place place;
};
struct PlainCopy {
  Place from, to;
  std::vector<int64_t> dims, from_strides, to_strides;
  int64_t item;
};
struct Zero {
  int64_t offset, bytes;
};
struct Run {
  dnnl::primitive primitive;
  std::vector<std::pair<int, int>> arguments;  // of the library, slot
};

constexpr size_t kObject =
    1024;  // an object of the library with what it holds; a guess, the library does not say

class CallStep final : public Step {
 public:
  int64_t scratch = 0;
  std::vector<Slot> slots;
  std::vector<Zero> zeros;
  std::vector<PlainCopy> before, after;
  std::vector<Run> runs;
  std::vector<memory> kept;  // packed weights, as long as the step lives

  int64_t scratch_bytes() const override { return scratch; }
  // The primitive is the library's; that of a call is shared by all plans that ask for the same.
  int64_t bytes() const override {
    size_t sum = sizeof *this + slots.size() * (sizeof(Slot) + kObject) +
                 runs.size() * (sizeof(Run) + kObject) + zeros.size() * sizeof(Zero) +
                 (before.size() + after.size()) * kObject;
    for (const Run& r : runs) sum += r.arguments.size() * sizeof r.arguments[0];
    return static_cast<int64_t>(sum + slots.size() * kObject);  // and one set of memory objects
  }
  void run(void* const* buffers, char* base, Parallel&) const override {
    if (runs.empty()) return;
    const InLibrary here;
    std::unique_ptr<Set> set = take();
    for (const Zero& z : zeros) std::memset(base + z.offset, 0, static_cast<size_t>(z.bytes));
    for (const PlainCopy& c : before) copy(c, buffers, base);
    for (size_t i = 0; i < slots.size(); ++i)
      TENON_CHECK(dnnl_memory_set_data_handle(set->memories[i].get(),
                                              slots[i].place.address(buffers, base)) == dnnl_success,
                  "memory handle");
    for (size_t r = 0; r < runs.size(); ++r)
      TENON_CHECK(dnnl_primitive_execute(runs[r].primitive.get(), set->stream.get(),
                                         static_cast<int>(set->arguments[r].size()),
                                         set->arguments[r].data()) == dnnl_success,
                  "oneDNN did not run");
    TENON_CHECK(dnnl_stream_wait(set->stream.get()) == dnnl_success, "oneDNN stream");
    for (const PlainCopy& c : after) copy(c, buffers, base);
    if (!used_.exchange(true, std::memory_order_relaxed)) used_anew();
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) free_.push_back(std::move(set));
  }

  int64_t reserve(int64_t bytes) {
    const int64_t at = scratch;
    scratch += align_up(bytes);
    return at;
  }
  int add(memory::desc descriptor, Place place) {
    slots.push_back({std::move(descriptor), place});
    return static_cast<int>(slots.size() - 1);
  }

 private:
  struct Set {
    dnnl::stream stream;
    std::vector<memory> memories;
    std::vector<std::vector<dnnl_exec_arg_t>> arguments;
  };
  std::unique_ptr<Set> take() const {
    {
      // Never waited for: in the child of a fork it may be held by a thread of the parent.
      std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock && !free_.empty()) {
        std::unique_ptr<Set> set = std::move(free_.back());
        free_.pop_back();
        return set;
      }
    }
    try {
      auto set = std::make_unique<Set>();
      set->stream = dnnl::stream(engine());
      for (const Slot& s : slots) set->memories.push_back(memory(s.descriptor, engine(), nullptr));
      for (const Run& r : runs) {
        auto& list = set->arguments.emplace_back();
        for (auto [argument, slot] : r.arguments)
          list.push_back({argument, set->memories[static_cast<size_t>(slot)].get()});
      }
      return set;
    } catch (const dnnl::error& failure) {
      TENON_CHECK(false, failure.what());
    }
    return nullptr;
  }
  static void copy(const PlainCopy& c, void* const* buffers, char* base) {
    copy_strided(c.from.address(buffers, base), c.from_strides, c.to.address(buffers, base), c.to_strides,
                 c.dims, c.item);
  }

  mutable std::atomic<bool> used_{false};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Set>> free_;
};

// Builds the step: where every array of the problem lies, and what has to be moved first.
class Layouter {
 public:
  Layouter(const Recipe& recipe, std::mutex& mutex, std::vector<Packed>& packed, CallStep& step)
      : recipe_(recipe), mutex_(mutex), packed_(packed), step_(step) {}
  bool weights_packed = false;

  // The slot from which the library reads `given`, as `wanted`.
  int input(const Array& given, const memory::desc& wanted, bool pack) {
    if (given.zero) {
      const int64_t bytes = static_cast<int64_t>(wanted.get_size());
      const int64_t at = step_.reserve(bytes);
      step_.zeros.push_back({at, bytes});
      return step_.add(wanted, {Place::Kind::scratch, -1, at, nullptr});
    }
    const Operand& operand = recipe_.operands[static_cast<size_t>(given.operand)];
    auto here = descriptor_of(given);
    if (here && *here == wanted) return step_.add(wanted, buffer(operand.buffer, given.offset));
    if (pack && operand.constant) return packed(given, here, operand, wanted);
    Place from = buffer(operand.buffer, given.offset);
    if (!here) {
      Array plain = given;
      plain.strides = plain_strides(given.dims, false);
      auto there = descriptor_of(plain);
      Array as_wanted = plain;
      as_wanted.strides = plain_strides(given.dims, given.dims.size() > 2);
      if (auto d = descriptor_of(as_wanted); d && *d == wanted) plain = as_wanted, there = d;
      const Place to{Place::Kind::scratch, -1, step_.reserve(plain.count() * size_of(plain.dtype)), nullptr};
      step_.before.push_back({from, to, given.dims, given.strides, plain.strides, size_of(given.dtype)});
      if (*there == wanted) return step_.add(wanted, to);
      from = to;
      here = there;
    }
    const Place to{Place::Kind::scratch, -1, step_.reserve(static_cast<int64_t>(wanted.get_size())), nullptr};
    const int source = step_.add(*here, from), target = step_.add(wanted, to);
    reorder(source, target);
    return target;
  }

  // The slot the library writes; finish_output() moves it home.
  int output(const Array& given, const memory::desc& wanted) {
    output_place_ = buffer(recipe_.output.buffer, given.offset);
    const auto here = descriptor_of(given);
    if (here && *here == wanted) return step_.add(wanted, output_place_);
    moved_ = step_.add(
        wanted, {Place::Kind::scratch, -1, step_.reserve(static_cast<int64_t>(wanted.get_size())), nullptr});
    return moved_;
  }
  void finish_output(const Array& given) {
    if (moved_ < 0) return;
    if (auto here = descriptor_of(given)) {
      reorder(moved_, step_.add(*here, output_place_));
      return;
    }
    Array plain = given;
    plain.strides = plain_strides(given.dims, false);
    const Place at{Place::Kind::scratch, -1, step_.reserve(plain.count() * size_of(plain.dtype)), nullptr};
    reorder(moved_, step_.add(*descriptor_of(plain), at));
    step_.after.push_back(
        {at, output_place_, given.dims, plain.strides, given.strides, size_of(given.dtype)});
  }

 private:
  static Place buffer(int position, int64_t offset) {
    return {Place::Kind::buffer, position, offset, nullptr};
  }

  void reorder(int from, int to) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc d(engine(), step_.slots[static_cast<size_t>(from)].descriptor,
                                          engine(), step_.slots[static_cast<size_t>(to)].descriptor, attr);
    Run run{dnnl::reorder(d), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
    scratchpad(d.scratchpad_desc(), run);
    step_.runs.push_back(std::move(run));
  }

  int packed(const Array& given, std::optional<memory::desc> here, const Operand& operand,
             const memory::desc& wanted) {
    weights_packed = weights_packed || given.operand == 1;
    std::lock_guard lock(mutex_);  // packed once, whoever comes first
    for (const Packed& p : packed_)
      if (p.operand == given.operand && p.memory.get_desc() == wanted) return keep(p.memory);
    char* bytes = static_cast<char*>(const_cast<void*>(operand.constant->bytes)) + given.offset;
    std::vector<char> plain_bytes;
    if (!here) {
      Array plain = given;
      plain.strides = plain_strides(given.dims, false);
      plain_bytes.resize(static_cast<size_t>(plain.count() * size_of(plain.dtype)));
      copy_strided(bytes, given.strides, plain_bytes.data(), plain.strides, given.dims, size_of(given.dtype));
      bytes = plain_bytes.data();
      here = descriptor_of(plain);
    }
    memory from(*here, engine(), bytes), to(wanted, engine());
    dnnl::stream stream(engine());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    packed_.push_back({given.operand, to});
    return keep(to);
  }
  int keep(const memory& m) {
    step_.kept.push_back(m);
    return step_.add(m.get_desc(), {Place::Kind::fixed, -1, 0, static_cast<char*>(m.get_data_handle())});
  }

 public:
  void scratchpad(const memory::desc& d, Run& run) {
    if (d.get_size() == 0) return;
    const int64_t at = step_.reserve(static_cast<int64_t>(d.get_size()));
    run.arguments.push_back({DNNL_ARG_SCRATCHPAD, step_.add(d, {Place::Kind::scratch, -1, at, nullptr})});
  }

 private:
  const Recipe& recipe_;
  std::mutex& mutex_;
  std::vector<Packed>& packed_;
  CallStep& step_;
  Place output_place_;
  int moved_ = -1;
};

}  // namespace

std::string post_op_names(const Recipe& recipe, bool bias) {
  std::string text;
  for (size_t i = recipe.form == Form::pointwise ? 1 : 0; i < recipe.post_ops.size(); ++i)
    text += (text.empty() ? ", post-ops: " : " ") + (bias && i == 0 ? "bias" : recipe.post_ops[i].name);
  return text;
}

std::string Call::describe() const {
  std::lock_guard lock(mutex_);
  return text_.empty() ? fallback : text_;
}

Result<std::unique_ptr<Step>> Call::prepare(const Sizes& sizes) {
  const InLibrary here;  // it packs weights
  auto step = std::make_unique<CallStep>();
  const Problem asked = at_sizes(recipe, sizes);
  if (asked.empty) return std::unique_ptr<Step>(std::move(step));
  const Choice choice = choose(asked, true);
  const Problem &given = choice.given, &p = choice.problem;
  const Offer& o = *choice.offer;
  if (!o.why.empty()) return environment(title(asked, o, recipe.name));
  try {
    Layouter place(recipe, mutex_, packed_, *step);
    const dnnl::primitive_desc& d = o.descriptor;
    Run main{o.primitive, {}};
    auto read = [&](int argument, const Array& array, const memory::desc& wanted, bool pack) {
      main.arguments.push_back({argument, place.input(array, wanted, pack)});
    };
    read(DNNL_ARG_SRC, given.source, d.query_md(dnnl::query::src_md, 0), false);
    if (given.weights.present())
      read(DNNL_ARG_WEIGHTS, given.weights, d.query_md(dnnl::query::weights_md, 0), true);
    if (given.bias.present()) read(DNNL_ARG_BIAS, given.bias, d.query_md(dnnl::query::weights_md, 1), true);
    const int first = p.form == Form::pointwise ? 1 : 0;
    for (size_t i = static_cast<size_t>(first); i < p.post_ops.size(); ++i) {
      const int other = p.post_ops[i].operand;
      if (other < 0) continue;
      read(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i) - first) | DNNL_ARG_SRC_1,
           given.others[static_cast<size_t>(other)], *descriptor_of(p.others[static_cast<size_t>(other)]),
           true);
    }
    main.arguments.push_back({DNNL_ARG_DST, place.output(given.output, d.query_md(dnnl::query::dst_md, 0))});
    place.scratchpad(d.scratchpad_desc(), main);
    step->runs.push_back(std::move(main));
    place.finish_output(given.output);
    std::string text = title(asked, o, recipe.name) + (place.weights_packed ? ", weights packed" : "") +
                       post_op_names(recipe, given.bias.present());
    std::lock_guard lock(mutex_);
    text_ = std::move(text);
  } catch (const dnnl::error& failure) {
    return environment(recipe.name + ": " + failure.what());
  }
  return std::unique_ptr<Step>(std::move(step));
}

}  // namespace tenon::onednn
