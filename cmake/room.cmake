# Rooms: one folder under src/shardkit, one static library, its tests and its fuzz targets.
#
# In a room's folder, x.h and x.cc are the library, x_test.cc goes into the room's one test program,
# and x_fuzz.cc is a fuzz target that replays testdata/x_fuzz/. There is no list of files to keep.

set(SHARDKIT_SOURCE_ROOT ${CMAKE_CURRENT_SOURCE_DIR}/src)

function(shardkit_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${SHARDKIT_SOURCE_ROOT}>)
  if(SHARDKIT_DEVELOPER)
    # g++ 12 reports overflows and overlaps out of fmt and libstdc++ headers at -O3 that are not
    # there (restrict: GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror
      $<$<CXX_COMPILER_ID:GNU>:-Wno-error=stringop-overflow -Wno-error=array-bounds -Wno-restrict>)
  endif()
  if(SHARDKIT_SANITIZE)
    # The sanitizers' extra code makes g++ see uninitialized variants that are not there.
    target_compile_options(${target} PRIVATE -fsanitize=${SHARDKIT_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PUBLIC -fsanitize=${SHARDKIT_SANITIZE})
  endif()
endfunction()

# Helpers that only tests may include: matchers, temporary folders, fixtures.
function(shardkit_add_testing_library)
  file(GLOB sources CONFIGURE_DEPENDS ${SHARDKIT_SOURCE_ROOT}/shardkit/testing/*.cc)
  list(FILTER sources EXCLUDE REGEX "fuzz_replay_main\\.cc$")
  add_library(shardkit_testing STATIC ${sources})
  shardkit_compile_options(shardkit_testing)
  target_compile_definitions(shardkit_testing PUBLIC
    SHARDKIT_TEST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(shardkit_testing PUBLIC GTest::gtest GTest::gmock fmt::fmt
    tl::expected)
endfunction()

function(shardkit_add_room room dependencies)
  set(folder ${SHARDKIT_SOURCE_ROOT}/shardkit/${room})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  foreach(part IN LISTS shardkit_${room}_parts)
    file(GLOB part_sources CONFIGURE_DEPENDS ${folder}/${part}/*.cc)
    list(APPEND sources ${part_sources})
  endforeach()
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  if(NOT sources)
    add_library(shardkit_${room} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(shardkit_${room} STATIC ${sources})
    shardkit_compile_options(shardkit_${room})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY shardkit_room_libraries shardkit_${room})
  endif()
  target_link_libraries(shardkit_${room} ${scope} tl::expected fmt::fmt)
  foreach(dependency IN LISTS dependencies)
    target_link_libraries(shardkit_${room} ${scope} shardkit_${dependency})
  endforeach()
  target_link_libraries(shardkit_${room} ${scope} ${shardkit_${room}_libraries})

  if(SHARDKIT_DEVELOPER AND tests)
    add_executable(${room}_test ${tests})
    shardkit_compile_options(${room}_test)
    # Tests are compiled more often than they run for long: -O3 costs a clean build a minute.
    target_compile_options(${room}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    target_link_libraries(${room}_test PRIVATE shardkit_${room} shardkit_testing GTest::gtest_main)
    include(GoogleTest)
    gtest_discover_tests(${room}_test TEST_PREFIX "${room}." DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 300)
  endif()
  if(SHARDKIT_DEVELOPER)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(name ${fuzzer} NAME_WE)
      shardkit_add_fuzz_target(${room} ${name} ${fuzzer})
    endforeach()
  endif()
endfunction()

# A fuzz target always builds; without libFuzzer its main replays the kept inputs as a test.
function(shardkit_add_fuzz_target room name source)
  add_executable(${name} ${source})
  shardkit_compile_options(${name})
  target_link_libraries(${name} PRIVATE shardkit_${room})
  if(SHARDKIT_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${SHARDKIT_SOURCE_ROOT}/shardkit/testing/fuzz_replay_main.cc)
    add_test(NAME ${room}.${name}
      COMMAND ${name} ${SHARDKIT_SOURCE_ROOT}/shardkit/${room}/testdata/${name})
  endif()
endfunction()

function(shardkit_add_rooms list_file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
  file(STRINGS ${list_file} lines REGEX "^[a-z_]+:")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z_]+): *(.*)$" _ "${line}")
    set(room ${CMAKE_MATCH_1})
    separate_arguments(dependencies UNIX_COMMAND "${CMAKE_MATCH_2}")
    shardkit_add_room(${room} "${dependencies}")
  endforeach()
endfunction()

function(shardkit_collect_rooms target)
  get_property(rooms GLOBAL PROPERTY shardkit_room_libraries)
  foreach(room IN LISTS rooms)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${room}>)
  endforeach()
  shardkit_compile_options(${target})
  # What the archive's objects call at link time; shardkitConfig.cmake.in and shardkit.pc.in find
  # the same for those who link an installed one.
  target_link_libraries(${target} PUBLIC tl::expected
    PRIVATE fmt::fmt hwy::hwy PkgConfig::libdeflate PkgConfig::libxxhash
    Threads::Threads)
  if(Gloo_FOUND)
    target_link_libraries(${target} PRIVATE gloo)
  endif()
endfunction()
