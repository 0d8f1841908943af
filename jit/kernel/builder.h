// KernelBuilder: appends statements to a block of a kernel. It makes the result of each statement and gives it
// its type. Tested by tests/unit/jit/kernel/kernel_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jit/kernel/kernel.h"

namespace tenon::jit {

class KernelBuilder {
 public:
  KernelBuilder(Kernel& kernel, Block& block) : kernel_(kernel), block_(block) {}

  // Appends a statement with a new result. A cast to a narrow float has a result of its compute type.
  Ref add(Stmt s, DType type) {
    s.type = type;
    const Ref result = s.result = kernel_.add_ref(compute_type(type));
    block_.push_back(std::move(s));
    return result;
  }
  // The type follows from the row.
  Ref op(OpId row, std::vector<Ref> args) {
    std::vector<DType> types;
    for (Ref arg : args) types.push_back(kernel_.types[arg]);
    const Result<DType> type = scalar_result_type(row, types);
    TENON_CHECK(type.ok(), type.status().message());
    return add({.kind = Stmt::Kind::op, .op = row, .args = std::move(args)}, *type);
  }
  Ref cast(Ref value, DType to) { return add({.kind = Stmt::Kind::cast, .args = {value}}, to); }
  Ref bitcast(Ref value, DType to) { return add({.kind = Stmt::Kind::bitcast, .args = {value}}, to); }
  Ref constant(DType type, Scalar value) {
    return add({.kind = Stmt::Kind::constant, .literal = value}, type);
  }
  Ref size(int number) { return add({.kind = Stmt::Kind::size, .size = number}, DType::i64); }
  Ref load(int buffer, Address at) {
    return add({.kind = Stmt::Kind::load, .buffer = buffer, .address = std::move(at)},
               compute_type(kernel_.buffers[static_cast<size_t>(buffer)].type));
  }
  void store(int buffer, Address at, Ref value) {
    block_.push_back(
        {.kind = Stmt::Kind::store, .args = {value}, .buffer = buffer, .address = std::move(at)});
  }
  // for AXIS { body }, or for simd AXIS { body }. body(KernelBuilder&) makes the body.
  template <class Body>
  void loop(Axis axis, bool simd, const Body& body) {
    Stmt loop{.kind = Stmt::Kind::loop, .axes = {axis}, .simd = simd};
    KernelBuilder inner(kernel_, loop.body);
    body(inner);
    block_.push_back(std::move(loop));
  }
  // A loop variable, named by the prefix and its number.
  Ref variable(const char* prefix) {
    return kernel_.add_ref(DType::i64, prefix + std::to_string(kernel_.types.size()));
  }

 private:
  Kernel& kernel_;
  Block& block_;
};

}  // namespace tenon::jit
