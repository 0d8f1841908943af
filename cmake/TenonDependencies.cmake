# Finds the libraries that Tenon links. Afterwards these targets exist: fmt::fmt-header-only, Threads::Threads,
# OpenMP::OpenMP_CXX, nlohmann_json::nlohmann_json, tenon_xxhash, tenon_zstd, tenon_llvm (LLVM 19, static) and, with TENON_ONEDNN, DNNL::dnnl (oneDNN 3).
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

# tenon_archive(NAME LIBRARY HEADER): target tenon_NAME. Prefers the static library, so that libtenon.so depends on fewer
# shared ones.
function(tenon_archive name library header)
  find_path(TENON_${name}_INCLUDE ${header} REQUIRED)
  find_library(TENON_${name}_LIBRARY NAMES lib${library}.a ${library} REQUIRED)
  add_library(tenon_${name} INTERFACE)
  target_include_directories(tenon_${name} SYSTEM INTERFACE ${TENON_${name}_INCLUDE})
  target_link_libraries(tenon_${name} INTERFACE ${TENON_${name}_LIBRARY})
endfunction()
tenon_archive(xxhash xxhash xxhash.h)
tenon_archive(zstd zstd zstd.h)

find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19)
llvm_map_components_to_libnames(TENON_LLVM_LIBRARIES orcjit passes native x86codegen x86asmparser asmparser irreader)
# LLVM links the shared zstd. The static one replaces it, so that libtenon.so does not depend on it.
get_target_property(llvm_support LLVMSupport INTERFACE_LINK_LIBRARIES)
string(REPLACE "zstd::libzstd_shared" "${TENON_zstd_LIBRARY}" llvm_support "${llvm_support}")
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${llvm_support}")
add_library(tenon_llvm INTERFACE)
target_link_libraries(tenon_llvm INTERFACE ${TENON_LLVM_LIBRARIES})
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} from ${LLVM_DIR}")

if(TENON_ONEDNN)
  set(TENON_VENV ${PROJECT_SOURCE_DIR}/.venv CACHE PATH "Virtual environment that holds oneDNN's wheels")
  find_package(dnnl 3 CONFIG HINTS ${TENON_VENV}/lib/cmake/dnnl)
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN 3 not found: run ./dev build, give -Ddnnl_DIR=, or build without it: -DTENON_ONEDNN=OFF")
  endif()
  message(STATUS "oneDNN ${dnnl_VERSION} from ${dnnl_DIR}")
endif()
