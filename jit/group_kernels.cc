// See group_kernels.h.
#include "jit/group_kernels.h"

#include <algorithm>
#include <map>
#include <set>

#include "jit/kernel/walk.h"
#include "jit/pipeline.h"
#include "jit/repeated_work.h"
#include "jit/schedule/schedule.h"
#include "src/base/align.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {

Status has_loops(const Graph& graph, ValueId v) {
  const Op& row = op(graph.node(v).op);
  // Kernels hold 16-bit floats as f32, so the bits of the 16-bit type are not available.
  if (row.name == "bitcast")
    for (DType t : {graph.type(v).dtype, graph.type(graph.node(v).inputs[0]).dtype})
      if (t != compute_type(t))
        return unsupported("the bits of a 16-bit float are not those of a kernel's value");
  if (row.kind == Kind::map || row.kind == Kind::reduce || row.kind == Kind::scan || row.kind == Kind::move ||
      row.kind == Kind::input)
    return {};
  return unsupported(std::string(row.name) + " has no loops of its own");
}

Status covers(const Graph& graph, const Uses& uses, std::span<const ValueId> members, Target target) {
  constexpr size_t kMostStreams = 24;
  constexpr size_t kMostWalked = 1024;  // lowering recurses into operands
  if (members.size() > kMaxGroupNodes) return unsupported("the group is full");
  const std::vector<ValueId> outputs = outputs_of(graph, uses, members);
  size_t walked = 0;
  const size_t streams = outputs.size() + inputs_of(graph, members, &walked).size();
  // A concatenation has a kernel for each of its operands, with the streams of this operand. A single node has no alternative.
  const bool pieces =
      std::ranges::any_of(members, [&](ValueId v) { return graph.node(v).op == ops::concat; });
  const auto too_many = [&](size_t count) { return members.size() > 1 && count > kMostStreams; };
  if (!pieces && too_many(streams)) return unsupported("more than 24 streams");
  if (members.size() > 1 && walked > kMostWalked) return unsupported("more than 1024 nodes and views");
  for (ValueId v : members) {
    const Node& n = graph.node(v);
    if (target == Target::gpu && op(n.op).kind == Kind::map && !n.inputs.empty() &&
        calls_host(op(n.op), graph.type(n.inputs.back()).dtype))
      return unsupported(std::string(op(n.op).name) + " is computed by the host");
  }
  auto strides = [&](ValueId v) -> std::optional<Dims> {
    const bool member = std::binary_search(members.begin(), members.end(), v);
    if (!member && is_inlined(graph, v)) return std::nullopt;
    return stored_strides(graph, v);
  };
  TENON_ASSIGN(const auto kernels, make_kernels({graph, members, outputs, strides, target}, /*trial=*/true));
  const auto is_value = [](const BufferId& b) { return std::holds_alternative<ValueId>(b); };
  for (const LoweredKernel& k : kernels)
    if (pieces && too_many(static_cast<size_t>(std::ranges::count_if(k.buffers, is_value))))
      return unsupported("more than 24 streams");
  if (target == Target::cpu && members.size() > 1)
    if (const char* why = repeated_work({graph, uses, members, outputs, kernels, pieces}))
      return unsupported(why);
  return {};
}

Status may_join(const Graph& graph, const Uses& uses, std::span<const ValueId> members, ValueId v,
                Target target) {
  TENON_TRY(has_loops(graph, v));
  std::vector<ValueId> all(members.begin(), members.end());
  all.insert(std::lower_bound(all.begin(), all.end(), v), v);
  return covers(graph, uses, all, target);
}

std::vector<std::vector<int>> positions(std::span<const LoweredKernel> kernels,
                                        std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  auto position = [&](BufferId b) {
    if (std::holds_alternative<TempId>(b)) return -1;
    const ValueId v = std::get<ValueId>(b);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == v) return static_cast<int>(i);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] == v) return static_cast<int>(inputs.size() + i);
    TENON_CHECK(false, "a kernel reads a value its group does not list");
    return -1;
  };
  std::vector<std::vector<int>> result;
  for (const LoweredKernel& k : kernels) {
    std::vector<int>& list = result.emplace_back();
    for (BufferId b : k.buffers) list.push_back(position(b));
  }
  return result;
}

