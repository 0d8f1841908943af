// See call.h.
#include "backends/onednn/call.h"

#include <algorithm>
#include <cstdlib>

#include "backends/onednn/exact_map.h"
#include "backends/onednn/exit_gate.h"
#include "backends/onednn/library.h"
#include "src/backend/host_threads.h"
#include "src/base/align.h"
#include "src/ops/eval/host_tensor.h"

namespace tenon::onednn {
namespace {

using dnnl::memory;

class CallStep final : public Step {
 public:
  Call::Ready call;  // without arrangement: there are no output elements
  // Set if the call ends in a map that may have to be redone: the call without the map, the map, the sizes and the result.
  Call* exact = nullptr;
  Call::Ready again;  // `exact`, if it was taken ahead
  Redone map;
  std::unique_ptr<Sizes> sizes;
  Array result;
  int buffer = -1;  // the buffer of the result

  int64_t scratch_bytes() const override { return std::max(call.scratch_bytes(), again.scratch_bytes()); }
  // Does not count primitives and arrangements, which equal calls of all plans share.
  int64_t bytes() const override {
    const size_t packs = call.fixed.size() + again.fixed.size();
    return static_cast<int64_t>(sizeof *this + packs * (sizeof(void*) + sizeof(std::shared_ptr<char>)) +
                                (sizes ? sizeof *sizes + sizes->symbols.size() * sizeof(int64_t) : 0));
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (!call.arrangement) return {};
    TENON_TRY(call.arrangement->run(buffers, scratch, call.fixed.data()));
    if (!exact || !has_failed(map, result, buffers[buffer], on.parallel, sizes->threads)) return {};
    TENON_TRY(again.arrangement ? again.arrangement->run(buffers, scratch, again.fixed.data())
                                : run_exactly(buffers, on));
    exact_map(map, result, buffers[buffer]);
    return {};
  }

 private:
  // Makes a step and its scratch memory for this one run, since this is rare.
  Status run_exactly(void* const* buffers, const RunOn& on) const {
    TENON_ASSIGN(const std::unique_ptr<Step> step, exact->prepare(*sizes));
    const std::unique_ptr<char, void (*)(void*)> scratch(
        static_cast<char*>(
            std::aligned_alloc(kAlign, static_cast<size_t>(align_up(step->scratch_bytes() + 1)))),
        std::free);
    if (!scratch) return environment("no memory for a call of oneDNN");
    return step->run(buffers, scratch.get(), on);
  }
};

}  // namespace

std::shared_ptr<char> Call::packed(const Arrangement::Pack& pack) {
  const Array& given = pack.given;
  for (const Packed& p : packed_)
    if (p.given.operand == given.operand && p.given.offset == given.offset &&
        p.given.strides == given.strides && p.descriptor == pack.wanted)
      return p.bytes;
  const Operand& operand = spec.operands[static_cast<size_t>(given.operand)];
  char* bytes = static_cast<char*>(const_cast<void*>(operand.constant->bytes)) + given.offset;
  std::vector<char> plain_bytes;
  auto here = descriptor_of(given);
  if (!here) {
    Array plain = given;
    plain.strides = plain_strides(given.dims, false);
    plain_bytes.resize(static_cast<size_t>(plain.count() * size_of(plain.dtype)));
    copy_strided(bytes, given.strides, plain_bytes.data(), plain.strides, given.dims, size_of(given.dtype));
    bytes = plain_bytes.data();
    here = descriptor_of(plain);
  }
  std::shared_ptr<char> packed = store->take(static_cast<int64_t>(pack.wanted.get_size()));
  memory from(*here, engine(), bytes), to(pack.wanted, engine(), packed.get());
  dnnl::stream stream(engine());
  auto move = [&](memory& a, memory& b) { dnnl::reorder(a, b).execute(stream, a, b); };
  if (const auto way = plain_bytes.empty() ? halfway(given, pack.wanted) : std::nullopt) {
    memory between(*way, engine());
    move(from, between);
    move(between, to);
  } else {
    move(from, to);
  }
  stream.wait();
  packed_.push_back({given, pack.wanted, packed});
  return packed;
}

Result<Call::Ready> Call::ready(const Spec& of, const Problem& asked) {
  Ready made;
  TENON_ASSIGN(made.arrangement, arrangement_of(of, asked));
  const HostThreadLimit limit(asked.threads);
  std::lock_guard lock(mutex_);  // the first thread packs; the others wait
  try {
    for (const Arrangement::Pack& pack : made.arrangement->packs()) {
      made.packed.push_back(packed(pack));
      made.fixed.push_back(made.packed.back().get());
    }
  } catch (const dnnl::error& failure) {
    return environment(of.name + ": " + failure.what());
  }
  return made;
}

Result<std::unique_ptr<Step>> Call::prepare(const Sizes& sizes) {
  const InLibrary here;  // packing weights executes primitives
  TENON_TRY(here.status());
  auto step = std::make_unique<CallStep>();
  const Problem asked = at_sizes(spec, sizes);
  if (asked.empty) return std::unique_ptr<Step>(std::move(step));
  TENON_ASSIGN(step->call, ready(spec, asked));
  if (exact) {
    step->exact = exact.get();
    step->map = *redone(spec);
    step->sizes = std::make_unique<Sizes>(sizes);
    step->result = asked.output;
    step->buffer = spec.output.buffer;
    if (ahead_) {
      TENON_ASSIGN(step->again, ready(exact->spec, at_sizes(exact->spec, sizes)));
    }
  }
  planned(step->call.arrangement->text());
  return std::unique_ptr<Step>(std::move(step));
}

}  // namespace tenon::onednn
