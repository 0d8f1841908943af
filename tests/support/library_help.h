// Helpers to test how libraries are opened at run time, for tests/unit/backends/cuda_driver_test.cc, tests/unit/*/*_library_test.cc
// and tests/unit/backends/cudnn_plan_test.cc.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "tests/support/paths.h"

namespace tenon {

// An environment variable whose value the destructor restores.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
  }
  Variable(const Variable&) = delete;
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  void set(const std::string& value) const { setenv(name_, value.c_str(), 1); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The path of NVIDIA's own library by one of these names: the file or a file of the directory that the variable named when the test
// began; else one of the toolkit, of what `./dev test --only nvidia` installed, or of the wheels in .venv, in these folders of a
// wheel. "" if there is none.
inline std::string nvidia_library(const char* variable, std::initializer_list<const char*> names,
                                  std::initializer_list<const char*> folders_of_wheels) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<std::string> wheels{std::string(kSourceDirectory) + "/build/nvidia"},
      folders{"/usr/local/cuda/lib64"};
  for (const auto& entry : fs::directory_iterator(std::string(kSourceDirectory) + "/.venv/lib", ignored))
    wheels.push_back(entry.path().string() + "/site-packages");
  for (const std::string& wheel : wheels)
    for (const char* folder : folders_of_wheels) folders.push_back(wheel + "/nvidia/" + folder);
  if (const char* given = std::getenv(variable); given && std::string(given) != "off") {
    if (!fs::is_directory(given)) return given;
    folders.insert(folders.begin(), given);
  }
  for (const std::string& folder : folders)
    for (const char* name : names)
      if (fs::exists(folder + "/" + name, ignored)) return folder + "/" + name;
  return "";
}

// For each function: renames it in a copy of the library, and checks that open(path) reports it as missing.
template <class Open>
void check_lacking(const char* library, std::span<const char* const> functions, const Open& open) {
  std::ifstream file(library, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(whole.empty());
  char directory[] = "/tmp/tenon-lacking-XXXXXX";
  ASSERT_TRUE(mkdtemp(directory));
  for (const char* function : functions) {
    std::string copy = whole;
    const std::string name = std::string(1, '\0') + function + std::string(1, '\0');
    size_t times = 0;
    for (size_t at = copy.find(name); at != copy.npos; at = copy.find(name, at + 1), ++times)
      copy[at + 1] = 'k';
    ASSERT_GT(times, 0u) << function;
    const std::string path = std::string(directory) + "/" + function + ".so";
    std::ofstream(path, std::ios::binary) << copy;
    const auto lacking = open(path);
    EXPECT_EQ(lacking.status().code(), Code::environment);
    EXPECT_EQ(lacking.status().message(), path + " has no " + function);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace tenon
