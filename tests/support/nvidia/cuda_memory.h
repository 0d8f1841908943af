// The buffers of a kernel that runs on the host, with canaries around them, and the orders in which its threads run. Used by
// emit_cuda_test.cc, emit_cuda_tiles_test.cc and emit_cuda_cluster_test.cc.
#pragma once

#include "tests/support/kernel_gen.h"

namespace tenon::jit {

inline constexpr int kThreadOrders[] = {0, 1, 7};  // forward, backward, at random

// Copies of the buffers of a case between canaries. Each begins `shift` bytes behind a 64-byte aligned address.
class Memory {
 public:
  Memory(const BufferBytes& data, size_t shift = 0) : sizes_(data.size()) {
    for (size_t i = 0; i < data.size(); ++i) {
      sizes_[i] = data[i].size();
      blocks_.emplace_back(data[i].size() + kCanaries + 64 + shift, kCanary);
      char* at = blocks_.back().data() + 64;
      at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64 + shift;
      std::copy(data[i].begin(), data[i].end(), at);
      pointers.push_back(at);
    }
  }
  BufferBytes bytes() const {
    BufferBytes out;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const char* at = static_cast<const char*>(pointers[i]);
      out.emplace_back(at, at + sizes_[i]);
    }
    return out;
  }
  bool intact() const {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const char* at = static_cast<const char*>(pointers[i]);
      for (const char& c : blocks_[i])
        if ((&c < at || &c >= at + sizes_[i]) && c != kCanary) return false;
    }
    return true;
  }
  std::vector<void*> pointers;

 private:
  static constexpr char kCanary = 0x39;
  static constexpr size_t kCanaries = 1024;  // bytes of canaries behind a buffer
  std::vector<std::vector<char>> blocks_;
  std::vector<size_t> sizes_;
};

}  // namespace tenon::jit
