// See call.h.
#include "backends/onednn/call.h"

#include "backends/onednn/exit_gate.h"
#include "backends/onednn/library.h"

namespace tenon::onednn {
namespace {

using dnnl::memory;

class CallStep final : public Step {
 public:
  std::shared_ptr<const Layout> layout;  // null: no output elements
  std::vector<memory> kept;              // packed weights, as long as the step lives
  std::vector<void*> fixed;              // their addresses

  int64_t scratch_bytes() const override { return layout ? layout->scratch_bytes() : 0; }
  // Primitives and layouts are the library's, shared by all plans that ask for the same.
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof *this + fixed.size() * (sizeof(void*) + sizeof(memory)));
  }
  void run(void* const* buffers, char* scratch, Parallel&) const override {
    if (layout) layout->run(buffers, scratch, fixed.data());
  }
};

}  // namespace

std::string Call::describe() const {
  std::lock_guard lock(mutex_);
  return latest_ ? latest_->text() : fallback;
}

const memory& Call::packed(const Layout::Pack& pack) {
  const Array& given = pack.given;
  for (const Packed& p : packed_)
    if (p.operand == given.operand && p.memory.get_desc() == pack.wanted) return p.memory;
  const Operand& operand = recipe.operands[static_cast<size_t>(given.operand)];
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
  memory from(*here, engine(), bytes), to(pack.wanted, engine());
  dnnl::stream stream(engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return packed_.emplace_back(given.operand, to).memory;
}

Result<std::unique_ptr<Step>> Call::prepare(const Sizes& sizes) {
  const InLibrary here;  // it packs weights
  auto step = std::make_unique<CallStep>();
  const Problem asked = at_sizes(recipe, sizes);
  if (asked.empty) return std::unique_ptr<Step>(std::move(step));
  TENON_ASSIGN(step->layout, layout_of(recipe, asked));
  std::lock_guard lock(mutex_);  // packed once, whoever comes first
  try {
    for (const Layout::Pack& pack : step->layout->packs()) {
      step->kept.push_back(packed(pack));
      step->fixed.push_back(step->kept.back().get_data_handle());
    }
  } catch (const dnnl::error& failure) {
    return environment(recipe.name + ": " + failure.what());
  }
  latest_ = step->layout;
  return std::unique_ptr<Step>(std::move(step));
}

}  // namespace tenon::onednn
