// Gives each test of the kernels on disk its own directory.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/store/disk_cache.h"

namespace tenon {

struct ScratchDirectory {
  std::filesystem::path path;
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tenon-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

inline StoreOptions at(const std::string& directory, int64_t limit = int64_t{1} << 30) {
  StoreOptions options;
  options.directory = directory;
  options.limit = limit;
  return options;
}

// Replaces the cache of the process while it lives.
struct Disk {
  explicit Disk(const StoreOptions& options) : store(options), cache(store) { DiskCache::replace(&cache); }
  ~Disk() { DiskCache::replace(nullptr); }
  Store store;
  DiskCache cache;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  // Writes a new file, so that a reader that has the old one open does not see the change.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline int files_in(const std::string& path, const std::string& part) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(path))
    count += file.path().filename().string().find(part) != std::string::npos;
  return count;
}

// Runs `work` in a child process. Returns its exit status, or 1000 + the signal that ended it.
template <class BatchedCall>
int in_child(BatchedCall work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Waits until the children have ended, and expects status 0 of each.
inline void expect_all_well(const std::vector<pid_t>& children) {
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace tenon
