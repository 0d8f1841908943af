// Arrangement: how a primitive gets the arrays of a problem: which arrays it reads in place, which are copied or reordered first,
// and where the copies lie in scratch. Equal calls share one arrangement, whatever the values of their weights; each call owns
// only its packed weights. Any thread. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <atomic>
#include <mutex>

#include "backends/onednn/problem.h"

namespace tenon::onednn {

class Arrangement {
 public:
  // A constant operand, and the layout that the library wants. Each call packs it once. `fixed` of run() has the same order.
  struct Pack {
    Array given;
    dnnl::memory::desc wanted;
  };

  int64_t scratch_bytes() const { return scratch_; }
  // Memory of its primitives, approximately: oneDNN does not tell it. Most of it is machine code.
  int64_t bytes() const {
    return static_cast<int64_t>(sizeof *this) + static_cast<int64_t>(runs_.size()) * kPrimitiveBytes;
  }
  const std::vector<Pack>& packs() const { return packs_; }
  const std::string& text() const { return text_; }  // for describe()
  Status run(void* const* buffers, char* scratch, void* const* fixed) const;

 private:
  friend class Arranger;
  static constexpr int64_t kPrimitiveBytes = 96
                                             << 10;  // measured: products take 75 KiB, convolutions 115 KiB
  struct Place {
    enum class Kind { buffer, scratch, fixed } kind = Kind::scratch;
    int index = -1;      // of the buffer, or of the pack
    int64_t offset = 0;  // bytes
  };
  struct Slot {
    dnnl::memory::desc descriptor;
    Place place;
  };
  struct PlainCopy {
    Place from, to;
    std::vector<int64_t> dims, from_strides, to_strides;
    int64_t item;
  };
  struct Zero {
    int64_t offset, bytes;
  };
  struct Run {
    dnnl::primitive primitive;
    std::vector<std::pair<int, int>> arguments;  // the library's number of the argument, and the slot
  };
  // The library's objects that one run uses. Concurrent runs use different sets.
  struct Set {
    dnnl::stream stream;
    std::vector<dnnl::memory> memories;
    std::vector<std::vector<dnnl_exec_arg_t>> arguments;
  };
  std::unique_ptr<Set> take() const;

  int threads_ = 1;  // the most that the library may use
  int64_t scratch_ = 0;
  std::vector<Slot> slots_;
  std::vector<Zero> zeros_;
  std::vector<PlainCopy> before_, after_;
  std::vector<Run> runs_;
  std::vector<Pack> packs_;
  std::string text_;

  mutable std::atomic<bool> used_{false};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Set>> free_;
};

// The arrangement of `asked`, which is the spec at concrete sizes and not empty. environment: the library refuses the problem.
Result<std::shared_ptr<const Arrangement>> arrangement_of(const Spec& spec, const Problem& asked);

// ", post-ops: bias gelu" or "", for describe().
std::string post_op_names(const Spec& spec, bool bias);

}  // namespace tenon::onednn
