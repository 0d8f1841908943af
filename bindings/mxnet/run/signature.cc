#include "bindings/mxnet/run/signature.h"

#include <map>

#include "bindings/mxnet/abi.h"
#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

template <class Size>
void append_sizes(Signature& to, int dtype, const Size* sizes, int rank) {
  if (rank < 0) throw Failure("Tenon needs the shapes of all inputs; the rank of one is unknown");
  to.push_back(dtype);
  to.push_back(rank);
  for (int i = 0; i < rank; ++i) to.push_back(static_cast<int64_t>(sizes[i]));
}

// Calls size(i) for the index of each size. Dtypes and ranks are no sizes.
template <class Fn>
void for_sizes(const Signature& signature, Fn&& size) {
  for (size_t at = 0; at < signature.size();) {
    const size_t end = at + 2 + static_cast<size_t>(signature[at + 1]);
    for (at += 2; at < end; ++at) size(at);
  }
}

}  // namespace

void append(Signature& to, int dtype, const unsigned* sizes, int rank) {
  append_sizes(to, dtype, sizes, rank);
}
void append(Signature& to, int dtype, const int64_t* sizes, int rank) {
  append_sizes(to, dtype, sizes, rank);
}

bool matches(const Pattern& pattern, const Signature& signature) {
  if (pattern.size() != signature.size()) return false;
  constexpr int64_t kMost = 32;
  int64_t of_symbol[kMost] = {};
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == signature[i]) continue;
    if (pattern[i] >= 0 || signature[i] < 2) return false;
    const int64_t symbol = -1 - pattern[i];
    if (symbol >= kMost) return false;
    if (of_symbol[symbol] != 0 && of_symbol[symbol] != signature[i]) return false;
    of_symbol[symbol] = signature[i];
  }
  return true;
}

bool comparable(const Signature& a, const Signature& b) {
  if (a.size() != b.size()) return false;
  for (size_t at = 0; at < a.size();) {
    if (a[at] != b[at] || a[at + 1] != b[at + 1]) return false;
    at += 2 + static_cast<size_t>(a[at + 1]);
  }
  bool good = true;
  for_sizes(a, [&](size_t i) { good = good && (a[i] == b[i] || (a[i] >= 2 && b[i] >= 2)); });
  return good;
}

Pattern generalize(const std::vector<Signature>& seen) {
  Pattern pattern = seen.front();
  std::map<std::vector<int64_t>, int64_t> symbols;
  for_sizes(seen.front(), [&](size_t i) {
    std::vector<int64_t> sizes;
    bool same = true;
    for (const Signature& each : seen) {
      same = same && each[i] == seen.front()[i];
      sizes.push_back(each[i]);
    }
    if (!same) pattern[i] = -1 - symbols.emplace(sizes, static_cast<int64_t>(symbols.size())).first->second;
  });
  return pattern;
}

bool has_symbols(const Pattern& pattern) {
  for (const int64_t each : pattern)
    if (each < 0) return true;
  return false;
}

tenon_dtype dtype_of(int number) {
  switch (number) {
    case kFloat32: return {2, 32, 1};
    case kFloat64: return {2, 64, 1};
    case kFloat16: return {2, 16, 1};
    case kUint8: return {1, 8, 1};
    case kInt32: return {0, 32, 1};
    case kInt8: return {0, 8, 1};
    case kInt64: return {0, 64, 1};
    case kBool: throw Failure("MXNet's interface for plugins passes no tensors of dtype bool");
    case kBfloat16: throw Failure("MXNet's interface for plugins passes no tensors of dtype bfloat16");
    default:
      throw Failure("MXNet's interface for plugins passes no tensors of dtype number " +
                    std::to_string(number));
  }
}

std::vector<InputType> input_types(const Pattern& pattern) {
  std::vector<InputType> types;
  for (size_t at = 0; at < pattern.size();) {
    InputType type{dtype_of(static_cast<int>(pattern[at])), {}};
    const size_t end = at + 2 + static_cast<size_t>(pattern[at + 1]);
    for (at += 2; at < end; ++at) {
      if (!type.dims.empty()) type.dims += ',';
      type.dims += pattern[at] < 0 ? "s" + std::to_string(-1 - pattern[at]) : std::to_string(pattern[at]);
    }
    types.push_back(std::move(type));
  }
  return types;
}

}  // namespace tenon::plugin
