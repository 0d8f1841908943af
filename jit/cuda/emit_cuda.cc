// See emit_cuda.h. Emits the par nest (which threads run which iterations) and the memory of locals.
// CudaLoops emits the loops within, CudaLanes the statements between them. A value that does not differ from
// lane to lane is a scalar, which all threads of a team compute alike.
#include "jit/cuda/emit_cuda.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "jit/analysis/transposing.h"
#include "jit/cuda/cuda_text.h"
#include "jit/cuda/emit_cuda_loops.h"
#include "jit/schedule/cuda_maps.h"
#include "src/ops/rows/names.h"

namespace tenon::jit {
namespace {

using K = Stmt::Kind;
using Form = CudaSchedule::Form;
using Locals = CudaSchedule::Locals;

class CudaEmitter final : CudaLoops {
 public:
  // map: for the tiled form, the map that owns `kernel`.
  CudaEmitter(const Kernel& kernel, const CudaSchedule& schedule, const TransposingMap* map = nullptr)
      : CudaLoops(kernel, schedule), map_(map) {}

  std::string run() {
    text_ = "#undef TN_EACH\n#define TN_EACH _Pragma(\"unroll\") for (int v = 0; v < " + number(vector_) +
            "; ++v)\n";
    std::string parameters;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const Buffer& buffer = k_.buffers[b];
      if (buffer.role == Buffer::Role::local) continue;
      parameters += (parameters.empty() ? "" : ", ") +
                    std::string(buffer.role == Buffer::Role::in ? "const " : "") +
                    std::string(cuda_memory_type(buffer.type)) + "* " + pointer(b);
    }
    for (size_t i = 0; i < k_.sizes.size(); ++i)
      parameters += (parameters.empty() ? "" : ", ") + std::string("tn_ix s") + std::to_string(i);
    if (s_.locals == Locals::global) parameters += ", char* scratch, tn_ix scratch_stride";
    const std::string call = k_.name + "(" + parameters + ")", kernel = "extern \"C\" __global__ ";
    if (s_.cluster > 1) text_ += kernel + "TN_CLUSTER(" + number(s_.cluster) + ") void " + call + ";\n";
    text_ += kernel + "void __launch_bounds__(" + number(s_.block) + ", " + number(s_.resident) + ") " +
             call + " {\n";
    if (s_.locals == Locals::registers) find_kept_loads(par().body);
    map_ ? emit_tiles() : emit_par();
    return text_ + "}\n";
  }

 private:
  const Stmt& par() const { return k_.body[0]; }

  // ---- the par nest ----

  void emit_par() {
    const Stmt& s = par();
    if (s_.outer != 0) return emit_rows_of_map();
    if (s_.ahead > 1 && is_map(k_)) return emit_vectors_ahead();
    if (s_.rows > 1) return emit_shared_columns();
    if (s_.cluster > 1) {
      line("const int lane = (int)tn_cluster_rank<" + number(s_.cluster) + ">() * " + number(team_) +
           " + threadIdx.x;");
      line("TN_SHARED tn_u64 parts[2];");
    } else if (team_ > 1) {
      line("const int lane = threadIdx.x % " + number(team_) + ";");
    }
    if (team_ > 32)
      line("TN_SHARED tn_u64 slots[2][32];");
    else if (team_ > 1)
      line("tn_u64 (*slots)[32] = 0;");
    if (team_ > 1) line("int turn = 0;");
    if (s_.locals == Locals::shared) line("TN_DYNAMIC_SHARED(shared);");

    std::vector<int> steps(s.axes.size(), 1);
    if (s.simd) steps.back() = vector_;
    open_nest(steps, whole_, team_, "j");
    place_locals();
    declare_kept_loads();
    if (s.simd) {
      enter_lanes(s.axes.back(), extent(s.axes.back().extent));
      emit_lanes(s.body, {});
      leave_lanes();
    } else {
      for (const Stmt& inner : s.body) emit_uniform(inner);
    }
    close();
    if (s_.cluster > 1) line("tn_cluster_barrier();");
  }

