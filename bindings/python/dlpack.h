/* The parts of DLPack 1.3 that the extension module uses, under names of its own, so that no header of DLPack is needed. */
#ifndef TENON_PYTHON_DLPACK_H_
#define TENON_PYTHON_DLPACK_H_

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
