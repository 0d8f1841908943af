// Params: the tensors of a `.params` file (MXNet's list of NDArrays): numbers are little-endian.
//
//   file    u64 0x112, u64 0, u64 count, tensor * count, u64 names, name * names      names: 0 or count
//   name    u64 length, bytes                                                         "arg:conv0_weight"
//   tensor  u32 0xF993FAC9 (version 2) or 0xF993FACA (3), i32 storage, shape, device, i32 dtype, data
//           u32 0xF993FAC8 (version 1), shape, device, i32 dtype, data
//           u32 rank (before version 1), u32 * rank, device, i32 dtype, data
//   shape   i32 rank, i64 * rank       device  i32 type, i32 id       storage  0 dense, 1 rows, 2 CSR
// A tensor without a shape has nothing after it (in versions 1 and 2 rank 0; in version 3 rank -1, and rank 0 is a
// scalar). Sparse storage is refused. Tested by tests/unit/mxnet/params_test.cc.
#pragma once

#include <span>

#include "src/ir/dtype.h"
#include "src/mxnet/symbol.h"

namespace tenon::mxnet {

struct Param {
  std::string name;  // without the prefix "arg:" or "aux:"; "" if the file has no names
  bool aux = false;  // whether the prefix was "aux:"
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  size_t offset = 0;  // of the dense row-major bytes in the file; not aligned
  size_t size = 0;    // in bytes
};

// Empty tensors without a shape are left out. The message of a failure names the byte.
Result<std::vector<Param>> parse_params(std::span<const unsigned char> bytes);

}  // namespace tenon::mxnet