  // Opens the loop over the par nest, of whose axes a team takes `steps` elements at a time. whole: the steps
  // divide the extents. Variables named by `prefix` hold the first element that a team takes.
  void open_nest(const std::vector<int>& steps, bool whole, int team, const char* prefix) {
    const std::string total = count_nest(steps, whole);
    const int teams = s_.block / team;
    if (s_.cluster > 1)
      open("for (tn_ix at = blockIdx.x / " + number(s_.cluster) + "; at < " + total + "; at += gridDim.x / " +
           number(s_.cluster) + ")");
    else
      open("for (tn_ix at = (tn_ix)blockIdx.x * " + number(teams) + " + threadIdx.x" +
           (team > 1 ? " / " + number(team) : "") + "; at < " + total + "; at += (tn_ix)gridDim.x * " +
           number(teams) + ")");
    place_in_nest(steps, prefix);
  }
  // Emits the number of steps along each axis. Returns the text of their product.
  std::string count_nest(const std::vector<int>& steps, bool whole) {
    const std::vector<Axis>& axes = par().axes;
    std::string total;
    for (size_t a = 0; a < axes.size(); ++a) {
      std::string count = range(axes[a]).end;
      if (steps[a] > 1)
        count = "(" + count + (whole ? "" : " + " + number(steps[a] - 1)) + ") / " + number(steps[a]);
      line("const tn_ix n" + number(a) + " = " + count + ";");
      total += (total.empty() ? "n" : " * n") + number(a);
    }
    return total.empty() ? "1" : total;
  }
  // Emits where step number `at` begins.
  void place_in_nest(const std::vector<int>& steps, const char* prefix) {
    std::vector<size_t> all(par().axes.size());
    std::iota(all.begin(), all.end(), 0);
    place_along(all, "at", steps, prefix);
  }
  // Emits the digits of `number_of` along these axes.
  void place_along(const std::vector<size_t>& which, const std::string& number_of,
                   const std::vector<int>& steps, const char* prefix) {
    const std::vector<Axis>& axes = par().axes;
    const std::string rest = which.size() > 1 ? "rest" : number_of;
    if (which.size() > 1) line("tn_ix rest = " + number_of + ";");
    for (size_t i = which.size(); i-- > 0;) {
      const size_t a = which[i];
      loop_variable_.insert(axes[a].var);
      const std::string count = "n" + number(a);
      std::string digit = i == 0 ? rest : "rest % " + count;
      if (steps[a] > 1) digit = "(" + digit + ") * " + number(steps[a]);
      line("const tn_ix " + (steps[a] > 1 ? prefix + std::to_string(axes[a].var) : variable(axes[a].var)) +
           " = " + digit + ";");
      if (i > 0) line("rest /= " + count + ";");
    }
  }

  // Emits several vectors of a map, over which `each` loops. The loads of all vectors are issued before the
  // first vector is computed.
  void emit_ahead(const Block& body, const std::function<void(const std::function<void()>&)>& each) {
    const std::vector<const Stmt*> loads = loads_ahead(body);
    for (const Stmt* load : loads) declare_ahead(*load, s_.ahead);
    each([&] {
      for (const Stmt* load : loads) load_ahead(*load);
    });
    line("tn_loads_first();");
    begin_ahead(loads);
    each([&] { emit_lanes(body, {}); });
    end_ahead();
  }

