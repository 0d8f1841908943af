// See cpu.h. A group is lowered to kernels, and all kernels of a program are compiled in one batch. Where lanes run along rows of unknown
// length, a second version of the kernels serves plans of short rows. A step calls each of its
// kernels over the range of the par nest. If there is enough work, contiguous parts of the range run on several threads. Kernels
// that do not wait for each other, also those of several steps in a row, run in one parallel region (regions.h).
#include "backends/cpu/cpu.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "backends/cpu/regions.h"
#include "jit/group_kernels.h"
#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/pipeline.h"
#include "jit/schedule/schedule.h"
#include "src/base/align.h"
#include "src/base/threads/immortal.h"
#include "src/ir/builder.h"
#include "src/ir/group.h"
#include "src/ir/outline.h"
#include "src/ops/bodies/bodies.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/indices.h"

namespace tenon {
namespace {

using Sentences = std::shared_ptr<const std::vector<std::string>>;

// The node that the message of a fault names. A check of indices (the pass early_checks) speaks for a node that reads them.
const Node& blamed(const Graph& graph, const Uses& uses, ValueId v) {
  if (graph.node(v).op == ops::index_in)
    for (ValueId user : uses.users(v))
      if (indexed_size(graph, graph.node(user))) return graph.node(user);
  return graph.node(v);
}

// The error message for each fault number of a kernel; null if the kernel cannot fault.
Sentences sentences_of(const Graph& graph, const Uses& uses, std::span<const ValueId> faults) {
  if (faults.empty()) return nullptr;
  std::vector<std::string> sentences;
  for (ValueId v : faults) {
    const Node& n = blamed(graph, uses, v);
    const std::string_view own =
        op(n.op).fault.what;  // empty: the fault is an index of the node out of range
    sentences.push_back(describe(graph, n) + ": " +
                        std::string(own.empty() ? op(ops::index_in).fault.what : own));
  }
  return std::make_shared<const std::vector<std::string>>(std::move(sentences));
}

// The cost of a call to a host function for one lane, in vector instructions.
constexpr int64_t kHostCall = 100;

// The number of vector operations in one iteration of the par nest, inner loops counted with their extents.
int64_t work_of(const jit::Block& block, const int64_t* sizes, int lanes,
                std::map<jit::Ref, int64_t>& tiles) {
  int64_t work = 0;
  for (const jit::Stmt& s : block) {
    if (s.axes.empty()) {
      const bool calls = s.kind == jit::Stmt::Kind::op && jit::calls_host(op(s.op), s.type);
      work += calls ? kHostCall * lanes : 1;
      continue;
    }
    int64_t trips = 1;
    for (const jit::Axis& a : s.axes) trips *= jit::axis_iterations(a, sizes, &tiles);
    if (s.simd) trips = (trips + lanes - 1) / lanes;
    work += trips * work_of(s.body, sizes, lanes, tiles);
  }
  return work;
}

// Runs the launches of one executable one by one, or the launches of several in common regions.
class KernelStep final : public Step {
 public:
  explicit KernelStep(std::vector<Launch> launches)
      : launches_(std::move(launches)), regions_(Regions::one_by_one(launches_)) {}
  explicit KernelStep(Regions joined) : regions_(std::move(joined)) {}

  std::span<const Launch> launches() const { return launches_; }  // none, if steps have been joined
  int64_t scratch_bytes() const override { return regions_.scratch_bytes(); }
  int64_t bytes() const override {
    size_t sum = sizeof *this + launches_.capacity() * sizeof(Launch);
    for (const Launch& l : launches_)
      sum += l.sizes.capacity() * sizeof(int64_t) + l.arguments.list.capacity() * sizeof(l.arguments.list[0]);
    return static_cast<int64_t>(sum) + regions_.bytes();
  }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    return regions_.run(buffers, scratch, on);
  }

 private:
  std::vector<Launch> launches_;
  Regions regions_;
};

std::unique_ptr<Step> join(std::span<const Executable::JoinedPart> parts, std::span<const BufferSpan> spans,
                           int threads) {
  std::vector<PlacedLaunch> launches;
  for (size_t i = 0; i < parts.size(); ++i)
    for (const Launch& l : static_cast<const KernelStep&>(*parts[i].step).launches())
      launches.push_back({&l, static_cast<int>(i), parts[i].first_buffer});
  if (threads == 1 || launches.size() < 2) return nullptr;
  const size_t count = launches.size();
  Regions regions(std::move(launches), spans, threads);
  if (regions.count() == count) return nullptr;
  return std::make_unique<KernelStep>(std::move(regions));
}

// Kernels that compute a group one after the other.
struct Loops {
  std::vector<jit::LoweredKernel> kernels;
  std::vector<std::shared_ptr<const jit::Code>> code;
  std::vector<std::vector<int>>
      positions;  // per kernel and buffer: the position in the step's buffer list; -1: a temporary
};

// The kernels of a group. Groups of equal outlines share them. `any` runs at all sizes. `short_rows` has lanes across rows and serves
// plans in which all `rows` of `any` are short. It may have no kernels.
struct Versions {
  Loops any, short_rows;
  std::vector<jit::RowLength> rows;

