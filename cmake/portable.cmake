# shardkit_portable: the program from the same objects, linked so that when it runs it needs only
# libc, libm and libstdc++. tools/make_dist.sh packs it.
#
# Debian has libdeflate as an archive. Of fmt, Highway and xxHash's dispatch it has shared libraries
# alone: the few functions of theirs that our objects call are compiled from their headers
# (portable/*.cc of the rooms), or the linker complains.
find_library(SHARDKIT_LIBDEFLATE_ARCHIVE libdeflate.a)
mark_as_advanced(SHARDKIT_LIBDEFLATE_ARCHIVE)
# Older clang does not know the processor levels that highway_targets.cc asks for.
if(NOT SHARDKIT_LIBDEFLATE_ARCHIVE OR SHARDKIT_SANITIZE
    OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(STATUS "No portable program: it needs g++ and libdeflate.a, and no sanitizer")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${SHARDKIT_SOURCE_ROOT}/shardkit/*/portable/*.cc)
# Gloo has no archive either, and needs more than can be compiled in: processes cannot share a merge.
list(APPEND sources ${SHARDKIT_SOURCE_ROOT}/shardkit/collective/no_gloo/no_gloo.cc)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${SHARDKIT_SOURCE_ROOT}/shardkit/transfer/portable/xxh3_avx2.cc
    PROPERTIES COMPILE_OPTIONS -mavx2)
endif()
add_executable(shardkit_portable ${PROJECT_SOURCE_DIR}/cli/main.cc ${sources})
if(NOT SHARDKIT_DEVELOPER)
  set_target_properties(shardkit_portable PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
set_target_properties(shardkit_portable PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable OUTPUT_NAME shardkit)
shardkit_compile_options(shardkit_portable)
target_include_directories(shardkit_portable PRIVATE ${PROJECT_SOURCE_DIR})
# Files instead of targets, which would bring the shared libraries along.
set(archives $<TARGET_FILE:shardkit_cli> $<TARGET_FILE:shardkit>)
add_dependencies(shardkit_portable shardkit_cli shardkit)
set_property(TARGET shardkit_portable APPEND PROPERTY LINK_DEPENDS ${archives})
target_link_libraries(shardkit_portable PRIVATE
  ${archives} ${SHARDKIT_LIBDEFLATE_ARCHIVE} Threads::Threads)
