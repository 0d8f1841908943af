// A cuBLASLt without a GPU, for tests. libcublaslt_mock.so has the functions of backends/nvidia/cublaslt/api.h. It checks what the
// library checks: descriptors that fit together, leading dimensions, batches, types, the promised alignment, workspace, the
// context. It computes products in double on the memory of the mock driver that TENON_CUDA_DRIVER names. An algorithm serves only
// the problem that it was chosen for. A call overwrites its workspace, so that another use of that memory shows. Calls fail on
// request (cublaslt_mock.h has the controls).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include "tests/mocks/mock_library.h"

#define TN_LT TN_CONTROL int

// Declares the functions as the list has them, so that a definition that differs does not compile.
using namespace tenon::cublaslt;
extern "C" {
#define X(name, ...) __attribute__((visibility("default"))) int name(__VA_ARGS__);
TENON_CUBLASLT_FUNCTIONS(X)
#undef X
}

namespace {

struct Handle {
  const void* context;
};
struct Matmul {
  int compute, scale_type;
  int32_t transposed[2] = {0, 0};
  uint32_t epilogue = kLtNoEpilogue;
  const char* bias = nullptr;
};
struct Layout {
  int type;
  int64_t rows, columns, ld;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reduction = kLtAnyReduction;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

struct State : MockLibrary {
  std::set<const Handle*> handles;
  std::set<const Matmul*> matmuls;
  std::set<const Layout*> layouts;
  std::set<const Preference*> preferences;
  State() { reset(); }
  void reset() {
    settings_are({{"workspace", 4096}, {"version", 130002}, {"batched", 1}, {"aligned", 1}}, "CUBLASLT_MOCK");
    forget_calls();
  }
};
State& state() {
  static State& s = *new State;
  return s;
}

// A cublasLtMatmul lets other threads run before it reads the bias pointer, to provoke races.
template <class F>
int call(const char* name, F&& body) {
  return state().call(name, "cublasLtMatmul", [&](auto&) { return body(); });
}

int fault(const std::string& what) {
  state().faults += what + "\n";
  return kLtInvalidValue;
}

// A problem as its descriptors state it.
struct Given {
  const Matmul* m;
  const Layout *a, *b, *c, *d;
  int64_t k() const { return m->transposed[0] ? a->rows : a->columns; }