  // A map of which a thread takes several vectors. The threads of a block take adjacent vectors.
  void emit_vectors_ahead() {
    const Stmt& s = par();
    const Axis& lanes = s.axes.back();
    std::vector<int> steps(s.axes.size(), 1);
    steps.back() = vector_;
    const std::string of_block = number(int64_t{s_.block} * s_.ahead);
    line("const tn_ix total = " + count_nest(steps, whole_) + ";");
    open("for (tn_ix first = (tn_ix)blockIdx.x * " + of_block +
         " + threadIdx.x; first < total; first += (tn_ix)gridDim.x * " + of_block + ")");
    simd_ = lanes.var;
    varies_[simd_] = true;
    emit_ahead(s.body, [&](const std::function<void()>& body) {
      line("#pragma unroll");
      open("for (int u = 0; u < " + number(s_.ahead) + "; ++u)");
      line("const tn_ix at = first + u * " + number(s_.block) + ";");
      open("if (at < total)");
      place_in_nest(steps, "j");
      enter_lanes(lanes, extent(lanes.extent));
      body();
      close();
      close();
    });
    leave_lanes();
    close();
  }

  // A map whose `outer` axes form rows and whose other axes form columns. A thread takes one column and walks
  // its rows. Values that are the same in all rows are computed before the first row. As many rows run side
  // by side as there are threads for.
  void emit_rows_of_map() {
    const Stmt& s = par();
    std::vector<int> steps(s.axes.size(), 1);
    steps.back() = vector_;
    count_nest(steps, whole_);
    std::vector<size_t> of_row, of_column;
    for (size_t a = 0; a < s.axes.size(); ++a) (s_.outer >> a & 1 ? of_row : of_column).push_back(a);
    auto product = [](const std::vector<size_t>& axes) {
      std::string text;
      for (size_t a : axes) text += (text.empty() ? "n" : " * n") + number(a);
      return text;
    };
    const std::string threads = "(tn_ix)gridDim.x * " + number(s_.block), ahead = number(s_.ahead);
    line("const tn_ix rows = " + product(of_row) + ", columns = " + product(of_column) + ";");
    line("const tn_ix together = tn_clamp(" + threads + " / columns, (tn_ix)1, " +
         (s_.ahead > 1 ? "(rows + " + number(s_.ahead - 1) + ") / " + ahead : "rows") + ");");
    open("for (tn_ix task = (tn_ix)blockIdx.x * " + number(s_.block) +
         " + threadIdx.x; task < together * columns; task += " + threads + ")");
    line("const tn_ix column = task % columns;");
    place_along(of_column, "column", steps, "j");
    enter_lanes(s.axes.back(), extent(s.axes.back().extent));

    const std::vector<bool> same = same_along(k_, s_.outer);
    Block before, body;
    for (size_t i = 0; i < s.body.size(); ++i) (same[i] ? before : body).push_back(s.body[i]);
    std::set<Ref> later;
    for (const Stmt& inner : body) collect_uses(inner, later);
    emit_before(before, later);
    if (s_.ahead > 1) {
      open("for (tn_ix first = task / columns; first < rows; first += together * " + ahead + ")");
      emit_ahead(body, [&](const std::function<void()>& each) {
        line("#pragma unroll");
        open("for (int u = 0; u < " + ahead + "; ++u)");
        line("const tn_ix row = first + u * together;");
        open("if (row < rows)");
        place_along(of_row, "row", steps, "j");
        each();
        close();
        close();
      });
    } else {
      open("for (tn_ix row = task / columns; row < rows; row += together)");
      place_along(of_row, "row", steps, "j");
      emit_lanes(body, {});
    }
    close();
    leave_lanes();
    close();
  }

