// Kernel: a graph of maps and reductions as one kernel of the CPU back end, which a step of another back end runs on the calling
// thread. Tested by tests/unit/backends/recurrent_test.cc and attention_test.cc.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/backend/backend.h"

namespace tenon::inner {

class Kernel {
 public:
  // text: a graph whose outputs have strides. Its kernel is compiled, unless the process has it already.
  static Result<std::unique_ptr<Kernel>> make(std::string_view text, const Allocator& allocator);

  // The kernel at these values of the graph's symbols, by name. A symbol without a value is 1.
  using Values = std::initializer_list<std::pair<std::string_view, int64_t>>;
  Result<std::unique_ptr<Step>> prepare(Values values) const;

  std::string describe() const { return kernel_->describe(); }
  int compiled() const { return kernel_->kernels_compiled; }

 private:
  Graph graph_;
  std::vector<Layout> layouts_;
  std::unique_ptr<Executable> kernel_;
};

// Runs a step of Kernel::prepare() on the calling thread. buffers: the graph's inputs that it reads, then its outputs.
Status run(const Step& step, void* const* buffers, char* scratch);

}  // namespace tenon::inner
