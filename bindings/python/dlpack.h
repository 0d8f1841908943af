/* The parts of DLPack 1.3 that the extension module uses, under names of its own, so that no header of DLPack is needed. */
#ifndef TENON_PYTHON_DLPACK_H_
#define TENON_PYTHON_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint32_t dtype; /* code, bits << 8, lanes << 16 */
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} Tensor; /* DLTensor */

/* Bytes from a tensor's first element to the end of its last one; 0 without elements and if the number is no size of memory. */
static inline size_t bytes_spanned(const Tensor* t) {
  const size_t element = ((t->dtype >> 8 & 0xff) * (t->dtype >> 16) + 7) / 8;
  size_t last = 0, bytes;
  for (int32_t i = 0; i < t->ndim; i++) {
    size_t steps;
    if (t->shape[i] <= 0 || t->strides[i] < 0 ||
        __builtin_mul_overflow((size_t)(t->shape[i] - 1), (size_t)t->strides[i], &steps) ||
        __builtin_add_overflow(last, steps, &last))
      return 0;
  }
  if (last > SIZE_MAX / 4 || __builtin_mul_overflow(last + 1, element, &bytes) || bytes > SIZE_MAX / 4)
    return 0;
  return bytes;
}

typedef struct Managed {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct Managed* self);
  uint64_t flags;
  Tensor tensor;
} Managed; /* DLManagedTensorVersioned */

typedef struct {
  struct {
    uint32_t major, minor;
    void* previous;
  } header;
  /* Allocates a tensor like the prototype. The memory is usable in the order of the current stream of its device. */
  int (*allocate)(Tensor* prototype, struct Managed** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  void* managed_from_object;
  int (*managed_to_object)(Managed* tensor, void** object); /* takes the tensor, unless it fails */
  int (*from_object)(void* object, Tensor* out);            /* `out` borrows; synchronises no stream */
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
} Exchange; /* DLPackExchangeAPI */

enum { CPU = 1 };
typedef struct {
  int32_t type, id;
} Device; /* tenon_device */

#endif /* TENON_PYTHON_DLPACK_H_ */
