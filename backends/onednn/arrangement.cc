// See arrangement.h.
#include "backends/onednn/arrangement.h"

#include <cstring>

#include "backends/onednn/exit_gate.h"
#include "backends/onednn/library.h"
#include "src/backend/host_threads.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"
#include "src/base/threads/single_flight_lru.h"
#include "src/ops/eval/host_tensor.h"

namespace tenon::onednn {

using dnnl::memory;

std::unique_ptr<Arrangement::Set> Arrangement::take() const {
  {
    // Does not wait for the mutex: in the child of a fork, a thread of the parent may hold it forever.
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
    set->memories.reserve(slots_.size());
    for (const Slot& s : slots_) set->memories.push_back(memory(s.descriptor, engine(), nullptr));
    for (const Run& r : runs_) {
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

Status Arrangement::run(void* const* buffers, char* scratch, void* const* fixed) const {
  auto address = [&](const Place& p) {
    switch (p.kind) {
      case Place::Kind::buffer: return static_cast<char*>(buffers[p.index]) + p.offset;
      case Place::Kind::scratch: return scratch + p.offset;
      case Place::Kind::fixed: break;
    }
    return static_cast<char*>(fixed[p.index]);
  };
  auto copy = [&](const PlainCopy& c) {
    copy_strided(address(c.from), c.from_strides, address(c.to), c.to_strides, c.dims, c.item);
  };
  const InLibrary here;
  TENON_TRY(here.status());
  const HostThreadLimit limit(threads_);
  std::unique_ptr<Set> set = take();
  for (const Zero& z : zeros_) std::memset(scratch + z.offset, 0, static_cast<size_t>(z.bytes));
  for (const PlainCopy& c : before_) copy(c);
  for (size_t i = 0; i < slots_.size(); ++i)
    TENON_CHECK(dnnl_memory_set_data_handle(set->memories[i].get(), address(slots_[i].place)) == dnnl_success,
                "memory handle");
  for (size_t r = 0; r < runs_.size(); ++r)
    TENON_CHECK(dnnl_primitive_execute(runs_[r].primitive.get(), set->stream.get(),
                                       static_cast<int>(set->arguments[r].size()),
                                       set->arguments[r].data()) == dnnl_success,
                "oneDNN did not run");
  TENON_CHECK(dnnl_stream_wait(set->stream.get()) == dnnl_success, "oneDNN stream");
  for (const PlainCopy& c : after_) copy(c);
  if (!used_.exchange(true, std::memory_order_relaxed)) used_anew();
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) free_.push_back(std::move(set));
  return {};
}

// Builds an arrangement: decides where every array of the problem lies and which arrays are copied first.
class Arranger {
 public:
  Arranger(const Spec& spec, Arrangement& arrangement) : recipe_(spec), arrangement_(arrangement) {}

  // Throws what the library throws.
  void build(const Problem& asked, const Algorithm& choice) {
    const Problem &given = choice.given, &p = choice.problem;
    const dnnl::primitive_desc& d = choice.offer->descriptor;
    arrangement_.threads_ = asked.threads;
    Arrangement::Run main{choice.offer->primitive, {}};
    auto read = [&](int argument, const Array& array, const memory::desc& wanted, bool pack) {
      main.arguments.push_back({argument, input(array, wanted, pack)});
    };
    const bool of_weight = p.form == Form::weight_gradient;
    read(DNNL_ARG_SRC, given.source, d.query_md(dnnl::query::src_md, 0), false);
    if (of_weight)
      read(DNNL_ARG_DIFF_DST, given.weights, d.query_md(dnnl::query::diff_dst_md, 0), true);
    else if (given.weights.present())
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
    main.arguments.push_back(
        {of_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_DST,
         output(given.output,
                d.query_md(of_weight ? dnnl::query::diff_weights_md : dnnl::query::dst_md, 0))});
    scratchpad(d.scratchpad_desc(), main);
    arrangement_.runs_.push_back(std::move(main));
    finish_output(given.output);
    const bool packed = std::any_of(arrangement_.packs_.begin(), arrangement_.packs_.end(),
                                    [](const Arrangement::Pack& pack) { return pack.given.operand == 1; });
    arrangement_.text_ = title(asked, choice.offer->text(), recipe_.name) +
                         (packed ? ", weights packed" : "") + (twice_ ? ", weights moved twice" : "") +
                         post_op_names(recipe_, given.bias.present());
  }

 private:
  using Place = Arrangement::Place;
  using Kind = Place::Kind;

  // Returns the slot from which the library reads `given` in the layout `wanted`. Adds the copies that this takes.
  int input(const Array& given, const memory::desc& wanted, bool pack) {
    if (given.zero) {
      const int64_t bytes = static_cast<int64_t>(wanted.get_size());
      const Place zeros = scratch(bytes);
      arrangement_.zeros_.push_back({zeros.offset, bytes});
      return add(wanted, zeros);
    }
    const Operand& operand = recipe_.operands[static_cast<size_t>(given.operand)];
    const Place from{Kind::buffer, given.buffer, given.offset};
    const auto here = descriptor_of(given);
    if (here && *here == wanted) return add(wanted, from);
    if (pack && operand.constant) {
      arrangement_.packs_.push_back({given, wanted});
      return add(wanted, {Kind::fixed, static_cast<int>(arrangement_.packs_.size() - 1), 0});
    }
    if (here) {
      const auto way = halfway(given, wanted);
      twice_ = twice_ || way;
      return moved(way ? moved(add(*here, from), *way) : add(*here, from), wanted);
    }
    Array plain = given;
    plain.strides = plain_strides(given.dims, false);
    auto there = descriptor_of(plain);
    Array as_wanted = plain;
    as_wanted.strides = plain_strides(given.dims, given.dims.size() > 2);
    if (auto d = descriptor_of(as_wanted); d && *d == wanted) plain = as_wanted, there = d;
    const Place to = scratch(plain.count() * size_of(plain.dtype));
    arrangement_.before_.push_back(
        {from, to, given.dims, given.strides, plain.strides, size_of(given.dtype)});
    return *there == wanted ? add(wanted, to) : moved(add(*there, to), wanted);
  }

  // Returns the slot that the library writes. If it is not the output itself, finish_output() adds the copy to the output.
  int output(const Array& given, const memory::desc& wanted) {
    home_ = {Kind::buffer, given.buffer, given.offset};
    const auto here = descriptor_of(given);
    if (here && *here == wanted) return add(wanted, home_);
    away_ = add(wanted, scratch(static_cast<int64_t>(wanted.get_size())));
    return away_;
  }
  void finish_output(const Array& given) {
    if (away_ < 0) return;
    if (auto here = descriptor_of(given)) {
      reorder(away_, add(*here, home_));
      return;
    }
    Array plain = given;
    plain.strides = plain_strides(given.dims, false);
    const Place at = scratch(plain.count() * size_of(plain.dtype));
    reorder(away_, add(*descriptor_of(plain), at));
    arrangement_.after_.push_back(
        {at, home_, given.dims, plain.strides, given.strides, size_of(given.dtype)});
  }

  int moved(int source, const memory::desc& wanted) {
    const int target = add(wanted, scratch(static_cast<int64_t>(wanted.get_size())));
    reorder(source, target);
    return target;
  }
  void reorder(int from, int to) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc d(engine(), arrangement_.slots_[static_cast<size_t>(from)].descriptor,
                                          engine(), arrangement_.slots_[static_cast<size_t>(to)].descriptor,
                                          attr);
    Arrangement::Run run{dnnl::reorder(d), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
    scratchpad(d.scratchpad_desc(), run);
    arrangement_.runs_.push_back(std::move(run));
  }
  void scratchpad(const memory::desc& d, Arrangement::Run& run) {
    if (d.get_size() == 0) return;
    run.arguments.push_back({DNNL_ARG_SCRATCHPAD, add(d, scratch(static_cast<int64_t>(d.get_size())))});
  }

  Place scratch(int64_t bytes) {
    const Place at{Kind::scratch, -1, arrangement_.scratch_};
    arrangement_.scratch_ += align_up(bytes);
    return at;
  }
  int add(memory::desc descriptor, Place place) {
    arrangement_.slots_.push_back({std::move(descriptor), place});
    return static_cast<int>(arrangement_.slots_.size() - 1);
  }

  const Spec& recipe_;
  Arrangement& arrangement_;
  Place home_;
  int away_ = -1;
  bool twice_ = false;  // weights are reordered twice, see halfway()
};

namespace {

constexpr size_t kMostArrangements = 1024;

// Equal for calls that one arrangement serves.
std::string key_of(const Spec& spec, const Problem& asked) {
  std::string key = spec.name + asked.key();
  auto put = [&](const Array& a) {
    const bool constant = a.operand >= 0 && spec.operands[static_cast<size_t>(a.operand)].constant;
    // Problem::key() leaves out the strides of weights with `any`; an arrangement reads them at these strides.
    library::add_to_key(key, a.strides);
    for (int64_t v : {a.offset, int64_t{a.operand}, int64_t{a.buffer}, int64_t{a.zero}, int64_t{constant}})
      library::add_to_key(key, v);
  };
  for (const Array* a : {&asked.source, &asked.weights, &asked.bias, &asked.output}) put(*a);
  for (const Array& a : asked.others) put(a);
  return key;
}

}  // namespace

Result<std::shared_ptr<const Arrangement>> arrangement_of(const Spec& spec, const Problem& asked) {
  return immortal<SingleFlightLru<const Arrangement>, kMostArrangements>().get(
      key_of(spec, asked), [&]() -> Result<std::shared_ptr<const Arrangement>> {
        const Algorithm choice = choose(asked, true);
        if (!choice.offer->why.empty()) return environment(title(asked, choice.offer->text(), spec.name));
        try {
          auto made = std::make_shared<Arrangement>();
          const HostThreadLimit limit(asked.threads);
          Arranger(spec, *made).build(asked, choice);
          return std::shared_ptr<const Arrangement>(std::move(made));
        } catch (const dnnl::error& failure) {
          return environment(spec.name + ": " + failure.what());
        }
      });
}

std::string post_op_names(const Spec& spec, bool bias) {
  std::string text;
  for (size_t i = spec.form == Form::pointwise ? 1 : 0; i < spec.post_ops.size(); ++i)
    text += (text.empty() ? ", post-ops: " : " ") + (bias && i == 0 ? "bias" : spec.post_ops[i].name);
  return text;
}

}  // namespace tenon::onednn
