// The dtypes and shapes of a subgraph's inputs, and which sizes a program leaves open. Tested by tests/unit/bindings/mxnet_signature_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::plugin {

// One entry after the other: dtype (MXNet's number), rank, sizes.
using Signature = std::vector<int64_t>;

// A signature in which symbol k stands for a size as -1 - k. It stands for sizes of 2 and more: a size of 0 or 1 changes what
// broadcasting does.
using Pattern = std::vector<int64_t>;

void append(Signature& to, int dtype, const unsigned* sizes, int rank);
void append(Signature& to, int dtype, const int64_t* sizes, int rank);

// Whether the pattern describes the signature. A symbol has one size wherever it stands.
bool matches(const Pattern& pattern, const Signature& signature);

// Whether one pattern can describe both: they differ only in sizes of 2 and more.
bool comparable(const Signature& a, const Signature& b);

// The pattern of comparable signatures: a size that is the same in all is a constant; other sizes are symbols. Two sizes that are
// equal to each other in every signature share a symbol.
Pattern generalize(const std::vector<Signature>& seen);

bool has_symbols(const Pattern& pattern);

struct InputType {
  tenon_dtype dtype;
  std::string dims;  // "s0,3,224,224"
};
// Throws Failure for a dtype that Tenon does not take from MXNet.
std::vector<InputType> input_types(const Pattern& pattern);

// Throws Failure for bool, bf16 and unknown numbers.
tenon_dtype dtype_of(int number);

}  // namespace tenon::plugin
