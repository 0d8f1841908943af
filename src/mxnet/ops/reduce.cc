#include "src/mxnet/table.h"
namespace tenon::mxnet {
std::span<const Row> reduce_rows() { return {}; }
}  // namespace tenon::mxnet
