// The programs of one graph, by signature. Sizes that differ from call to call become symbols, so there are few programs.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "bindings/mxnet/run/signature.h"
#include "tenon/tenon.hpp"

namespace tenon::plugin {

// Any thread may call any function.
class Programs {
 public:
  // compile(pattern): makes a program for the signatures that the pattern describes, or throws.
  explicit Programs(std::function<Program(const Pattern&)> compile) : compile_(std::move(compile)) {}

  // The program for a signature; compiles it if no program's pattern matches. Threads that need a new program wait for one another;
  // nobody waits for a known one. Throws.
  Program program(const Signature& signature);
  // The same, without symbols: for signatures that a program with symbols refuses.
  Program exact(const Signature& signature);

 private:
  struct Variant {
    Pattern pattern;
    Program program;
    uint64_t used;  // when it was last asked for, as a count of requests
  };
  template <class Fits>
  Program find(Fits&& fits);
  Program add(Pattern pattern);

  const std::function<Program(const Pattern&)> compile_;
  std::mutex compiling_;         // taken before lock_
  std::vector<Signature> seen_;  // signatures that needed a new program; with compiling_
  std::mutex lock_;              // of the members below
  std::vector<Variant> variants_;
  uint64_t requests_ = 0;
};

}  // namespace tenon::plugin
