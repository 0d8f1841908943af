// See problem.h.
#include "backends/nvidia/cudnn/problem.h"

#include <algorithm>

namespace tenon::cudnn {

PlacedProblem placed(std::span<const Operand* const> operands, const Sizes& sizes) {
  PlacedProblem p;
  for (const Operand* o : operands) p.tensors.push_back(library::at_sizes(*o, sizes));
  p.empty = p.tensors.back().count() == 0;
  p.zeros = !p.empty && std::ranges::any_of(p.tensors, [](const auto& t) { return t.count() == 0; });
  return p;
}

}  // namespace tenon::cudnn
