// See operations.h.
#include "backends/nvidia/cudnn/operations.h"

#include "backends/library/tensor.h"

namespace tenon::cudnn {
namespace {

constexpr int64_t kFirstBetween =
    1000;  // the first id of intermediate values; ids of the call's tensors begin at 1

}  // namespace

DnnDataType library_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return kDnnF64;
    case DType::f16: return kDnnF16;
    case DType::bf16: return kDnnBf16;
    default: return kDnnF32;
  }
}

Result<const Descriptor*> Operations::finished(Descriptor tensor, const Shape& shape, DnnDataType type,
                                               int64_t id) {
  TENON_TRY(tensor.set(kDnnTensorId, kDnnTypeInt64, id));
  TENON_TRY(tensor.set(kDnnTensorDataType, kDnnTypeDataType, type));
  TENON_TRY(tensor.set(kDnnTensorAlignment, kDnnTypeInt64, alignment));
  TENON_TRY(tensor.set(kDnnTensorDims, kDnnTypeInt64, shape.dims));
  TENON_TRY(tensor.set(kDnnTensorStrides, kDnnTypeInt64, shape.strides));
  TENON_TRY(done(std::move(tensor)));
  return &last();
}

Result<const Descriptor*> Operations::tensor(const Shape& shape, DType dtype, const char* what) {
  TENON_ASSIGN(Descriptor made, make(kDnnTensor, what));
  return finished(std::move(made), shape, library_type(dtype), ++tensors_);
}

Result<const Descriptor*> Operations::number(const char* what) {
  TENON_ASSIGN(Descriptor made, make(kDnnTensor, what));
  TENON_TRY(made.set(kDnnTensorIsNumber, kDnnTypeBool, true));
  const std::vector<int64_t> one(4, 1);
  return finished(std::move(made), {one, one}, kDnnF32, ++tensors_);
}

Result<const Descriptor*> Operations::between(std::vector<int64_t> dims, DnnDataType type, const char* what) {
  TENON_ASSIGN(Descriptor made, make(kDnnTensor, what));
  TENON_TRY(made.set(kDnnTensorIsVirtual, kDnnTypeBool, true));
  std::vector<int64_t> strides = library::plain_strides(dims);
  return finished(std::move(made), {std::move(dims), std::move(strides)}, type, kFirstBetween + between_++);
}

Status Operations::done(Descriptor part) {
  TENON_TRY(part.finalize());
  parts_.push_back(std::make_unique<Descriptor>(std::move(part)));
  return {};
}

Status Operations::operation(Descriptor part) {
  TENON_TRY(done(std::move(part)));
  operations_.push_back(last().raw());
  return {};
}

Status Operations::apply(Descriptor how, const Applied& applied) {
  TENON_TRY(done(std::move(how)));
  TENON_ASSIGN(Descriptor operation, make(applied.type, applied.what));
  TENON_TRY(operation.set(applied.is, last()));
  for (const auto& [attribute, tensor] : applied.tensors)
    if (tensor) TENON_TRY(operation.set(attribute, *tensor));
  return this->operation(std::move(operation));
}

Status Operations::pointwise(const Pointwise& p) {
  TENON_ASSIGN(Descriptor mode, make(kDnnPointwise, "a map"));
  TENON_TRY(mode.set(kDnnPointwiseMode, kDnnTypePointwise, p.mode));
  TENON_TRY(mode.set(kDnnPointwiseCompute, kDnnTypeDataType, kDnnF32));
  if (p.axis >= 0) TENON_TRY(mode.set(kDnnPointwiseAxis, kDnnTypeInt64, p.axis));
  return apply(
      std::move(mode),
      {kDnnPointwiseOperation,
       "the operation of a map",
       kDnnPointwiseIs,
       {{kDnnPointwiseX, p.x}, {kDnnPointwiseB, p.b}, {kDnnPointwiseT, p.t}, {kDnnPointwiseY, p.y}}});
}

Status Operations::product(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  TENON_ASSIGN(Descriptor how, make(kDnnProduct, "a product"));
  TENON_TRY(how.set(kDnnProductCompute, kDnnTypeDataType, kDnnF32));
  return apply(std::move(how), {kDnnProductOperation,
                                "the operation of a product",
                                kDnnProductIs,
                                {{kDnnProductA, &a}, {kDnnProductB, &b}, {kDnnProductC, &c}}});
}

Status Operations::reduce(DnnReduction mode, const Descriptor& x, const Descriptor& y) {
  TENON_ASSIGN(Descriptor how, make(kDnnReduction, "a reduction"));
  TENON_TRY(how.set(kDnnReductionMode, kDnnTypeReduction, mode));
  TENON_TRY(how.set(kDnnReductionCompute, kDnnTypeDataType, kDnnF32));
  return apply(std::move(how), {kDnnReductionOperation,
                                "the operation of a reduction",
                                kDnnReductionIs,
                                {{kDnnReductionX, &x}, {kDnnReductionY, &y}}});
}

Result<Descriptor> Operations::graph(DnnHandle handle) const {
  TENON_ASSIGN(Descriptor graph, make(kDnnGraph, "its graph"));
  if (handle) TENON_TRY(graph.set(kDnnGraphHandle, kDnnTypeHandle, handle));
  TENON_TRY(graph.set_raw(kDnnGraphOperations, kDnnTypeDescriptor, static_cast<int64_t>(operations_.size()),
                          operations_.data()));
  return graph;
}

}  // namespace tenon::cudnn
