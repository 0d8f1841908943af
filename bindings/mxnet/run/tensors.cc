#include "bindings/mxnet/run/tensors.h"

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {

tenon_tensor Tensors::view(int i) const {
  if (storage && storage[i] != 0) throw Failure("Tenon takes dense tensors; MXNet passes a sparse one");
  return {data[i], {1, 0}, ranks[i], dtype_of(dtypes[i]), const_cast<int64_t*>(shapes[i]), nullptr, 0};
}

size_t bytes_of(const tenon_tensor& tensor) {
  size_t bytes = tensor.dtype.bits / 8u;
  for (int i = 0; i < tensor.ndim; ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace tenon::plugin
