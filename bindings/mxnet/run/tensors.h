// One side of a call, as MXNet passes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bindings/mxnet/run/signature.h"

namespace tenon::plugin {

struct Tensors {
  const int64_t* const* shapes;
  const int* ranks;
  void* const* data;
  const int* dtypes;
  const size_t* versions;  // how often each variable has been written
  const int* storage;      // 0: dense
  int count;

  // Of tensor i; throws Failure if it is sparse or of a dtype that Tenon does not take.
  tenon_tensor view(int i) const;
};

// The size of a dense tensor.
size_t bytes_of(const tenon_tensor& tensor);

}  // namespace tenon::plugin