  // `rows` threads of a block share a column: each takes every `rows`-th row. They combine their results at
  // the end of each reduction, and after the last one the first thread runs the rest. Threads beyond the last
  // column compute that column too, and store nothing.
  void emit_shared_columns() {
    const Stmt& s = par();
    const std::string columns = number(s_.block / s_.rows);
    std::vector<int> steps(s.axes.size(), 1);
    steps.back() = vector_;
    int widest = 1;
    for (const Stmt& inner : s.body)
      for (Ref r : inner.results) widest = std::max(widest, static_cast<int>(size_of(k_.types[r])));
    line("TN_SHARED tn_u64 parts[" + number(int64_t{s_.block} * vector_ * widest / 8) + "];");
    line("const int row = threadIdx.x / " + columns + ", column = threadIdx.x % " + columns + ";");
    line("const tn_ix total = " + count_nest(steps, whole_) + ";");
    open("for (tn_ix first = (tn_ix)blockIdx.x * " + columns +
         "; first < total; first += (tn_ix)gridDim.x * " + columns + ")");
    line("const tn_ix at = tn_minimum((tn_ix)(first + column), (tn_ix)(total - 1));");
    place_in_nest(steps, "j");
    enter_lanes(s.axes.back(), extent(s.axes.back().extent));
    const auto after = s.body.begin() + (&last_control() - s.body.data()) + 1;
    const Block shared(s.body.begin(), after), rest(after, s.body.end());
    std::set<Ref> later;
    for (const Stmt& inner : rest) collect_uses(inner, later);
    emit_lanes(shared, {}, {later.begin(), later.end()});
    open("if (row == 0 && first + column < total)");
    emit_lanes(rest, {});
    close();
    leave_lanes();
    close();
  }

  void place_locals() {
    bool begun = false;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const Buffer& buffer = k_.buffers[b];
      if (buffer.role != Buffer::Role::local) continue;
      const std::string memory(cuda_memory_type(buffer.type));
      if (s_.locals == Locals::registers) {
        line(memory + " " + pointer(b) + "[" + number(int64_t{s_.chunks} * vector_) + "];");
        continue;
      }
      const std::string teams = number(s_.block / team_);
      if (!begun) {
        if (s_.cluster > 1)
          line("char* local = shared;");
        else if (s_.locals == Locals::shared)
          line("char* local = shared + threadIdx.x / " + number(team_) + " * " + shared_stride() + ";");
        else
          line("char* local = scratch + ((tn_i64)blockIdx.x * " + teams + " + threadIdx.x / " +
               number(team_) + ") * scratch_stride;");
        begun = true;
      }
      line(memory + "* " + pointer(b) + " = (" + memory + "*)local;");
      line("local += " + bytes_of(buffer) + ";");
    }
  }
  // Bytes of a local, as counted by jit/schedule/cuda_schedule.cc.
  std::string bytes_of(const Buffer& local) const {
    if (s_.cluster > 1) {
      const int64_t own = int64_t{vector_} * s_.block, step = own * s_.cluster;
      return "(" + extent(local.length) + " + " + number(step - 1) + ") / " + number(step) + " * " +
             number(own * size_of(local.type));
    }
    return "(" + extent(local.length) + " * " + number(size_of(local.type)) + " + 15) / 16 * 16";
  }
  std::string shared_stride() const {
    std::string sum;
    for (const Buffer& buffer : k_.buffers)
      if (buffer.role == Buffer::Role::local) sum += (sum.empty() ? "(" : " + ") + bytes_of(buffer);
    return sum + ")";
  }

  // ---- the par nest in tiles of two axes ----

