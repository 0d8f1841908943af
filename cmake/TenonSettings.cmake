# Language, warnings, build types, sanitizers, compiler cache and linker of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps backtraces and costs little to link; full -g doubles the size of the object files.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
# For the sanitizer presets: some optimisation, so that tests are quick, and the checks of a debug build.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1")

# Makes __FILE__ `src/ir/graph.cc` in every checkout. The second map is for ccache, which may pass paths relative to build/PRESET.
add_compile_options(-Wall -Wextra -ffunction-sections -fdata-sections -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
                    -fmacro-prefix-map=../../=)
if(TENON_WERROR)
  add_compile_options(-Werror)
endif()
if(TENON_SANITIZE)
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# The variables let all clones of the sources share the entries of the compiler cache.
find_program(TENON_CCACHE ccache)
if(TENON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TENON_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# Part of the keys of graphs on disk (src/base/build_id.h). Not every compiler asks for it.
add_link_options(-Wl,--build-id)

# LLVM's linker needs a sixth of the time that ld needs for a library that holds LLVM.
find_program(TENON_LLD ld.lld PATHS /usr/lib/llvm-19/bin NO_DEFAULT_PATH)
if(TENON_LLD)
  cmake_path(GET TENON_LLD PARENT_PATH lld_directory)
  add_link_options(-B${lld_directory} -fuse-ld=lld)
endif()