  bool has_short_rows(const Sizes& sizes) const {
    return !short_rows.kernels.empty() && std::ranges::all_of(rows, [&](const jit::RowLength& r) {
      return r.factor * sizes.eval(r.size) < r.narrow_below;
    });
  }
};

class KernelGroup final : public Executable {
 public:
  std::shared_ptr<Versions> versions;
  std::vector<Sentences> faults, faults_of_short_rows;  // per kernel
  jit::Isa isa;

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    const bool short_rows = versions->has_short_rows(sizes);
    const Loops& loops = short_rows ? versions->short_rows : versions->any;
    std::vector<Launch> launches;
    launches.reserve(loops.kernels.size());
    for (size_t k = 0; k < loops.kernels.size(); ++k) {
      const jit::LoweredKernel& lowered = loops.kernels[k];
      Launch l;
      l.function = loops.code[k]->function;
      l.faults = (short_rows ? faults_of_short_rows : faults)[k];
      l.sizes = sizes.eval(lowered.sizes);
      l.arguments = jit::arguments(lowered, loops.positions[k], [&](Dim d) { return sizes.eval(d); });
      const int width = jit::lanes(isa);
      l.iterations = jit::par_iterations(lowered.kernel, l.sizes.data(), width);
      l.scratch = align_up(jit::scratch_bytes(lowered.kernel, l.sizes.data()));
      const jit::Stmt& par = lowered.kernel.body.back();
      std::map<jit::Ref, int64_t> tiles;
      for (const jit::Axis& a : par.axes) jit::axis_iterations(a, l.sizes.data(), &tiles);
      const int64_t work = work_of(par.body, l.sizes.data(), width, tiles);
      const int64_t share = jit::min_iterations_per_thread(work);
      l.work = l.iterations * work;
      l.threads = static_cast<int>(std::clamp<int64_t>(l.iterations / share, 1, sizes.threads));
      if (l.iterations == 0) continue;
      launches.push_back(std::move(l));
    }
    return std::unique_ptr<Step>(std::make_unique<KernelStep>(std::move(launches)));
  }
  Joiner joiner() const override { return join; }
  std::string describe() const override { return jit::print(versions->any.kernels); }
  int kernel_count() const override { return static_cast<int>(versions->any.kernels.size()); }
  bool may_fail() const override {
    return std::ranges::any_of(versions->any.kernels,
                               [](const jit::LoweredKernel& k) { return !k.faults.empty(); });
  }
};

