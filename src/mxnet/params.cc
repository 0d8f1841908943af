// See params.h.
#include "src/mxnet/params.h"

#include <cstring>

#include "src/mxnet/attrs.h"

namespace tenon::mxnet {
namespace {

constexpr uint64_t kList = 0x112;
constexpr uint32_t kVersion1 = 0xF993FAC8, kVersion2 = 0xF993FAC9, kVersion3 = 0xF993FACA;
constexpr int64_t kMostAxes = 32;

class Reader {
 public:
  explicit Reader(std::span<const unsigned char> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  Status error(const std::string& what) const { return invalid("byte " + std::to_string(at_) + ": " + what); }

  template <class T>
  Status read(T* out) {
    if (left() < sizeof(T)) return error("the file ends");
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return {};
  }
  Status skip(uint64_t size) {
    if (left() < size) return error("the file ends within " + std::to_string(size) + " bytes of data");
    at_ += size;
    return {};
  }
  std::string text(size_t size) {
    std::string out(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return out;
  }

 private:
  std::span<const unsigned char> bytes_;
  size_t at_ = 0;
};

template <class Size>
Status read_sizes(Reader& r, int64_t rank, std::vector<int64_t>& shape) {
  if (rank > kMostAxes) return r.error("a tensor of rank " + std::to_string(rank));
  for (int64_t i = 0; i < rank; ++i) {
    Size size = 0;
    TENON_TRY(r.read(&size));
    if (static_cast<int64_t>(size) < 0)
      return r.error("the size " + std::to_string(static_cast<int64_t>(size)));
    shape.push_back(static_cast<int64_t>(size));
  }
  return {};
}

// Sets *present to false for a tensor without a shape.
Status read_shape(Reader& r, Param& param, bool* present) {
  uint32_t magic = 0;
  TENON_TRY(r.read(&magic));
  if (magic == kVersion2 || magic == kVersion3) {
    int32_t storage = 0;
    TENON_TRY(r.read(&storage));
    if (storage == 1 || storage == 2)
      return unsupported("byte " + std::to_string(r.at()) + ": a sparse tensor; Tenon reads dense ones");
    if (storage != 0) return r.error("the storage type " + std::to_string(storage));
  }
  if (magic < kVersion1 || magic > kVersion3) {  // the oldest format: this was the rank
    *present = magic != 0;
    return read_sizes<uint32_t>(r, magic, param.shape);
  }
  int32_t rank = 0;
  TENON_TRY(r.read(&rank));
  if (rank < -1) return r.error("the rank " + std::to_string(rank));
  *present = magic == kVersion3 ? rank >= 0 : rank > 0;
  return read_sizes<int64_t>(r, rank, param.shape);
}

Status read_tensor(Reader& r, Param& param, bool* present) {
  TENON_TRY(read_shape(r, param, present));
  if (!*present) return {};
  int32_t device[2], flag = 0;
  TENON_TRY(r.read(&device));
  TENON_TRY(r.read(&flag));
  const auto dtype = dtype_of_flag(flag);
  if (!dtype) return r.error("the dtype " + std::to_string(flag));
  param.dtype = *dtype;
  uint64_t size = static_cast<uint64_t>(size_of(*dtype));
  for (const int64_t n : param.shape)
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(n), &size))
      return r.error("a shape that overflows");
  param.offset = r.at();
  param.size = size;
  return r.skip(size);
}

Status read_name(Reader& r, Param& param) {
  uint64_t size = 0;
  TENON_TRY(r.read(&size));
  if (size > r.left()) return r.error("a name of " + std::to_string(size) + " bytes reaches beyond the end");
  param.name = r.text(size);
  param.aux = param.name.starts_with("aux:");
  if (param.aux || param.name.starts_with("arg:")) param.name.erase(0, 4);
  return {};
}

}  // namespace

Result<std::vector<Param>> parse_params(std::span<const unsigned char> bytes) {
  Reader r(bytes);
  uint64_t magic = 0, reserved = 0, count = 0, names = 0;
  TENON_TRY(r.read(&magic));
  if (magic != kList)
    return invalid("byte 0: this is no list of MXNet's NDArrays: it begins with " + std::to_string(magic));
  TENON_TRY(r.read(&reserved));
  TENON_TRY(r.read(&count));
  if (count > r.left() / 4 || count > kMostNodes)
    return r.error(std::to_string(count) + " tensors in " + std::to_string(r.left()) + " bytes");
  std::vector<Param> params;
  std::vector<char> present;
  for (uint64_t i = 0; i < count; ++i) {
    Param param;
    bool there = false;
    TENON_TRY(read_tensor(r, param, &there).at("tensor " + std::to_string(i)));
    params.push_back(std::move(param));
    present.push_back(there);
  }
  TENON_TRY(r.read(&names));
  if (names != 0 && names != count)
    return r.error(std::to_string(names) + " names for " + std::to_string(count) + " tensors");
  for (uint64_t i = 0; i < names; ++i) TENON_TRY(read_name(r, params[i]).at("name " + std::to_string(i)));
  if (r.left() > 0) return r.error(std::to_string(r.left()) + " bytes follow the last name");
  std::vector<Param> out;
  for (size_t i = 0; i < params.size(); ++i)
    if (present[i]) out.push_back(std::move(params[i]));
  return out;
}

}  // namespace tenon::mxnet