namespace {

struct Accesses {
  const Stmt* first = nullptr;
  const Stmt* loop = nullptr;  // around the first access
  int count = 0;
};

Accesses accesses_of(const Kernel& kernel, int buffer) {
  Accesses found;
  each_stmt(kernel.body, [&](const Stmt& s, const Around& around) {
    if (is_access(s) && s.buffer == buffer && found.count++ == 0) found.first = &s, found.loop = around.loop;
  });
  return found;
}

// Whether each element of `in` is read once, in the same iteration and at the same address as the only write
// of `out`, before this write.
bool reads_then_writes(const Kernel& kernel, int in, int out) {
  const Accesses read = accesses_of(kernel, in), write = accesses_of(kernel, out);
  return read.count == 1 && write.count == 1 && read.loop == write.loop && read.first < write.first &&
         size_of(kernel.buffers[in].type) == size_of(kernel.buffers[out].type) &&
         read.first->address == write.first->address;
}

bool is_copy(const Kernel& kernel) {
  if (kernel.buffers.size() != 2 || kernel.buffers[0].type != kernel.buffers[1].type ||
      kernel.buffers[0].role != Buffer::Role::in || !reads_then_writes(kernel, 0, 1))
    return false;
  return accesses_of(kernel, 1).first->args[0] == accesses_of(kernel, 0).first->result;
}

// Whether, in a group with several outputs, one kernel uses both values and reads each element right before
// it writes it.
bool dies_into(std::span<const LoweredKernel> kernels, ValueId in, ValueId out) {
  auto uses_any = [&](const LoweredKernel& k) { return k.uses(in) || k.uses(out); };
  const auto only = std::ranges::find_if(kernels, uses_any);
  if (std::ranges::count_if(kernels, uses_any) != 1 || !only->uses(in) || !only->uses(out)) return false;
  auto number = [&](ValueId v) {
    return static_cast<int>(std::ranges::find(only->buffers, BufferId(v)) - only->buffers.begin());
  };
  return reads_then_writes(only->kernel, number(in), number(out));
}

}  // namespace

std::vector<std::pair<int, int>> inplace(std::span<const LoweredKernel> kernels,
                                         std::span<const ValueId> inputs, std::span<const ValueId> outputs) {
  std::vector<std::pair<int, int>> pairs;
  if (outputs.size() > 1) {
    for (size_t o = 0; o < outputs.size(); ++o)
      for (size_t i = 0; i < inputs.size(); ++i)
        if (dies_into(kernels, inputs[i], outputs[o]))
          pairs.push_back({static_cast<int>(o), static_cast<int>(i)});
    return pairs;
  }
  if (outputs.empty()) return pairs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool safe = true, written = false;
    for (const LoweredKernel& k : kernels) {
      const bool writes = k.uses(outputs[0]);
      // A kernel that only reads, such as one that adds parts up, must not follow one that writes.
      if (k.uses(inputs[i])) safe = safe && std::ranges::count(k.inplace, inputs[i]) && (writes || !written);
      written = written || writes;
    }
    if (safe) pairs.push_back({0, static_cast<int>(i)});
  }
  return pairs;
}

Arguments arguments(const LoweredKernel& kernel, std::span<const int> positions,
                    FunctionRef<int64_t(Dim)> eval) {
  Arguments all;
  std::vector<int64_t> offsets;
  for (const Temp& t : kernel.temps) {
    offsets.push_back(all.temps);
    all.temps += align_up(eval(t.length) * size_of(t.type));
  }
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const bool writes = kernel.kernel.buffers[b].role == Buffer::Role::out;
    const auto* temp = std::get_if<TempId>(&kernel.buffers[b]);
    if (!temp) {
      all.list.push_back({positions[b], 0, 0, writes});
      continue;
    }
    const auto t = static_cast<size_t>(*temp);
    all.list.push_back(
        {-1, offsets[t], eval(kernel.temps[t].length) * size_of(kernel.temps[t].type), writes});
  }
  all.writes_again = kernel.writes_again;
  all.copies = is_copy(kernel.kernel);
  return all;
}

std::vector<RowLength> unknown_rows(std::span<const LoweredKernel> kernels) {
  std::vector<RowLength> rows;
  for (const LoweredKernel& k : kernels) {
    const auto is_fold = [](const Stmt& s) { return s.kind == Stmt::Kind::reduce; };
    const auto kind = find_stmt(k.kernel.body, is_fold) ? Stmt::Kind::reduce : Stmt::Kind::loop;
    std::map<Ref, Extent> extents;  // by the variable of an axis
    each_stmt(k.kernel.body, [&](const Stmt& s) {
      for (const Axis& a : s.axes) extents[a.var] = a.of == kNoRef ? a.extent : extents[a.of];
      if (!s.simd || s.kind != kind) return;
      const Extent& e = extents[s.axes.back().var];
      if (e.size >= 0 && !k.sizes[e.size].is_const())
        rows.push_back({e.factor, k.sizes[e.size], k.narrow_below});
    });
  }
  return rows;
}

std::string print(std::span<const LoweredKernel> kernels) {
  std::string text;
  for (const LoweredKernel& k : kernels) text += print(k.kernel);
  return text;
}

}  // namespace tenon::jit
