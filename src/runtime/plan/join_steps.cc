// See join_steps.h.
#include "src/runtime/plan/join_steps.h"

#include <algorithm>

namespace tenon {

size_t last_of_row(const PlanSource& source, size_t first) {
  const auto joiner = source.executables[first]->joiner();
  size_t last = first;
  if (!joiner) return last;
  while (last + 1 < source.executables.size() && source.executables[last + 1]->joiner() == joiner) ++last;
  return last;
}

namespace {

// The spaces of inputs and outputs. 0: the workspace.
class Spaces {
 public:
  Spaces(int inputs, std::span<const std::pair<int, int>> in_place) : inputs_(inputs) {
    for (auto [o, i] : in_place) {
      const auto output = static_cast<size_t>(1 + inputs + o);
      while (same_as_.size() <= output) same_as_.push_back(static_cast<int>(same_as_.size()));
      same_as_[static_cast<size_t>(root(1 + inputs + o))] = root(1 + i);
      takes_input_.resize(std::max(takes_input_.size(), static_cast<size_t>(o) + 1));
      takes_input_[static_cast<size_t>(o)] = true;
    }
  }
  BufferSpan span(const BufferRef& ref, int64_t bytes) const {
    switch (ref.kind) {
      case BufferRef::Kind::input: return {root(1 + ref.index), 0, 0, true};
      case BufferRef::Kind::output: return {root(1 + inputs_ + ref.index), 0, 0, takes_input(ref.index)};
      case BufferRef::Kind::workspace: return {0, ref.offset, ref.offset + bytes};
      case BufferRef::Kind::constant: break;
    }
    return {};
  }

 private:
  int root(int space) const {
    while (static_cast<size_t>(space) < same_as_.size() && same_as_[static_cast<size_t>(space)] != space)
      space = same_as_[static_cast<size_t>(space)];
    return space;
  }
  bool takes_input(int output) const {
    return static_cast<size_t>(output) < takes_input_.size() && takes_input_[static_cast<size_t>(output)];
  }
  const int inputs_;
  std::vector<int>
      same_as_;  // per space: itself, or another that shares its memory; later spaces: themselves
  std::vector<bool> takes_input_;
};

}  // namespace

std::vector<BufferSpan> spans_of(std::span<const BufferRef> buffers, std::span<const int64_t> bytes,
                                 int inputs, std::span<const std::pair<int, int>> in_place) {
  const Spaces spaces(inputs, in_place);
  std::vector<BufferSpan> spans;
  spans.reserve(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b) spans.push_back(spaces.span(buffers[b], bytes[b]));
  return spans;
}

void join_steps(const PlanSource& source, std::span<PlannedStep> steps, std::span<const BufferSpan> spans,
                int threads, std::vector<std::unique_ptr<Step>>& owned, std::vector<PlannedStep>& joined) {
  if (steps.empty()) return;
  const uint32_t first_buffer = steps.front().first_buffer;
  // One step for those of a row; its step is null if that gains nothing.
  const auto join = [&](std::span<const PlannedStep> row) {
    PlannedStep whole = row.front();
    whole.buffer_count = row.back().first_buffer + row.back().buffer_count - whole.first_buffer;
    whole.step = nullptr;
    const auto joiner = source.executables[static_cast<size_t>(whole.executable)]->joiner();
    if (!joiner) return whole;
    std::vector<Executable::JoinedPart> parts;
    for (const PlannedStep& s : row)
      parts.push_back({s.step, static_cast<int>(s.first_buffer - whole.first_buffer)});
    const auto of_row = spans.subspan(whole.first_buffer - first_buffer, whole.buffer_count);
    if (auto made = joiner(parts, of_row, threads)) {
      whole.step = made.get();
      owned.push_back(std::move(made));
    }
    return whole;
  };
  for (size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    const size_t last = last_of_row(source, static_cast<size_t>(steps[begin].executable));
    for (end = begin + 1; end < steps.size() && static_cast<size_t>(steps[end].executable) <= last;) ++end;
    const std::span<PlannedStep> row = steps.subspan(begin, end - begin);
    const PlannedStep whole = row.size() > 1 ? join(row) : PlannedStep();
    for (PlannedStep& s : row)
      if (const PlannedStep alone = join(std::span(&s, 1)); alone.step) s = alone;
    if (whole.step)
      joined.push_back(whole);
    else
      joined.insert(joined.end(), row.begin(), row.end());
  }
}

}  // namespace tenon
