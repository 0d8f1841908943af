# What `cmake --install` lays down: headers, libtenon.so.1, the command line, the CMake package (`find_package(Tenon)` gives
# Tenon::tenon) and tenon.pc. The tree may be moved afterwards. Tested by tests/package/.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tenon)

# The library finds its neighbours beside itself, then oneDNN where it was found when building.
# Where oneDNN was found; named here because CMake leaves link paths inside the project (.venv) out of the run path.
set(TENON_RPATH "$ORIGIN")
if(TENON_ONEDNN)
  get_target_property(dnnl_file DNNL::dnnl LOCATION)
  cmake_path(GET dnnl_file PARENT_PATH dnnl_folder)
  list(APPEND TENON_RPATH ${dnnl_folder})
endif()
set_target_properties(tenon PROPERTIES INSTALL_RPATH "${TENON_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON
                                       BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS tenon EXPORT TenonTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tenon_cli)
  set_target_properties(tenon_cli PROPERTIES INSTALL_RPATH "${TENON_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON
                                             BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS tenon_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
                                                                                          PATTERN "*.hpp")

install(EXPORT TenonTargets NAMESPACE Tenon:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TenonConfig.cmake.in ${PROJECT_BINARY_DIR}/TenonConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TenonConfig.cmake ${PROJECT_BINARY_DIR}/TenonConfigVersion.cmake
        DESTINATION ${package_dir})

# tenon.pc finds the prefix from its own place, lib/pkgconfig, so that it moves with the tree.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tenon.pc.in ${PROJECT_BINARY_DIR}/tenon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
