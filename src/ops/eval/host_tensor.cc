// See host_tensor.h.
#include "src/ops/eval/host_tensor.h"

#include <algorithm>
#include <cstring>

#include "src/base/convert.h"
#include "src/ir/narrow.h"

namespace tenon {
namespace {

template <class T>
T load(const std::byte* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, int64_t index, T value) {
  std::memcpy(bytes + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

Element real(double d) { return {d, 0}; }
Element whole(int64_t i) { return {0, i}; }

// The nearest value of a float dtype.
double round_to(double value, DType dtype) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(value);
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3fn:
    case DType::f8e5m2: return rounded(dtype, static_cast<float>(value));
    default: return value;
  }
}

int64_t wrap_to(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::i32: return static_cast<int32_t>(value);
    case DType::i16: return static_cast<int16_t>(value);
    case DType::i8: return static_cast<int8_t>(value);
    case DType::u8: return static_cast<uint8_t>(value);
    case DType::b8: return value & 1;
    default: return value;
  }
}

int64_t truncate_to(double value, DType dtype) {
  switch (dtype) {
    case DType::i64: return float_to_int<int64_t>(value);
    case DType::i32: return float_to_int<int32_t>(value);
    case DType::i16: return float_to_int<int16_t>(value);
    case DType::i8: return float_to_int<int8_t>(value);
    case DType::u8: return float_to_int<uint8_t>(value);
    default: return value != 0;
  }
}

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(static_cast<size_t>(count() * size_of(dtype)));
}

int64_t HostTensor::count() const {
  // Next to a 0, the other sizes may be anything.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

Element HostTensor::get(int64_t index) const {
  const std::byte* at = bytes.data();
  switch (dtype) {
    case DType::f64: return real(load<double>(at, index));
    case DType::f32: return real(load<float>(at, index));
    case DType::f16:
    case DType::bf16: return real(widened(dtype, load<uint16_t>(at, index)));
    case DType::f8e4m3fn:
    case DType::f8e5m2: return real(widened(dtype, load<uint8_t>(at, index)));
    case DType::i64: return whole(load<int64_t>(at, index));
    case DType::i32: return whole(load<int32_t>(at, index));
    case DType::i16: return whole(load<int16_t>(at, index));
    case DType::i8: return whole(load<int8_t>(at, index));
    case DType::u8: return whole(load<uint8_t>(at, index));
    case DType::b8: return whole(load<uint8_t>(at, index) != 0);
  }
  return {};
}

void HostTensor::set(int64_t index, Element value) {
  std::byte* at = bytes.data();
  switch (dtype) {
    case DType::f64: return store(at, index, value.d);
    case DType::f32: return store(at, index, static_cast<float>(value.d));
    case DType::f16:
    case DType::bf16: return store(at, index, narrowed(dtype, static_cast<float>(value.d)));
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return store(at, index, static_cast<uint8_t>(narrowed(dtype, static_cast<float>(value.d))));
    case DType::i64: return store(at, index, value.i);
    case DType::i32: return store(at, index, static_cast<int32_t>(value.i));
    case DType::i16: return store(at, index, static_cast<int16_t>(value.i));
    case DType::i8: return store(at, index, static_cast<int8_t>(value.i));
    case DType::u8: return store(at, index, static_cast<uint8_t>(value.i));
    case DType::b8: return store(at, index, static_cast<uint8_t>(value.i & 1));
  }
}

double HostTensor::number(int64_t index) const {
  const Element e = get(index);
  return is_float(dtype) ? e.d : static_cast<double>(e.i);
}

void HostTensor::set_number(int64_t index, double value) {
  set(index, convert_element(real(value), DType::f64, dtype));
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return strides;  // never used
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

std::optional<int64_t> element_bytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = size_of(dtype);
  for (int64_t size : shape)
    if (size == 0) return 0;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes) || bytes > int64_t{1} << 46)
      return std::nullopt;
  return bytes;
}

Element convert_element(Element value, DType from, DType to) {
  if (is_float(from)) return is_float(to) ? real(round_to(value.d, to)) : whole(truncate_to(value.d, to));
  if (is_bool(to)) return whole(value.i != 0);
  if (is_integer(to)) return whole(wrap_to(value.i, to));
  // Rounds an i64 to f32 directly; through a double it would be rounded twice.
  return real(to == DType::f64 ? static_cast<double>(value.i) : round_to(static_cast<float>(value.i), to));
}

Element element_of(const Scalar& literal, DType dtype) {
  return literal.is_int ? convert_element(whole(literal.i), DType::i64, dtype)
                        : convert_element(real(literal.d), DType::f64, dtype);
}

namespace {

template <typename Item>
void copy_row(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, from += from_step, to += to_step) std::memcpy(to, from, sizeof(Item));
}

}  // namespace

void copy_strided(const char* from, const std::vector<int64_t>& from_strides, char* to,
                  const std::vector<int64_t>& to_strides, const std::vector<int64_t>& shape, int64_t item) {
  for (int64_t size : shape)
    if (size == 0) return;
  if (shape.empty()) {
    std::memcpy(to, from, static_cast<size_t>(item));
    return;
  }
  int64_t at[kMaxRank + 2] = {};
  const size_t outer = shape.size() - 1;
  const int64_t from_step = from_strides[outer] * item, to_step = to_strides[outer] * item;
  const auto copy = item == 1   ? copy_row<int8_t>
                    : item == 2 ? copy_row<int16_t>
                    : item == 4 ? copy_row<int32_t>
                                : copy_row<int64_t>;
  TENON_CHECK(item == 1 || item == 2 || item == 4 || item == 8, "an element of 1, 2, 4 or 8 bytes");
  for (;;) {
    copy(from, from_step, to, to_step, shape[outer]);
    size_t axis = outer;
    for (;;) {
      if (axis == 0) return;
      --axis;
      from += from_strides[axis] * item;
      to += to_strides[axis] * item;
      if (++at[axis] < shape[axis]) break;
      from -= from_strides[axis] * item * shape[axis];
      to -= to_strides[axis] * item * shape[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace tenon
