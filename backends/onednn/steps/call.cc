// See call.h.
#include "backends/onednn/steps/call.h"

#include <algorithm>

#include "backends/onednn/exit_gate.h"
#include "backends/onednn/library.h"
#include "backends/onednn/steps/depthwise.h"
#include "backends/onednn/steps/exact_map.h"
#include "backends/onednn/steps/volumes.h"
#include "src/backend/host_threads.h"
#include "src/base/align.h"
#include "src/ops/eval/host_tensor.h"

namespace tenon::onednn {

using dnnl::memory;

class Call::LibraryStep final : public Step {
 public:
  Ready call;  // without arrangement: there are no output elements
  // Set if the call ends in a map that may have to be redone: the call without the map, the map and the result.
  Repeated exact;
  Redone map;
  Array result;
  int buffer = -1;  // the buffer of the result
  int threads = 1;

  int64_t scratch_bytes() const override { return std::max(call.scratch_bytes(), exact.scratch_bytes()); }
  // Equal calls of all plans share an arrangement, and each counts its part.
  int64_t bytes() const override {
    const int64_t shared = call.arrangement ? call.arrangement->bytes() / call.arrangement.use_count() : 0;
    return static_cast<int64_t>(sizeof *this +
                                call.fixed.size() * (sizeof(void*) + sizeof(std::shared_ptr<char>))) +
           shared + exact.bytes();
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    if (!call.arrangement) return {};
    TENON_TRY(call.arrangement->run(buffers, scratch, call.fixed.data()));
    if (!exact || !has_failed(map, result, buffers[buffer], on.parallel, threads)) return {};
    TENON_TRY(exact.run(buffers, scratch, on));
    exact_map(map, result, buffers[buffer]);
    return {};
  }
};

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

Result<std::unique_ptr<Call::LibraryStep>> Call::library_step(const Problem& asked, const Sizes& sizes) {
  auto step = std::make_unique<LibraryStep>();
  if (asked.empty) return step;
  TENON_ASSIGN(step->call, ready(spec, asked));
  if (exact) {
    TENON_ASSIGN(step->exact, Repeated::of(*exact, sizes, ahead_));
    step->map = *redone(spec);
    step->result = asked.output;
    step->buffer = spec.output.buffer;
    step->threads = sizes.threads;
  }
  return step;
}

Result<std::unique_ptr<Step>> Call::three_step(const WindowsOfThree& problem, const Problem& asked,
                                               const Sizes& sizes) {
  TENON_ASSIGN(Repeated otherwise, Repeated::of(*this, sizes, ahead_));
  const std::string text = title(asked, "winograd", spec.name);
  if (problem.of_weights) {
    planned(text);
    return weight_gradient_step(problem, asked.threads, std::move(otherwise));
  }
  const winograd::Convolution convolution(problem.shape, asked.threads);
  std::shared_ptr<char> windows;
  if (const auto& constant = spec.operands[1].constant)
    windows = windows_.of(problem, convolution, constant->bytes, *store);
  planned(text + (windows ? ", weights packed" : "") + post_op_names(spec, asked.bias.present()));
  return winograd_step(problem, convolution, std::move(windows), std::move(otherwise));
}

Result<std::unique_ptr<Step>> Call::prepare_library(const Sizes& sizes) {
  const InLibrary here;  // packing weights executes primitives
  TENON_TRY(here.status());
  TENON_ASSIGN(std::unique_ptr<LibraryStep> step, library_step(at_sizes(spec, sizes), sizes));
  return std::unique_ptr<Step>(std::move(step));
}

Result<std::unique_ptr<Step>> Call::prepare(const Sizes& sizes) {
  const InLibrary here;
  TENON_TRY(here.status());
  const Problem asked = at_sizes(spec, sizes);
  if (!asked.empty) {
    if (const auto three = windows_of_three(spec, asked)) return three_step(*three, asked, sizes);
    if (const auto depthwise = depthwise_windows(asked)) {
      planned(title(asked, "depthwise", spec.name));
      return depthwise_step(*depthwise, asked.threads);
    }
    if (const auto volumes = depthwise_volumes(asked)) {
      planned(title(asked, "depthwise", spec.name));
      return depthwise_step(*volumes, asked.threads);
    }
  }
  TENON_ASSIGN(std::unique_ptr<LibraryStep> step, library_step(asked, sizes));
  if (step->call.arrangement) planned(step->call.arrangement->text());
  return std::unique_ptr<Step>(std::move(step));
}

}  // namespace tenon::onednn
