// kernel: values, sizes and identity of a kernel. `sizes`: the kernel's i64 arguments, in order. Tested by
// tests/unit/jit/kernel/kernel_test.cc.
#include "jit/kernel/kernel.h"

#include <algorithm>

#include "jit/kernel/walk.h"
#include "src/base/align.h"
#include "src/base/hash.h"

namespace tenon::jit {

Ref Kernel::add_ref(DType type, std::string name) {
  names.push_back(std::move(name));
  types.push_back(type);
  return static_cast<Ref>(types.size() - 1);
}

uint64_t identity(const Kernel& kernel) { return hash_bytes(canonical_text(kernel)); }

bool can_fault(const Kernel& kernel) {
  return find_stmt(kernel.body, [](const Stmt& s) { return s.fault != 0; });
}

bool has_locals(const Kernel& kernel) {
  return std::ranges::count(kernel.buffers, Buffer::Role::local, &Buffer::role) > 0;
}

void collect_uses(const Stmt& s, std::set<Ref>& uses) {
  auto collect = [&](const Stmt& reader) { each_read(reader, [&](Ref r) { uses.insert(r); }); };
  collect(s);
  each_stmt(s.body, collect);
}

const Stmt* definition(const Block& block, Ref value) {
  return find_stmt(block, [&](const Stmt& s) { return s.result == value && s.axes.empty(); });
}

int64_t extent_value(const Extent& extent, const int64_t* sizes) {
  return extent.size < 0 ? extent.factor : extent.factor * sizes[extent.size];
}

int64_t axis_iterations(const Axis& axis, const int64_t* sizes, std::map<Ref, int64_t>* tiles) {
  const int64_t elements = axis.of == kNoRef ? extent_value(axis.extent, sizes) : tiles->at(axis.of);
  if (!axis.counts_tiles()) return elements;
  const int64_t by = extent_value(axis.by, sizes);
  TENON_CHECK(by > 0, "tiles without elements");
  if (tiles) (*tiles)[axis.var] = by;
  return (elements + by - 1) / by;
}

int64_t par_iterations(const Kernel& kernel, const int64_t* sizes, int lanes) {
  const Stmt& par = kernel.body[0];
  int64_t count = 1;
  for (size_t i = 0; i < par.axes.size(); ++i) {
    int64_t n = axis_iterations(par.axes[i], sizes, nullptr);
    if (par.simd && i + 1 == par.axes.size()) n = (n + lanes - 1) / lanes;
    count *= n;
  }
  return count;
}

int64_t scratch_bytes(const Kernel& kernel, const int64_t* sizes) {
  int64_t bytes = 0;
  for (const Buffer& buffer : kernel.buffers)
    if (buffer.role == Buffer::Role::local)
      bytes += align_up(extent_value(buffer.length, sizes) * size_of(buffer.type));
  return bytes;
}

namespace {

std::string type_list(const std::vector<DType>& types) {
  std::string text;
  for (DType t : types) text += (text.empty() ? "" : ", ") + std::string(name(t));
  return text;
}

}  // namespace

std::string_view spelling(const Op& row, DType last) {
  if (is_float(last)) return row.llvm.f;
  if (is_bool(last)) return row.llvm.b;
  return info(last).is_signed ? row.llvm.s : row.llvm.u;
}

bool calls_host(const Op& row, DType last) {
  return spelling(row, last).empty() && !row.math &&
         (is_float(last) ? row.eval != nullptr : row.eval_int != nullptr);
}

Result<DType> scalar_result_type(OpId id, const std::vector<DType>& operands) {
  const Op& row = op(id);
  std::string call = std::string(row.name) + "(" + type_list(operands) + ")";
  if (row.kind != Kind::map || !row.attr_specs.empty() || !row.type)
    return invalid(call + ": not a map row without attributes");
  int count = static_cast<int>(operands.size());
  if (count == 0 || (row.arity >= 0 && (count > row.arity || count < row.arity - row.optional)))
    return invalid(call + ": takes " + std::to_string(row.arity) + " operands");
  Graph graph;
  Node node;
  node.op = id;
  for (DType type : operands) {
    node.inputs.push_back(static_cast<ValueId>(graph.nodes.size()));
    graph.nodes.emplace_back().type.dtype = type;
  }
  InferContext context{graph, node, *graph.dims};
  TENON_ASSIGN(DType result, row.type(context));
  const DType last = operands.back();
  const bool one_type = result == last && std::ranges::all_of(operands, [&](DType t) { return t == last; });
  if (spelling(row, last).empty() && !row.math && !(one_type && calls_host(row, last)))
    return invalid(call + ": has no scalar code");
  return result;
}

std::optional<Scalar> combine_identity(OpId combine, DType type) {
  for (int id = 0; id < op_count(); ++id) {
    const Op& row = op(static_cast<OpId>(id));
    if (!row.identity || row.combine != op(combine).name) continue;
    return identity_of(row, type);
  }
  return std::nullopt;
}

}  // namespace tenon::jit
