// The library itself: primitives made once per problem, also when several threads ask at once, and kept for the life of
// the process, those of them that were asked for last.
// Failures come back as sentences; no exception leaves. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

// What the library offers for a problem whose arrays lie exactly as the problem says.
struct Offer {
  std::string why;         // not empty: the library refuses
  std::string name;        // of the implementation
  bool reference = false;  // not wanted: the library's reference code, or sums of integers that are not exact
  bool gemm = false;
  dnnl::primitive_desc descriptor;
  dnnl::primitive primitive;  // made when first asked for with `make`
};

const dnnl::engine& engine();
dnnl::memory::data_type type_of(DType t);
// The library's descriptor, nothing where it takes no such strides (negative, overlapping).
std::optional<dnnl::memory::desc> descriptor_of(const Array& a);
// A layout on the way from `given` weights to `wanted`, where two moves take a third of the time of one; else nothing.
std::optional<dnnl::memory::desc> halfway(const Array& given, const dnnl::memory::desc& wanted);

// Never null.
std::shared_ptr<const Offer> offer(const Problem& problem, bool make);

// The problem with every array as the library should get it, and its offer: arrays that it cannot or would better not
// take in place lie elsewhere, plain, and have to be copied. Where the library multiplies matrices without packed weights,
// a product with constant ones is a convolution of 1x1, whose weights it packs.
struct Algorithm {
  Problem given;    // as asked, or the same said in another form; where its arrays lie
  Problem problem;  // where the library wants them
  std::shared_ptr<const Offer> offer;
};
Algorithm choose(const Problem& problem, bool make);

// "matmul 128x768x768 f32 brg:avx512_core"
std::string title(const Problem& problem, const Offer& offer, const std::string& name);

}  // namespace tenon::onednn