  int check() const {
    State& s = state();
    if (!s.matmuls.count(m)) return fault("a matmul descriptor that is none");
    for (const Layout* l : {a, b, c, d})
      if (!s.layouts.count(l)) return fault("a layout that is none");
    for (const Layout* l : {a, b, c, d}) {
      if (l->rows <= 0 || l->columns <= 0) return fault("a matrix without elements");
      if (l->ld < l->rows) return fault(cat("a leading dimension of ", l->ld, " for ", l->rows, " rows"));
      if (l->type != d->type) return fault("matrices of different types");
      if (l->batch != d->batch) return fault("batches of different counts");
      if (l->batch > 1 && l->stride < 0) return fault("a negative batch stride");
    }
    if (d->batch > 1 && d->stride == 0) return fault("results in one place");
    const bool wide = d->type == kLtF64;
    const bool fits =
        wide ? m->compute == kLtCompute64F
             : m->compute == kLtCompute32F || (m->compute == kLtComputeTf32 && d->type == kLtF32);
    if (!fits || m->scale_type != (wide ? kLtF64 : kLtF32))
      return fault("a type of computation that does not fit");
    const int64_t a_rows = m->transposed[0] ? a->columns : a->rows,
                  b_rows = m->transposed[1] ? b->columns : b->rows,
                  b_columns = m->transposed[1] ? b->rows : b->columns;
    if (a_rows != d->rows || b_columns != d->columns || b_rows != k() || c->rows != d->rows ||
        c->columns != d->columns)
      return fault("matrices that do not fit together");
    static const std::set<uint32_t> epilogues{kLtNoEpilogue, kLtRelu,           kLtBias,
                                              kLtGelu,       kLtRelu | kLtBias, kLtGelu | kLtBias};
    if (!epilogues.count(m->epilogue)) return fault(cat("no epilogue ", m->epilogue));
    if (m->epilogue != kLtNoEpilogue && wide) return kLtNotSupported;
    if (m->epilogue != kLtNoEpilogue && d->batch > 1 && !s.settings["batched"]) return kLtNotSupported;
    if (has(kLtBias) &&
        (!m->bias || reinterpret_cast<uintptr_t>(m->bias) % static_cast<size_t>(item_size(d->type))))
      return fault("a bias nowhere");
    return kLtSuccess;
  }
  bool has(uint32_t flag) const { return m->epilogue & flag; }
  // The problem as text, without the address of the bias.
  std::string text() const {
    static const std::map<int, const char*> names{
        {kLtF32, "f32"}, {kLtF64, "f64"}, {kLtF16, "f16"}, {kLtBf16, "bf16"}};
    std::string t = cat(names.at(d->type), m->compute == kLtComputeTf32 ? " tf32 " : " ",
                        m->transposed[0] ? "T" : "N", m->transposed[1] ? "T" : "N", " ", d->rows, "x",
                        d->columns, "x", k(), " ld ", a->ld, " ", b->ld, " ", c->ld, " ", d->ld);
    if (d->batch > 1)
      t += cat(" batch ", d->batch, " by ", a->stride, " ", b->stride, " ", c->stride, " ", d->stride);
    if (m->epilogue != kLtNoEpilogue) t += cat(" epilogue ", m->epilogue);
    return t;
  }
  uint64_t hash() const { return std::hash<std::string>()(text()); }
};

constexpr uint64_t kMagic = 0x7e404a190;

int64_t reach(const Layout& l) {  // elements from the first to the last
  return (l.columns - 1) * l.ld + l.rows + (l.batch - 1) * l.stride;
}

double activated(const Given& g, double x) {
  if (g.has(kLtRelu)) return std::isnan(x) ? x : std::max(x, 0.0);
  if (g.has(kLtGelu))
    return x / 2 *
           (1 + std::tanh(std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + 0.044715 * x * x * x)));
  return x;
}

// A call with copies of everything that it reads from its descriptors. It runs at once, or whenever the graph that captured it is
// launched.
struct Product {
  Matmul m;
  Layout a, b, c, d;
  const char *left, *right, *added;
  char *result, *workspace;
  size_t workspace_bytes;
  double by, with;

  void operator()() const {
    if (workspace) std::memset(workspace, 0xa5, workspace_bytes);
    const Given g{&m, &a, &b, &c, &d};
    const int64_t item = item_size(d.type);
    auto at = [&](const char* base, const Layout& l, int64_t n, int64_t row, int64_t column) {
      return load(d.type, base + (row + column * l.ld + n * l.stride) * item);
    };
    for (int64_t n = 0; n < d.batch; ++n)
      for (int64_t j = 0; j < d.columns; ++j)
        for (int64_t i = 0; i < d.rows; ++i) {
          double sum = 0;
          for (int64_t k = 0; k < g.k(); ++k)
            sum += (m.transposed[0] ? at(left, a, n, k, i) : at(left, a, n, i, k)) *
                   (m.transposed[1] ? at(right, b, n, j, k) : at(right, b, n, k, j));
          sum *= by;
          if (with != 0) sum += with * at(added, c, n, i, j);
          if (g.has(kLtBias)) sum += load(d.type, m.bias + i * item);
          store(d.type, result + (i + j * d.ld + n * d.stride) * item, activated(g, sum));
        }
  }
};

template <class T>
int destroy(std::set<const T*>& all, const void* handle, const char* what) {
  auto* object = static_cast<const T*>(handle);
  if (!all.erase(object)) return fault(cat("a ", what, " is destroyed that is none"));
  delete object;
  return kLtSuccess;
}

template <class T>
int take(T& place, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return kLtInvalidValue;
  std::memcpy(&place, value, bytes);
  return kLtSuccess;
}

template <class To, class From>
To* as(From* handle) {
  return reinterpret_cast<To*>(handle);
}

}  // namespace

