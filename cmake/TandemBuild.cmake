# What every room shares: language level, warnings as errors, where binaries go, and how a test is declared.
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(TANDEM_MODULE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/tandem)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
option(TANDEM_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
# What a test-only build leaves out: the sanitizer builds need no command line, no lab and no packages.
option(TANDEM_TESTS "Build the tests" ON)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Werror)
# gcc 12 accuses std::string wrongly when it inlines as much as -O3 does.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(TANDEM_SANITIZE)
  # gcc 12 sees too little through the instrumentation: these accuse std::regex, replaced
  # operator new and std::sort of a small array wrongly.
  add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=mismatched-new-delete -Wno-error=array-bounds)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()

# The module SDK: headers only, no library behind it.
add_library(tandem_sdk INTERFACE)
target_include_directories(tandem_sdk INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR})
target_compile_features(tandem_sdk INTERFACE cxx_std_20)

# tandem_library(NAME sources... [LINK libraries...]): a static room library on top of the SDK.
function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC tandem_sdk ${ARG_LINK})
endfunction()

# tandem_module(NAME sources... [LINK libraries...]): a pluggable module, build/lib/tandem/NAME.so. The same sources make the static
# library tandem_module_NAME, so that unit tests and the simulator run the very code that the daemon loads.
function(tandem_module name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(tandem_module_${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(tandem_module_${name} PUBLIC tandem_sdk ${ARG_LINK})
  add_library(${name} MODULE ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tandem_sdk ${ARG_LINK})
  target_compile_definitions(${name} PRIVATE TANDEM_MODULE_EXPORT=1)
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                        LIBRARY_OUTPUT_DIRECTORY ${TANDEM_MODULE_OUTPUT_DIRECTORY})
  install(TARGETS ${name} LIBRARY DESTINATION lib/tandem COMPONENT tandem)
endfunction()

# tandem_test(NAME LAYER unit|golden|sim sources... [LINK libraries...]): one GoogleTest binary, one ctest entry per layer.
# Layers unit, golden, sim and fuzz also carry the label "fast".
function(tandem_test name)
  cmake_parse_arguments(ARG "" "LAYER" "LINK" ${ARGN})
  if(NOT TANDEM_TESTS)
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tandem_sdk ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${ARG_LAYER}.${name} COMMAND ${name} --gtest_color=no)
  set_tests_properties(${ARG_LAYER}.${name} PROPERTIES LABELS "${ARG_LAYER};fast" TIMEOUT 300)
endfunction()
enable_testing()
