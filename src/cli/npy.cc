// See npy.h. Tested by tests/cli_test.py.
#include "src/cli/npy.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "src/cli/verbs.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16},
                             {"<i8", DType::i64}, {"<i4", DType::i32}, {"<i2", DType::i16},
                             {"|i1", DType::i8},  {"|u1", DType::u8},  {"|b1", DType::b8}};

// The text after 'key': in the header, which is a Python dictionary.
std::string_view entry(std::string_view header, std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == header.npos) return {};
  at = header.find(':', at);
  if (at == header.npos) return {};
  header.remove_prefix(at + 1);
  while (!header.empty() && header[0] == ' ') header.remove_prefix(1);
  return header;
}

Result<std::vector<int64_t>> read_shape(std::string_view text) {
  std::vector<int64_t> shape;
  if (text.empty() || text[0] != '(') return invalid("no shape");
  text.remove_prefix(1);
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (!text.empty() && text[0] == ')') return shape;
    int64_t n = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || n < 0) return invalid("an unreadable shape");
    shape.push_back(n);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
}

Result<HostTensor> decode(const std::string& file) {
  if (file.size() < 10 || std::string_view(file).substr(0, 6) != kMagic) return invalid("not an .npy file");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) return unsupported("version " + std::to_string(version) + " of the format");
  size_t begin = version == 1 ? 10 : 12, length = byte(8) | byte(9) << 8;
  if (file.size() < begin) return invalid("the file ends early");
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > file.size() - begin) return invalid("the file ends early");
  const std::string_view header = std::string_view(file).substr(begin, length);
  const std::string_view descr = entry(header, "descr"), order = entry(header, "fortran_order");
  std::optional<DType> dtype;
  for (const Descr& d : kDescrs)
    if (descr.size() > 5 && descr.substr(1, 3) == d.text) dtype = d.dtype;
  if (!dtype)
    return unsupported("dtype " + std::string(descr.substr(0, std::min<size_t>(descr.find(','), 20))));
  if (!order.starts_with("False")) return unsupported("Fortran order");
  TENON_ASSIGN(std::vector<int64_t> shape, read_shape(entry(header, "shape")));
  const auto bytes = element_bytes(*dtype, shape);
  if (!bytes || static_cast<size_t>(*bytes) != file.size() - begin - length)
    return invalid("the file's size is not that of its shape");
  HostTensor tensor(*dtype, std::move(shape));
  if (*bytes > 0) std::memcpy(tensor.bytes.data(), file.data() + begin + length, static_cast<size_t>(*bytes));
  return tensor;
}

}  // namespace

Result<HostTensor> read_npy(const std::string& path) {
  TENON_ASSIGN(std::string file, read_file(path));
  auto tensor = decode(file);
  return tensor.ok() ? tensor : Result<HostTensor>(tensor.status().at(path));
}

Status write_npy(const std::string& path, const HostTensor& tensor) {
  if (is_narrow(tensor.dtype) && tensor.dtype != DType::f16) {
    HostTensor wide(DType::f32, tensor.shape);
    for (int64_t i = 0; i < tensor.count(); ++i) wide.set(i, tensor.get(i));
    return write_npy(path, wide);
  }
  std::string header = "{'descr': '";
  for (const Descr& d : kDescrs)
    if (d.dtype == tensor.dtype) header += d.text;
  header += "', 'fortran_order': False, 'shape': (";
  for (int64_t n : tensor.shape) header += std::to_string(n) + ",";
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file(kMagic);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  file += header;
  file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  std::FILE* out = std::fopen(path.c_str(), "wb");
  if (!out) return system_error(path);
  const bool written = std::fwrite(file.data(), 1, file.size(), out) == file.size();
  if (std::fclose(out) != 0 || !written) return system_error(path);
  return {};
}

}  // namespace tenon::cli