TN_CONTROL size_t cublasLtGetVersion() { return static_cast<size_t>(state().settings["version"]); }

TN_CONTROL const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kLtSuccess: return "CUBLAS_STATUS_SUCCESS";
    case kLtNotInitialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kLtAllocFailed: return "CUBLAS_STATUS_ALLOC_FAILED";
    case kLtInvalidValue: return "CUBLAS_STATUS_INVALID_VALUE";
    case kLtExecutionFailed: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kLtInternalError: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kLtNotSupported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "";
  }
}
TN_CONTROL const char* cublasLtGetStatusString(int status) {
  return status == kLtNotInitialized ? "the library was not initialized" : "";
}

TN_LT cublasLtCreate(LtHandle* handle) {
  return call("cublasLtCreate", [&] {
    const void* context = State::current_context();
    if (!context) return int{kLtNotInitialized};
    if (State::captures()) return fault("a handle is made while a stream captures");
    auto* h = new Handle{context};
    state().handles.insert(h);
    return *handle = as<LtHandleTag>(h), int{kLtSuccess};
  });
}
TN_LT cublasLtDestroy(LtHandle handle) {
  return call("cublasLtDestroy", [&] { return destroy<Handle>(state().handles, handle, "handle"); });
}

TN_LT cublasLtMatmulDescCreate(LtMatmul* matmul, int compute, int scale_type) {
  return call("cublasLtMatmulDescCreate", [&] {
    auto* m = new Matmul{compute, scale_type};
    state().matmuls.insert(m);
    return *matmul = as<LtMatmulTag>(m), int{kLtSuccess};
  });
}
TN_LT cublasLtMatmulDescDestroy(LtMatmul matmul) {
  return call("cublasLtMatmulDescDestroy",
              [&] { return destroy<Matmul>(state().matmuls, matmul, "matmul descriptor"); });
}
TN_LT cublasLtMatmulDescSetAttribute(LtMatmul matmul, int attribute, const void* value, size_t bytes) {
  return call("cublasLtMatmulDescSetAttribute", [&] {
    auto* m = as<Matmul>(matmul);
    if (!state().matmuls.count(m)) return fault("a matmul descriptor that is none");
    switch (attribute) {
      case kLtTransposeA: return take(m->transposed[0], value, bytes);
      case kLtTransposeB: return take(m->transposed[1], value, bytes);
      case kLtEpilogue: return take(m->epilogue, value, bytes);
      case kLtBiasPointer: return take(m->bias, value, bytes);
      default: return int{kLtInvalidValue};
    }
  });
}

TN_LT cublasLtMatrixLayoutCreate(LtLayout* layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  return call("cublasLtMatrixLayoutCreate", [&] {
    auto* l = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld};
    state().layouts.insert(l);
    return *layout = as<LtLayoutTag>(l), int{kLtSuccess};
  });
}
TN_LT cublasLtMatrixLayoutDestroy(LtLayout layout) {
  return call("cublasLtMatrixLayoutDestroy",
              [&] { return destroy<Layout>(state().layouts, layout, "layout"); });
}
TN_LT cublasLtMatrixLayoutSetAttribute(LtLayout layout, int attribute, const void* value, size_t bytes) {
  return call("cublasLtMatrixLayoutSetAttribute", [&] {
    auto* l = as<Layout>(layout);
    if (!state().layouts.count(l)) return fault("a layout that is none");
    switch (attribute) {
      case kLtBatchCount: return take(l->batch, value, bytes);
      case kLtBatchStride: return take(l->stride, value, bytes);
      default: return int{kLtInvalidValue};
    }
  });
}