// Whether lanes along the channels of a group, which are innermost, would take more time than lanes along all channels. With 40 channels in
// each of 32 groups, 16x16 pixels take 0.8 of the time with lanes along all channels, with 64 channels in each of 20 groups 1.2. The groups
// of an unknown number of channels are taken to be narrow if there are several.
bool has_narrow_groups(const Graph& graph, const Node& node) {
  constexpr int64_t kFewChannels = 48;
  if (node.op != ops::group_norm || attr_as<std::string>(node, "layout") != "channels_last") return false;
  const Dim groups = attr_as<Dim>(node, "groups");
  const auto each = graph.dims->divide(node.type.shape.back(), groups);
  return each && (each->is_const() ? each->value() <= kFewChannels : groups != Dim(1));
}

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  bool runs_loops() const override { return true; }

  Bid bid(const Graph& graph, ValueId v) const override {
    if (has_narrow_groups(graph, graph.node(v))) return {true, 1, "channels are averaged before groups"};
    return Bid::at(1, "runs as loops", jit::has_loops(graph, v));
  }
  ValueId legalize(Builder& b, Node node) const override {
    return has_narrow_groups(b.graph(), node) ? bodies::group_norm_by_channels(b, node)
                                              : b.add(std::move(node));
  }

  Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
            ValueId v) const override {
    return Bid::at(1, "one schedule covers it", jit::may_join(graph, uses, members, v));
  }

  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    const Uses uses(g);
    const jit::Isa isa = jit::host_isa();
    const auto strides = [&](ValueId v) { return context.strides_of(v); };
    const Outlines outlines(g, uses, strides);
    struct First {  // the first group of an outline
      std::shared_ptr<Versions> versions;
      const KernelGroup* group = nullptr;
      std::vector<ValueId> values;  // as from Outlines::of()
    };
    std::unordered_map<std::string, First> firsts;
    std::vector<Loops*> distinct;
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto group = std::make_unique<KernelGroup>();
      group->isa = isa;
      std::vector<ValueId> values;
      First& first = firsts[outlines.of(members, &values)];
      if (!first.group) {
        group->inputs = inputs_of(g, members);
        group->outputs = outputs_of(g, uses, members);
        TENON_ASSIGN(first.versions,
                     versions_of({g, members, group->outputs, strides}, *group, context.for_short_rows));
        group->inplace = in_place(*first.versions, *group);
        distinct.push_back(&first.versions->any);
        distinct.push_back(&first.versions->short_rows);
        first.group = group.get();
        first.values = values;
      }
      // The value of this group that stands where `v` stands in the first one.
      const auto mine = [&](ValueId v) {
        return values[std::ranges::find(first.values, v) - first.values.begin()];
      };
      if (first.group != group.get()) {
        for (ValueId v : first.group->inputs) group->inputs.push_back(mine(v));
        for (ValueId v : first.group->outputs) group->outputs.push_back(mine(v));
        group->inplace = first.group->inplace;
      }
      const auto faults_of = [&](const Loops& loops) {
        std::vector<Sentences> list;
        for (const jit::LoweredKernel& k : loops.kernels) {
          std::vector<ValueId> faults;
          for (ValueId v : k.faults) faults.push_back(mine(v));
          list.push_back(sentences_of(g, uses, faults));
        }
        return list;
      };
      group->faults = faults_of(first.versions->any);
      group->faults_of_short_rows = faults_of(first.versions->short_rows);
      group->versions = first.versions;
      built.push_back(std::move(group));
    }
    std::vector<const jit::Kernel*> kernels;
    for (const Loops* loops : distinct)
      for (const auto& k : loops->kernels) kernels.push_back(&k.kernel);
    int compiled = 0;
    TENON_ASSIGN(auto code, jit::Compiler::get().compile(kernels, isa, &compiled));
    if (!built.empty()) built[0]->kernels_compiled = compiled;
    auto next = code.begin();
    for (Loops* loops : distinct) {
      const auto end = next + static_cast<ptrdiff_t>(loops->kernels.size());
      loops->code.assign(std::move_iterator(next), std::move_iterator(end));
      next = end;
    }
    return built;
  }

  Result<std::string> run_kernel_pass(std::string_view pass, std::string_view kernel) const override {
    return jit::run_kernel_pass(pass, kernel);
  }
  std::string describe() const override { return "LLVM, " + std::string(jit::isa_name(jit::host_isa())); }

 private:
  static Result<std::shared_ptr<Versions>> versions_of(jit::LowerInput in, const KernelGroup& group,
                                                       bool for_short_rows) {
    auto versions = std::make_shared<Versions>();
    TENON_ASSIGN(versions->any, lowered(in, group));
    versions->rows = jit::unknown_rows(versions->any.kernels);
    if (versions->rows.empty() || !for_short_rows) return versions;
    in.short_rows = true;
    if (auto loops = lowered(in, group); loops.ok() && jit::unknown_rows(loops->kernels).empty())
      versions->short_rows = std::move(*loops);
    return versions;
  }

  // The pairs of an output and an input that may share memory in both versions.
  static std::vector<std::pair<int, int>> in_place(const Versions& versions, const KernelGroup& group) {
    auto pairs = jit::inplace(versions.any.kernels, group.inputs, group.outputs);
    if (versions.short_rows.kernels.empty()) return pairs;
    const auto others = jit::inplace(versions.short_rows.kernels, group.inputs, group.outputs);
    std::erase_if(pairs, [&](const auto& pair) { return !std::ranges::count(others, pair); });
    return pairs;
  }

  static Result<Loops> lowered(const jit::LowerInput& in, const KernelGroup& group) {
    Loops loops;
    auto kernels = jit::make_kernels(in);
    if (!kernels.ok()) return kernels.status().at("group of " + in.graph.value_name(in.members.back()));
    loops.kernels = std::move(*kernels);
    for (const auto& k : loops.kernels) {
      if (k.buffers.size() > kMaxBuffers) return unsupported("a kernel of more than 128 buffers");
      const Status valid = jit::verify(k.kernel);
      TENON_CHECK(valid.ok(), valid.message() + "\n" + jit::print(k.kernel));
    }
    loops.positions = jit::positions(loops.kernels, group.inputs, group.outputs);
    return loops;
  }
};

}  // namespace

Backend& cpu_backend() { return immortal<CpuBackend>(); }

}  // namespace tenon
