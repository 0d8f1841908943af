// See problem.h.
#include "backends/nvidia/cudnn/problem.h"

namespace tenon::cudnn {

Work work_of(std::span<const Operand* const> operands, const Sizes& sizes) {
  Work work;
  bool nothing = false;
  for (const Operand* o : operands) {
    int64_t bytes = size_of(o->dtype);
    work.tensors.push_back({o->buffer, sizes.eval(o->offset) * bytes, sizes.eval(o->shape)});
    for (int64_t d : work.tensors.back().dims) bytes *= d;
    nothing = nothing || bytes == 0;
    work.result_bytes = bytes;
  }
  work.empty = work.result_bytes == 0;
  work.zeros = !work.empty && nothing;
  return work;
}

std::string by(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t v : dims) text += (text.empty() ? "" : "x") + std::to_string(v);
  return text;
}

void add_to_key(std::string& key, const std::vector<int64_t>& list) {
  key.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(int64_t));
}

}  // namespace tenon::cudnn