TN_LT cublasLtMatmulPreferenceCreate(LtPreference* preference) {
  return call("cublasLtMatmulPreferenceCreate", [&] {
    auto* p = new Preference;
    state().preferences.insert(p);
    return *preference = as<LtPreferenceTag>(p), int{kLtSuccess};
  });
}
TN_LT cublasLtMatmulPreferenceDestroy(LtPreference preference) {
  return call("cublasLtMatmulPreferenceDestroy",
              [&] { return destroy<Preference>(state().preferences, preference, "preference"); });
}
TN_LT cublasLtMatmulPreferenceSetAttribute(LtPreference preference, int attribute, const void* value,
                                           size_t bytes) {
  return call("cublasLtMatmulPreferenceSetAttribute", [&] {
    auto* p = as<Preference>(preference);
    if (!state().preferences.count(p)) return fault("a preference that is none");
    switch (attribute) {
      case kLtMaxWorkspace: return take(p->workspace, value, bytes);
      case kLtReductionMask: return take(p->reduction, value, bytes);
      case kLtAlignmentA:
      case kLtAlignmentB:
      case kLtAlignmentC:
      case kLtAlignmentD: return take(p->alignment[attribute - kLtAlignmentA], value, bytes);
      default: return int{kLtInvalidValue};
    }
  });
}

TN_LT cublasLtMatmulAlgoGetHeuristic(LtHandle handle, LtMatmul matmul, LtLayout a, LtLayout b, LtLayout c,
                                     LtLayout d, LtPreference preference, int wanted, LtHeuristic* algorithms,
                                     int* count) {
  return call("cublasLtMatmulAlgoGetHeuristic", [&] {
    State& s = state();
    auto* p = as<Preference>(preference);
    if (!s.handles.count(as<Handle>(handle))) return fault("a handle that is none");
    if (as<Handle>(handle)->context != State::current_context())
      return fault("the context of another device");
    if (!s.preferences.count(p) || wanted < 1) return fault("no preference");
    const Given g{as<Matmul>(matmul), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d)};
    *count = 0;
    uint32_t alignment = 256;
    for (uint32_t one : p->alignment) alignment = std::min(alignment, one);
    std::string line = "cublasLtMatmulAlgoGetHeuristic";
    auto end = [&](int status) {
      s.log += line + (status ? cat(" -> ", status) : "") + "\n";
      return status;
    };
    if (const int status = g.check(); status != kLtSuccess) return end(status);
    line += cat(" ", g.text(), " aligned ", alignment, " reduction ", p->reduction);
    if (item_size(g.d->type) == 2 && p->reduction != kLtReductionInComputeType)
      return fault("16-bit floats summed in 16 bits"), end(kLtInvalidValue);
    if (alignment < static_cast<uint32_t>(s.settings["aligned"])) return end(kLtSuccess);
    if (g.has(kLtBias) && reinterpret_cast<uintptr_t>(g.m->bias) % alignment != 0)
      return fault("the bias is less aligned than the matrices"), end(kLtInvalidValue);
    const auto workspace_needed =
        std::min<uint64_t>(p->workspace, static_cast<uint64_t>(s.settings["workspace"]));
    algorithms[0] = {};
    const uint64_t parts[] = {kMagic, g.hash(), workspace_needed, alignment};
    std::copy(std::begin(parts), std::end(parts), algorithms[0].algorithm.data);
    algorithms[0].workspace = workspace_needed;
    *count = 1;
    return end(kLtSuccess);
  });
}

