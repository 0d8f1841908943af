// Convolutions that winograd::Convolution computes in less time than the library, and gradients of their weights: 3x3 windows at stride 1,
// in f32, of images whose channels are last. Sums and products with other operands and an activation follow in the same pass. The sums
// of neighbouring results share products, so an infinity in one spreads to the others: a step that finds a sum that is not finite runs
// the library's call instead.
// Tested by tests/unit/backends/winograd_test.cc.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/library/packed_store.h"
#include "backends/onednn/problem.h"
#include "backends/onednn/steps/repeated.h"
#include "backends/winograd/convolution.h"
#include "backends/winograd/weight_gradient.h"

namespace tenon::onednn {

// A problem of windows of 3x3: a convolution, or the gradient of its weights. `out` is then the gradient of its results.
struct WindowsOfThree {
  static constexpr size_t kMostTerms = 6;
  struct Term : library::Place {
    winograd::Term term;  // without its operand
  };
  winograd::Shape shape;
  bool of_weights = false;  // a gradient
  library::Place in, weights, out;
  std::vector<Term> terms;      // at most kMostTerms
  winograd::Epilogue epilogue;  // without the terms
};

// Whether a node is one of these if it reads images whose channels are dense, as far as its sizes are known.
bool wants_dense_channels(const Graph& graph, const Node& node);
// Whether the step of a spec is one of these at some sizes, as far as its windows are known.
bool may_use_winograd(const Spec& spec);
// Nothing if the problem is none of these or the library computes it in less time.
std::optional<WindowsOfThree> windows_of_three(const Spec& spec, const Problem& asked);

// The transformed windows of constant weights. They serve images of all sizes. Any thread.
class TransformedWindows {
 public:
  // weights: the first byte of the constant. Throws std::bad_alloc.
  std::shared_ptr<char> of(const WindowsOfThree& problem, const winograd::Convolution& convolution,
                           const void* weights, library::PackedStore& store);

 private:
  struct Transformed {
    int64_t offset;
    std::array<int64_t, 4> strides;
    std::shared_ptr<char> windows;
  };
  std::mutex mutex_;  // guards the member below
  std::vector<Transformed> transformed_;
};

std::unique_ptr<Step> weight_gradient_step(const WindowsOfThree& problem, int threads, Repeated otherwise);
// windows: null if each run transforms the weights. otherwise: the library's call.
std::unique_ptr<Step> winograd_step(const WindowsOfThree& problem, const winograd::Convolution& convolution,
                                    std::shared_ptr<char> windows, Repeated otherwise);

}  // namespace tenon::onednn
