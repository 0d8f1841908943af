# One object target per layer: the libraries of TenonLibrary.cmake consist of the same objects.
# Afterwards TENON_LAYERS lists these targets, the lowest layer first.
set(TENON_LAYERS "")

# tenon_layer(NAME SOURCES globs... LINK targets... [PRIVATE targets...]). A layer without sources is allowed.
function(tenon_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  list(TRANSFORM arg_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${arg_SOURCES})
  if(NOT sources)
    set(sources ${PROJECT_BINARY_DIR}/empty/${name}.cc)
    file(CONFIGURE OUTPUT ${sources} CONTENT "namespace tenon {}\n")
  endif()
  add_library(${name} OBJECT ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE ${arg_PRIVATE})
  # libtenon_internal.so exports every function. Without semantic interposition the compiler still inlines them in their file.
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default VISIBILITY_INLINES_HIDDEN OFF)
  target_compile_options(${name} PRIVATE -fno-semantic-interposition)
  set(TENON_LAYERS ${TENON_LAYERS} ${name} PARENT_SCOPE)
endfunction()

# backends/nvidia is always built: NVIDIA's libraries are opened at run time.
set(backend_sources backends/*.cc backends/reference/*.cc backends/cpu/*.cc backends/rows/*.cc backends/inner/*.cc backends/recurrent/*.cc backends/attention/*.cc backends/products/*.cc backends/winograd/*.cc
    backends/library/*.cc
    backends/nvidia/*/*.cc)
if(TENON_ONEDNN)
  list(APPEND backend_sources backends/onednn/*.cc backends/onednn/*/*.cc)
endif()

tenon_layer(tenon_base SOURCES src/base/*.cc src/base/*/*.cc LINK fmt::fmt-header-only Threads::Threads PRIVATE tenon_xxhash tenon_zstd)
tenon_layer(tenon_ir SOURCES src/ir/*.cc src/ir/*/*.cc LINK tenon_base)
tenon_layer(tenon_ops SOURCES src/ops/*.cc src/ops/*/*.cc LINK tenon_ir)
tenon_layer(tenon_passes SOURCES src/passes/*.cc LINK tenon_ops)
tenon_layer(tenon_runtime SOURCES src/backend/*.cc src/runtime/*.cc src/runtime/*/*.cc LINK tenon_passes)
tenon_layer(tenon_mxnet SOURCES src/mxnet/*.cc src/mxnet/*/*.cc LINK tenon_ops PRIVATE nlohmann_json::nlohmann_json)
tenon_layer(tenon_jit SOURCES jit/*.cc jit/*/*.cc jit/*/*/*.cc LINK tenon_ops)
tenon_layer(tenon_backends SOURCES ${backend_sources} LINK tenon_jit tenon_runtime PRIVATE OpenMP::OpenMP_CXX)
tenon_layer(tenon_api SOURCES src/api/*.cc LINK tenon_runtime tenon_mxnet)

# Embeds the CUDA text that precedes every kernel in the library.
foreach(part IN ITEMS primitives prelude)
  set(cuda_file ${PROJECT_SOURCE_DIR}/jit/cuda/cuda_${part}.cuh)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cuda_file})
  file(READ ${cuda_file} cuda_${part})
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/jit/cuda_texts.cc @ONLY CONTENT [=[
#include "jit/cuda/emit_cuda.h"

namespace tenon::jit {

std::string_view cuda_primitives() { return R"cuda(@cuda_primitives@)cuda"; }
std::string_view cuda_prelude() { return R"cuda(@cuda_prelude@)cuda"; }

}  // namespace tenon::jit
]=])
target_sources(tenon_jit PRIVATE ${PROJECT_BINARY_DIR}/jit/cuda_texts.cc)

target_link_libraries(tenon_jit PRIVATE tenon_llvm)
# Only jit/llvm/orc.cc may include LLVM's headers; for other sources they are not on the include path.
set_source_files_properties(${PROJECT_SOURCE_DIR}/jit/llvm/orc.cc PROPERTIES COMPILE_OPTIONS "-isystem;${LLVM_INCLUDE_DIRS}")
# TENON_CODE_GENERATOR: a hash of everything that may change the machine code of the same LLVM text. It is part of the keys of
# kernels on disk.
set(code_generator "")
foreach(part IN ITEMS LLVMAsmParser LLVMCodeGen LLVMSelectionDAG LLVMX86CodeGen)
  get_target_property(location ${part} LOCATION)
  file(SHA256 ${location} hash)
  string(APPEND code_generator ${hash})
endforeach()
foreach(part IN ITEMS llvm/orc objects/object_slice)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/jit/${part}.cc)
  file(SHA256 ${PROJECT_SOURCE_DIR}/jit/${part}.cc hash)
  string(APPEND code_generator ${hash})
endforeach()
string(SHA256 code_generator "${code_generator}")
string(SUBSTRING ${code_generator} 0 16 code_generator)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/jit/llvm/orc.cc APPEND PROPERTY COMPILE_DEFINITIONS
             TENON_CODE_GENERATOR="${code_generator}")
if(TENON_ONEDNN)
  target_link_libraries(tenon_backends PRIVATE DNNL::dnnl)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/backends/list.cc PROPERTIES COMPILE_DEFINITIONS
  "TENON_HAVE_ONEDNN=$<BOOL:${TENON_ONEDNN}>")
