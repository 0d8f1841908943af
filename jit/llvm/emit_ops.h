// OpEmitter: the part of emit_llvm.cc that emits scalar instructions: templates of the op table, checks of
// operands, and calls of the host for rows without a template. Tested by tests/unit/jit/llvm/emit_test.cc,
// tests/fuzz/emit_random_test.cc and tests/golden/jit/*.tn.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/llvm/emit_lanes.h"

namespace tenon::jit {

class OpEmitter : protected LaneEmitter {
 protected:
  using LaneEmitter::LaneEmitter;

  // op, cast, bitcast, constant, size, index.
  void emit_scalar(const Stmt& s);
  std::string host_functions() const;  // declarations of the functions that are called, one per line

  std::string fault_;  // the address of the fault word

 private:
  void emit_op(const Stmt& s);
  void emit_check(const Stmt& s, const std::vector<std::string>& operands, DType operand, int lanes);
  // Calls the eval column of a row for each lane that exists, with the operands in memory.
  std::string call_host(const Op& row, const std::vector<std::string>& operands, DType operand, int lanes,
                        const std::string& name);
  // The same if one of the bools `slow` (one per lane) holds. Otherwise the result is `otherwise`, without a
  // call.
  std::string call_host_if(std::string slow, const std::string& otherwise, const Op& row,
                           const std::vector<std::string>& operands, DType operand, int lanes,
                           const std::string& name);
  void emit_host_call(const Stmt& s, const std::vector<std::string>& operands, DType operand, int lanes);
  // fmod of floats. False: the caller uses the spelling of the row.
  bool emit_remainder(const Stmt& s, const std::vector<std::string>& operands, DType operand, int lanes);

  // Random numbers of consecutive places, computed from half as many blocks. False: the places are not
  // consecutive.
  bool emit_random_words(const Stmt& s);

  std::string call_stage_;          // memory for the operands and results of a call of the host
  std::set<std::string> declared_;  // declarations of functions of the host
};

}  // namespace tenon::jit
