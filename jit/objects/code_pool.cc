// See code_pool.h.
#include "jit/objects/code_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "src/base/no_fork.h"

namespace tenon::jit {
namespace {

constexpr size_t kReservation = size_t{64} << 20;  // address space, not memory

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

struct CodePool::Impl {
  std::mutex mutex;
  std::map<char*, size_t> free;  // by address; adjacent ranges are merged
  int64_t in_use = 0;

  Result<char*> take(size_t bytes) {
    const NoFork no_fork;
    std::lock_guard lock(mutex);
    auto it = free.begin();
    while (it != free.end() && it->second < bytes) ++it;
    if (it == free.end()) {
      size_t size = std::max(kReservation, bytes);
      void* at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) return system_error("memory for code: mmap");
      it = free.emplace(static_cast<char*>(at), size).first;
    }
    auto [at, size] = *it;
    free.erase(it);
    if (size > bytes) free.emplace(at + bytes, size - bytes);
    in_use += static_cast<int64_t>(bytes);
    return at;
  }

  void give_back(char* at, size_t bytes) {
    const NoFork no_fork;
    std::lock_guard lock(mutex);
    in_use -= static_cast<int64_t>(bytes);
    auto next = free.lower_bound(at);
    if (next != free.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free.erase(next);
    }
    if (next != free.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free.emplace(at, bytes);
  }
};

CodePool::CodePool() : impl_(new Impl) {}

CodePool& CodePool::get() {
  static CodePool& pool = *new CodePool;
  return pool;
}

Result<std::shared_ptr<void>> CodePool::install(size_t bytes, const std::function<Status(char* at)>& write) {
  bytes = (std::max<size_t>(bytes, 1) + page_size() - 1) / page_size() * page_size();
  TENON_ASSIGN(char* at, impl_->take(bytes));
  std::shared_ptr<void> pages(
      at, [impl = impl_, bytes](void* p) { impl->give_back(static_cast<char*>(p), bytes); });
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE))
    return system_error("memory for code: mprotect to writable");
  Status written = write(at);
  if (mprotect(at, bytes, PROT_READ | PROT_EXEC))
    return system_error("memory for code: mprotect to executable");
  TENON_TRY(written);
  return pages;
}

int64_t CodePool::bytes_in_use() const {
  const NoFork no_fork;
  std::lock_guard lock(impl_->mutex);
  return impl_->in_use;
}

}  // namespace tenon::jit
