# The shared library libtenon.so.1 (everything but the command line); libtenon_internal.so, through which tests and benchmarks
# reach internal symbols; and the executable `tenon`.

# The manifest include/tenon/abi.txt names every exported function, one per line. The version script is generated from it.
set(abi_manifest ${PROJECT_SOURCE_DIR}/include/tenon/abi.txt)
set(exported "")
if(EXISTS ${abi_manifest})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${abi_manifest})
  file(STRINGS ${abi_manifest} abi_lines)
  foreach(line IN LISTS abi_lines)
    string(REGEX REPLACE "#.*" "" line "${line}")
    string(STRIP "${line}" line)
    if(line)
      string(APPEND exported "    ${line};\n")
    endif()
  endforeach()
endif()
if(exported)
  set(exported "  global:\n${exported}")
endif()
set(version_script ${PROJECT_BINARY_DIR}/tenon.map)
file(CONFIGURE OUTPUT ${version_script} CONTENT "TENON_1 {\n@exported@  local: *;\n};\n" @ONLY)

add_library(tenon SHARED)
add_library(Tenon::tenon ALIAS tenon)
target_link_libraries(tenon PRIVATE ${TENON_LAYERS})
target_include_directories(tenon INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(tenon PROPERTIES SOVERSION 1 VERSION 1.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                       LINK_DEPENDS ${version_script} LINKER_LANGUAGE CXX)
# Exports no symbol of LLVM, fmt or the C++ library to the host, and never unloads the library, since kernels may be running.
target_link_options(tenon PRIVATE -Wl,--version-script=${version_script} -Wl,--exclude-libs,ALL -Wl,-z,nodelete
                                  -Wl,--gc-sections)
if(NOT TENON_SANITIZE)
  target_link_options(tenon PRIVATE -static-libstdc++ -static-libgcc -Wl,-z,defs)
endif()

# A shared library, because some hundred tests link it: with an archive each of them would hold LLVM, 73 MB of a release build.
add_library(tenon_internal SHARED)
set_target_properties(tenon_internal PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(tenon_internal PRIVATE ${TENON_LAYERS})
target_include_directories(tenon_internal INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_options(tenon_internal PRIVATE -Wl,--exclude-libs,ALL)

file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cc ${PROJECT_SOURCE_DIR}/src/cli/*/*.cc)
if(cli_sources)
  find_package(CLI11 2 REQUIRED)
  # Embeds the page of `tenon bench --html`.
  set(page_file ${PROJECT_SOURCE_DIR}/src/cli/bench/page.html)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_file})
  file(READ ${page_file} bench_page)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/bench_page.cc @ONLY CONTENT [=[
#include "src/cli/bench/page.h"

std::string_view tenon::cli::bench_page_template() { return R"page(@bench_page@)page"; }
]=])
  add_executable(tenon_cli ${cli_sources} ${PROJECT_BINARY_DIR}/bench_page.cc)
  # The executable is in bin/: a file `tenon` beside the library would have the name of the Ninja target `tenon`.
  set_target_properties(tenon_cli PROPERTIES OUTPUT_NAME tenon RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(tenon_cli PRIVATE ${TENON_LAYERS} CLI11::CLI11)
  target_link_options(tenon_cli PRIVATE -Wl,--gc-sections)
endif()
