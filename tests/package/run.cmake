# cmake -DBUILD=build tree -DWORK=scratch directory -DMANIFEST=abi.txt -DLIBDIR=lib -P run.cmake
# Installs the build tree, moves the installed tree elsewhere, builds the consumer beside this file against it with
# find_package and with pkg-config, and runs what came out. Any step that fails fails the test.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
foreach(file include/tenon/tenon.h ${LIBDIR}/libtenon.so ${LIBDIR}/libtenon.so.1 ${LIBDIR}/pkgconfig/tenon.pc)
  if(NOT EXISTS ${WORK}/moved/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

file(STRINGS ${MANIFEST} lines)
set(names "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "#.*" "" line "${line}")
  string(STRIP "${line}" line)
  if(line)
    string(APPEND names "NAME(${line})\n")
  endif()
endforeach()
file(WRITE ${WORK}/consumer/tenon_names.h "${names}")

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/consumer -DCMAKE_PREFIX_PATH=${WORK}/moved
    "-DCMAKE_C_FLAGS=${FLAGS}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)
message("find_package: ${output}")
run(${WORK}/consumer/consumer_cxx)

set(ENV{PKG_CONFIG_PATH} ${WORK}/moved/${LIBDIR}/pkgconfig)
run(pkg-config --cflags --libs tenon)
separate_arguments(flags UNIX_COMMAND "${FLAGS} ${output}")
run(cc ${CMAKE_CURRENT_LIST_DIR}/consumer.c -I${WORK}/consumer -o ${WORK}/by_pkg_config ${flags}
    -Wl,-rpath,${WORK}/moved/${LIBDIR})
run(${WORK}/by_pkg_config)
message("pkg-config: ${output}")
