// The interface to oneDNN. A primitive is made once per problem, also if several threads ask at once. The process keeps the most
// recently used ones. Failures come back as sentences; no exception leaves. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include "backends/onednn/problem.h"

namespace tenon::onednn {

// What the library offers for a problem with exactly the strides that the problem states.
struct Offer {
  std::string why;         // not empty: the library refuses, for this reason
  std::string name;        // the name of the implementation
  bool reference = false;  // not worth using: reference code, or sums of integers that are rounded
  bool gemm = false;
  dnnl::primitive_desc descriptor;
  dnnl::primitive primitive;  // made by the first offer() with `make`

  const std::string& text() const { return why.empty() ? name : why; }
};

const dnnl::engine& engine();
dnnl::memory::data_type type_of(DType t);
// The library's descriptor of the array; nothing if the library does not take such strides (negative, zero, overlapping).
std::optional<dnnl::memory::desc> descriptor_of(const Array& a);
// A layout between `given` weights and `wanted`, if two reorders through it take a third of the time of one; otherwise nothing.
std::optional<dnnl::memory::desc> halfway(const Array& given, const dnnl::memory::desc& wanted);

// The library's offer for a problem, never null. make: also makes the primitive.
std::shared_ptr<const Offer> offer(const Problem& problem, bool make);

// A problem with the strides that the library should get, and the offer for it. An array that the library cannot read or write in
// place, or only slowly, gets plain strides and has to be copied. If the library would multiply by constant weights without
// packing them, the product becomes a 1x1 convolution, whose weights it packs.
struct Algorithm {
  Problem given;    // the problem in the chosen form, with the strides that its arrays have
  Problem problem;  // the same with the strides that the library wants
  std::shared_ptr<const Offer> offer;
};
Algorithm choose(const Problem& problem, bool make);
// Whether the problem is a transposed convolution of f32 with strides and a bias or an epilogue. For strides the library (3.2) adds up
// many channels in several parts, and it adds the bias and computes the epilogue in each of them.
bool has_wrong_epilogue(const Problem& problem);

// "matmul 128x768x768 f32 brg:avx512_core". algorithm: what computes it, such as Offer::text().
std::string title(const Problem& problem, std::string_view algorithm, const std::string& name);

}  // namespace tenon::onednn
