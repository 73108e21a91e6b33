# `cmake --install`: the program, the library with its headers, and what finds it again.
#
# All paths are relative, so that the installed folder may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(SHARDKIT_CLI)
  install(TARGETS shardkit_program)
endif()

# Every room's headers, but not what tests share.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${SHARDKIT_SOURCE_ROOT}
  ${SHARDKIT_SOURCE_ROOT}/shardkit/*.h)
list(FILTER headers EXCLUDE REGEX "^shardkit/testing/|_(internal|test_util)\\.h$")
list(TRANSFORM headers PREPEND ${SHARDKIT_SOURCE_ROOT}/)
target_sources(shardkit PUBLIC FILE_SET HEADERS BASE_DIRS ${SHARDKIT_SOURCE_ROOT} FILES ${headers})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/shardkit)
install(TARGETS shardkit EXPORT shardkit FILE_SET HEADERS)
install(EXPORT shardkit NAMESPACE shardkit:: FILE shardkitTargets.cmake
  DESTINATION ${package_folder})
configure_package_config_file(cmake/shardkitConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/shardkitConfig.cmake INSTALL_DESTINATION ${package_folder})
# Names may change with every minor version until 1.0.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/shardkitConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/shardkitConfig.cmake
  ${PROJECT_BINARY_DIR}/cmake/shardkitConfigVersion.cmake
  DESTINATION ${package_folder})

file(RELATIVE_PATH pkgconfig_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# Gloo has no .pc file.
set(gloo_flag "")
if(Gloo_FOUND)
  set(gloo_flag " -lgloo")
endif()
configure_file(cmake/shardkit.pc.in ${PROJECT_BINARY_DIR}/cmake/shardkit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/shardkit.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