  // A block takes a tile of `along` times `across` elements. Statements run with lanes along `along`.
  // Crossing loads run before them and crossing stores after them, with lanes along `across`, through a copy
  // of the tile in shared memory. In this copy, elements along `across` are adjacent, plus one element of
  // padding, so that no two lanes access the same bank.
  void emit_tiles() {
    const int tile[] = {s_.along, s_.across};
    std::vector<int> steps;
    for (const Axis& a : par().axes)
      steps.push_back(a.var == map_->along.var ? tile[0] : a.var == map_->across.var ? tile[1] : 1);
    std::vector<const Stmt*> loads, stores;
    int64_t bytes = 0;
    line("TN_DYNAMIC_SHARED(shared);");
    for (size_t i : map_->crossing) {
      const Stmt& s = par().body[i];
      (s.kind == K::load ? loads : stores).push_back(&s);
      const DType t = k_.buffers[s.buffer].type;
      const std::string memory(cuda_memory_type(t)), name = "q" + number(i);
      line(memory + "* " + name + " = (" + memory + "*)(shared + " + number(bytes) + ");");
      elements_[&s] = name + "[(column + v) * " + number(s_.across + 1) + " + row]";
      turned_[&s] = name + "[row * " + number(s_.across + 1) + " + column + v]";
      bytes += cuda_tile_bytes(s_, t);
    }
    open_nest(steps, false, s_.block, "f");
    if (!loads.empty()) {
      for (const Stmt* s : loads)
        line(vector_type(*s) + " x" + std::to_string(s->result) + "[" + number(steps_of_tile()) + "];");
      over_tile(false, "", [&] {
        for (const Stmt* s : loads) line("x" + std::to_string(s->result) + "[c] = " + vector_at(*s) + ";");
      });
      over_tile(false, "", [&] {
        for (const Stmt* s : loads)
          line("TN_EACH " + turned_[s] + " = x" + std::to_string(s->result) + "[c].at[v];");
      });
      line("__syncthreads();");
    }
    over_tile(true, par().body.size() > kLongBody ? " 2" : "", [&] {
      enter_lanes(map_->along, extent(map_->along.extent));
      emit_lanes(par().body, {});
      leave_lanes();
    });
    line("__syncthreads();");
    if (!stores.empty()) {
      over_tile(false, "", [&] {
        for (size_t i = 0; i < stores.size(); ++i) {
          const Stmt* s = stores[i];
          const std::string name = "y" + std::to_string(i);
          line(vector_type(*s) + " " + name + ";");
          line("TN_EACH " + name + ".at[v] = " + turned_[s] + ";");
          store_vector(*s, name);
        }
      });
      if (loads.empty()) line("__syncthreads();");
    }
    close();
  }
  int steps_of_tile() const { return s_.along * s_.across / (vector_ * s_.block); }

  // Loops over the elements of the tile that belong to this thread, with lanes along the one axis or the
  // other.
  void over_tile(bool along, const char* unroll, const std::function<void()>& body) {
    const Axis &lanes = along ? map_->along : map_->across, &rows = along ? map_->across : map_->along;
    const int width = (along ? s_.along : s_.across) / vector_;  // threads
    auto first = [](const Axis& a) { return "f" + std::to_string(a.var); };
    line("#pragma unroll" + std::string(unroll));
    open("for (int c = 0; c < " + number(steps_of_tile()) + "; ++c)");
    line("const int row = c * " + number(s_.block / width) + " + threadIdx.x / " + number(width) +
         ", column = threadIdx.x % " + number(width) + (vector_ > 1 ? " * " + number(vector_) : "") + ";");
    line("const tn_ix " + variable(rows.var) + " = " + first(rows) + " + row, " + variable(lanes.var) +
         " = " + first(lanes) + " + column;");
    open("if (" + variable(rows.var) + " < " + extent(rows.extent) + " && " + variable(lanes.var) + " < " +
         extent(lanes.extent) + ")");
    if (!along) count_lanes(lanes, extent(lanes.extent));
    body();
    close();
    close();
  }

  static constexpr size_t kLongBody = 16;  // longer bodies are not unrolled for every step of a tile

  const TransposingMap* map_;
  std::map<const Stmt*, std::string> turned_;  // elements of a tile, with lanes along `across`
};

}  // namespace

std::string emit_cuda(const Kernel& kernel, const CudaSchedule& schedule) {
  if (schedule.form != Form::tiled) return CudaEmitter(kernel, schedule).run();
  const auto map = transposing_map(kernel);
  TENON_CHECK(map, "a tiled schedule of a kernel that transposes nothing");
  return CudaEmitter(kernel, schedule, &*map).run();
}

std::string cuda_settings(const CudaSchedule& schedule) {
  return "#define TN_WIDE " + std::to_string(schedule.wide) + "\n#define TN_APPROXIMATE " +
         std::to_string(schedule.approximate) + "\n";
}

}  // namespace tenon::jit
