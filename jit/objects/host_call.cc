// See host_call.h.
#include "jit/objects/host_call.h"

namespace tenon::jit {
namespace {

// Operand i of lane l is values[i * lanes + l]. Lanes from `count` on do not exist.
template <int k, class T>
void call_each(T (*eval)(const T*), T* values, int64_t lanes, int64_t count) {
  for (int64_t l = 0; l < count; ++l) {
    T x[k];
    for (int i = 0; i < k; ++i) x[i] = values[i * lanes + l];
    values[l] = eval(x);
  }
}

template <class T>
void call_lanes(T (*eval)(const T*), T* values, int64_t operands, int64_t lanes, int64_t count) {
  static_assert(kMostHostOperands == 4);
  switch (operands) {
    case 1: return call_each<1>(eval, values, lanes, count);
    case 2: return call_each<2>(eval, values, lanes, count);
    case 3: return call_each<3>(eval, values, lanes, count);
    default: return call_each<4>(eval, values, lanes, count);
  }
}

constexpr HostClass kF64{DType::f64, "f64_", "tenon_call_f64"}, kF32{DType::f32, "f32_", "tenon_call_f32"},
    kI64{DType::i64, "i64_", "tenon_call_i64"};

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

HostClass host_class(const Op& row, DType operand) {
  if (!is_float(operand)) return kI64;
  return row.eval_f32 && compute_type(operand) == DType::f32 ? kF32 : kF64;
}

void* host_symbol(std::string_view name) {
  if (name == kF64.caller) return address(&call_lanes<double>);
  if (name == kF32.caller) return address(&call_lanes<float>);
  if (name == kI64.caller) return address(&call_lanes<int64_t>);
  for (const HostClass& c : {kF64, kF32, kI64}) {
    if (!name.starts_with(kHostPrefix) || !name.substr(kHostPrefix.size()).starts_with(c.suffix)) continue;
    const auto id = find_op(name.substr(kHostPrefix.size() + c.suffix.size()));
    if (!id) return nullptr;
    const Op& row = op(*id);
    return c.type == DType::f64   ? address(row.eval)
           : c.type == DType::f32 ? address(row.eval_f32)
                                  : address(row.eval_int);
  }
  return nullptr;
}

}  // namespace tenon::jit