TN_LT cublasLtMatmul(LtHandle handle, LtMatmul matmul, const void* alpha, const void* a, LtLayout a_layout,
                     const void* b, LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout,
                     void* d, LtLayout d_layout, const LtAlgorithm* algorithm, void* workspace,
                     size_t workspace_bytes, LtStream stream) {
  return call("cublasLtMatmul", [&] {
    State& s = state();
    if (!s.handles.count(as<Handle>(handle))) return fault("a handle that is none");
    if (as<Handle>(handle)->context != State::current_context())
      return fault("the context of another device");
    const Given g{as<Matmul>(matmul), as<Layout>(a_layout), as<Layout>(b_layout), as<Layout>(c_layout),
                  as<Layout>(d_layout)};
    if (const int status = g.check(); status != kLtSuccess) return status;
    if (!algorithm || algorithm->data[0] != kMagic || algorithm->data[1] != g.hash())
      return fault("an algorithm of another problem");
    const uint64_t workspace_needed = algorithm->data[2], alignment = algorithm->data[3];
    const int type = g.d->type;
    const int64_t item = item_size(type);
    const bool wide = type == kLtF64;
    auto number = [&](const void* p) {
      return wide ? *static_cast<const double*>(p) : double{*static_cast<const float*>(p)};
    };
    const double by = number(alpha), with = number(beta);
    auto* left = static_cast<const char*>(a);
    auto* right = static_cast<const char*>(b);
    auto* added = static_cast<const char*>(c);
    auto* result = static_cast<char*>(d);
    const std::pair<const char*, const Layout*> all[] = {
        {left, g.a}, {right, g.b}, {added, g.c}, {result, g.d}};
    for (auto [at, layout] : all) {
      if (reinterpret_cast<uintptr_t>(at) % alignment) return fault("a pointer less aligned than promised");
      if (!s.on_device(at, reach(*layout) * item))
        return fault("a matrix that is not in the device's memory");
      const bool written = at == result && layout == g.d;
      const bool copied = at == added && layout == g.c;
      if (!written && !copied && at < result + reach(*g.d) * item && result < at + reach(*layout) * item)
        return fault("the result lies in an operand");
    }
    if (added == result && (g.c->ld != g.d->ld || g.c->stride != g.d->stride || g.c != g.d))
      return fault("in place with two layouts");
    if (g.has(kLtBias)) {
      if (reinterpret_cast<uintptr_t>(g.m->bias) % alignment)
        return fault("a bias less aligned than promised");
      if (!s.on_device(g.m->bias, g.d->rows * item))
        return fault("a bias that is not in the device's memory");
    }
    if (workspace_bytes < workspace_needed) return fault("too little workspace");
    if (workspace_needed &&
        (!s.on_device(static_cast<char*>(workspace), static_cast<int64_t>(workspace_bytes)) ||
         reinterpret_cast<uintptr_t>(workspace) % 256))
      return fault("workspace that is not the device's, or not aligned");
    s.log += cat("cublasLtMatmul ", g.text(), " alpha ", by, " beta ", with, " stream ",
                 reinterpret_cast<uintptr_t>(stream), "\n");
    const Product product{*g.m,
                          *g.a,
                          *g.b,
                          *g.c,
                          *g.d,
                          left,
                          right,
                          added,
                          result,
                          workspace_needed ? static_cast<char*>(workspace) : nullptr,
                          workspace_bytes,
                          by,
                          with};
    State::queue(stream, product, g.text());
    return int{kLtSuccess};
  });
}

TN_CONTROLS(tn_lt_)
TN_CONTROL const char* tn_lt_leaks() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  std::string text = s.faults;
  auto tell = [&](const char* what, const auto& all) {
    if (!all.empty()) text += cat(all.size(), " ", what, " alive\n");
  };
  tell("handles", s.handles);
  tell("matmul descriptors", s.matmuls);
  tell("layouts", s.layouts);
  tell("preferences", s.preferences);
  return s.say(text);
}
TN_CONTROL void tn_lt_reset() {
  const std::lock_guard guard(state().lock);
  state().reset();
}
TN_CONTROL void tn_lt_set(const char* name, int value) { state().set(name, value); }
