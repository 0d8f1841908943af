// npy: NumPy's file format, versions 1 to 3, for whole tensors: little endian, C order. NumPy lacks bf16 and
// floats of 8 bits, so these are written as float32. Tested by tests/cli_test.py.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/ops/eval/host_tensor.h"

namespace tenon::cli {

Result<HostTensor> read_npy(const std::string& path);
Status write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace tenon::cli
