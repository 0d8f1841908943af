// See split_walks.h.
#include "jit/transform/cpu/split_walks.h"

#include <algorithm>
#include <set>

#include "jit/kernel/walk.h"
#include "jit/schedule/schedule.h"
#include "jit/transform/kernel_edit.h"
#include "jit/transform/kernel_fission.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;

bool is_walk(const Stmt& s) { return !s.axes.empty(); }
Block& body(LoweredKernel& k) { return k.kernel.body[0].body; }

// Whether the kernel walks more than once along few columns, each time over rows that are worth parts.
bool is_worth_it(const LoweredKernel& k, DimTable& dims) {
  const Stmt& par = k.kernel.body[0];
  if (!par.simd || par.axes.size() != 1 || has_locals(k.kernel)) return false;
  const Dim columns = dim_of(par.axes[0].extent, k, dims);
  if (!are_few_columns(columns)) return false;
  int walks = 0;
  for (const Stmt& s : par.body) {
    if (!is_walk(s)) continue;
    if (s.simd || s.axes.size() != 1 || find_stmt(s.body, [](const Stmt& i) { return i.kind == K::scan; }))
      return false;
    if (reduction_part({columns}, dim_of(s.axes[0].extent, k, dims), /*columns=*/true) == 0) return false;
    ++walks;
  }
  return walks > 1 && std::ranges::any_of(par.body, [](const Stmt& s) { return s.kind == K::reduce; });
}

// Puts each statement behind the last walk whose results it needs, so that a walk comes right after a cut.
void gather(LoweredKernel& k) {
  std::vector<int> walk_of(k.kernel.types.size(), 0);  // by Ref: the walk after which the value is known
  std::vector<std::pair<int, Stmt>> placed;
  int walks = 0;
  for (Stmt& s : body(k)) {
    std::set<Ref> uses;
    collect_uses(s, uses);
    int at = 0;
    for (Ref r : uses) at = std::max(at, walk_of[r]);
    if (is_walk(s)) at = walks++;
    each_result(s, [&](Ref r) { walk_of[r] = at; });
    placed.emplace_back(at, std::move(s));
  }
  std::ranges::stable_sort(placed, {}, [](const auto& p) { return p.first; });
  for (size_t i = 0; i < placed.size(); ++i) body(k)[i] = std::move(placed[i].second);
}

// Runs the rows of a loop in parallel, if nothing else in the kernel writes.
void loop_to_par(LoweredKernel& k) {
  Stmt& par = k.kernel.body[0];
  const auto loop = std::ranges::find_if(par.body, is_walk);
  if (loop->kind != K::loop || std::ranges::count(par.body, K::store, &Stmt::kind)) return;
  par.axes.insert(par.axes.begin(), loop->axes[0]);
  Block rest = std::move(loop->body);
  par.body.erase(loop);
  std::ranges::move(rest, std::back_inserter(par.body));
}

// Every input may share memory with the output of a later kernel, unless this kernel writes an output itself.
void allow_inplace(LoweredKernel& k) {
  std::vector<ValueId> inputs;
  for (size_t b = 0; b < k.buffers.size(); ++b) {
    const auto* v = std::get_if<ValueId>(&k.buffers[b]);
    if (v && k.kernel.buffers[b].role == Buffer::Role::out) return;
    if (v) inputs.push_back(*v);
  }
  k.inplace = std::move(inputs);
}

}  // namespace

std::vector<LoweredKernel> split_walks(const LoweredKernel& lowered, DimTable& dims) {
  if (!is_worth_it(lowered, dims)) return {lowered};
  LoweredKernel rest = lowered;
  gather(rest);
  std::vector<LoweredKernel> pieces;
  for (;;) {
    const auto first = std::ranges::find_if(body(rest), is_walk);
    const auto next = std::find_if(first + 1, body(rest).end(), is_walk);
    if (next == body(rest).end()) break;
    auto halves = cut_before(rest, dims, static_cast<size_t>(next - body(rest).begin()));
    if (!halves) return {lowered};
    pieces.push_back(std::move(halves->first));
    rest = std::move(halves->second);
  }
  pieces.push_back(std::move(rest));
  for (LoweredKernel& k : pieces) {
    loop_to_par(k);
    allow_inplace(k);
  }
  return pieces;
}

}  // namespace tenon::jit
