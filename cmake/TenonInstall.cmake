# What `cmake --install` installs: headers, libtenon.so.1, oneDNN beside it, the command line, the examples, the licence, the
# CMake package (`find_package(Tenon)` gives Tenon::tenon) and tenon.pc. The installed tree may be moved afterwards, also to
# another machine. Tested by tests/package/.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)

set_target_properties(tenon PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS tenon EXPORT TenonTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TENON_ONEDNN)
  # Installs oneDNN if it comes from a wheel, where no loader looks for it. A system package of oneDNN is used in place.
  get_target_property(dnnl_file DNNL::dnnl LOCATION)
  cmake_path(GET dnnl_file PARENT_PATH dnnl_folder)
  if(NOT dnnl_folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    install(IMPORTED_RUNTIME_ARTIFACTS DNNL::dnnl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endif()
if(TARGET tenon_cli)
  file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(tenon_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS tenon_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
                                                                                          PATTERN "*.hpp")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/TenonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TenonConfig.cmake ${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
        DESTINATION ${package_dir})

# tenon.pc states the prefix relative to its own directory, lib/pkgconfig, so that the tree can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in ${PROJECT_BINARY_DIR}/tenon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
