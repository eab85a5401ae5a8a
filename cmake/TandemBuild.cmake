# What every component shares: language level, warnings as errors, where binaries go, and how a test is declared.
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# -fPIC for programs too, so that they, libraries and modules are compiled alike and share precompiled headers.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
add_compile_options(-fPIC)
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
# And braces around a struct of strings (Complaint, DoctorInput) of leaving them uninitialised, at -O3 only: shown, no error there.
add_compile_options($<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-error=maybe-uninitialized>)
if(TANDEM_SANITIZE)
  # gcc 12 sees too little through the instrumentation: these accuse std::regex, replaced
  # operator new and std::sort of a small array wrongly.
  add_compile_options(-Wno-error=maybe-uninitialized -Wno-error=mismatched-new-delete -Wno-error=array-bounds)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  # A null pointer ends a program under the address sanitizer, too, and of what parses the fuzzers (tests/fuzz) watch the alignment. The two
  # checks took a fifth of the time to compile a source of the library.
  if(TANDEM_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=null,alignment)
  endif()
endif()

# Precompiled: the standard headers that most units read anyway, and GoogleTest for the tests. Not nlohmann/json or CLI11: gcc 12
# writes out part of such a header in every unit that loads it, which costs more than reading it (11 s against 8 s for
# src/feeder's record.cc). The preset release builds without, and so finds a unit that forgot an #include.
if(TANDEM_FUZZ)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON) # libraries under test get flags of their own there
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-fpch-preprocess) # for compiler caches; else without effect
  # Of a precompiled header gcc 12 no longer knows that it is a system header, and accuses std::string as it does under -Wsystem-headers
  # (array-bounds in src/feeder/sources/monitor_interface.cc; none without). Shown, and errors where nothing is precompiled.
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    foreach(accusation array-bounds stringop-overflow stringop-overread maybe-uninitialized)
      add_compile_options($<$<NOT:$<CONFIG:Debug>>:-Wno-error=${accusation}>)
    endforeach()
  endif()
endif()
set(tandem_std_headers <algorithm> <array> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
  <functional> <limits> <map> <memory> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <utility> <variant> <vector>)
# For units whose speed nobody feels: the programs of tests only ask (what they ask is compiled as it is shipped), and a command line
# runs once. They are compiled in half the time. Not for the start of a program that carries packets: where several units instantiate
# the same template, the linker keeps the first, which would be the slow one.
set(TANDEM_COLD -O0)
# For those programs of tests that compute for seconds: of the templates that they share with the library the linker keeps theirs, and
# what is under test ran cold. Seven such programs took 34 s of a core; warm they take 9 s.
set(TANDEM_WARM -O1)
# What the programs of tests do themselves is watched for wrong use of memory, not for undefined behaviour: that alone made them 1.6 times
# as dear to compile.
set(TANDEM_UNWATCHED)
if(TANDEM_SANITIZE MATCHES undefined)
  set(TANDEM_UNWATCHED -fno-sanitize=undefined)
endif()

# tandem_pch(NAME headers... [OPTIONS compile options...] [LINK libraries...]): a target whose precompiled headers others reuse.
function(tandem_pch name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Empty: ${name} is here for its precompiled headers.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
endfunction()
tandem_pch(tandem_pch ${tandem_std_headers})

# Several sources of one library or module in one unit: most of a unit's time goes into the headers that its neighbours read, too. Sources
# share one namespace without a name there, so no two of a library may have the same name in it. The preset release builds each by itself,
# and so finds a source that forgot an #include; programs of tests are never joined.
option(TANDEM_UNITY "Compile the sources of a library together" OFF)
# tandem_unity(target): joins its sources when TANDEM_UNITY says so.
function(tandem_unity target)
  if(TANDEM_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # Types of a joined source seem to come from a header, where a member of a type without linkage would be a fault.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# The module SDK: headers only, no library behind it.
add_library(tandem_sdk INTERFACE)
target_include_directories(tandem_sdk INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR})
target_compile_features(tandem_sdk INTERFACE cxx_std_20)

# tandem_library(NAME sources... [LINK libraries...]): a static component library on top of the SDK.
function(tandem_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC tandem_sdk ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM tandem_pch)
  tandem_unity(${name})
endfunction()

# tandem_module(NAME sources... [LINK libraries...]): a pluggable module, build/lib/tandem/NAME.so. The same objects make the static
# library tandem_module_NAME, so that unit tests and the simulator run the very code that the daemon loads. NAME.cc alone is compiled
# twice: it holds the exported symbol, of which a program with two modules in it can have none.
function(tandem_module name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  set(parts ${ARG_UNPARSED_ARGUMENTS})
  list(REMOVE_ITEM parts ${name}.cc)
  if(parts)
    add_library(tandem_module_${name}_parts OBJECT ${parts})
    target_link_libraries(tandem_module_${name}_parts PUBLIC tandem_sdk ${ARG_LINK})
    set(parts $<TARGET_OBJECTS:tandem_module_${name}_parts>)
  endif()
  add_library(tandem_module_${name} STATIC ${name}.cc ${parts})
  target_link_libraries(tandem_module_${name} PUBLIC tandem_sdk ${ARG_LINK})
  add_library(${name} MODULE ${name}.cc ${parts})
  target_link_libraries(${name} PRIVATE tandem_sdk ${ARG_LINK})
  target_compile_definitions(${name} PRIVATE TANDEM_MODULE_EXPORT=1)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${TANDEM_MODULE_OUTPUT_DIRECTORY})
  foreach(target ${name} tandem_module_${name} tandem_module_${name}_parts)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
      target_precompile_headers(${target} REUSE_FROM tandem_pch)
      tandem_unity(${target})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY TANDEM_MODULES ${name})
  install(TARGETS ${name} LIBRARY DESTINATION lib/tandem COMPONENT tandem)
endfunction()

# tandem_test(NAME LAYER unit|golden|sim [WARM] sources... [LINK libraries...]): one GoogleTest binary, one ctest entry per layer.
# Layers unit, golden, sim and fuzz also carry the label "fast". WARM: compiled with optimisation, see TANDEM_WARM.
function(tandem_test name)
  cmake_parse_arguments(ARG "WARM" "LAYER" "LINK" ${ARGN})
  if(NOT TANDEM_TESTS)
    return()
  endif()
  find_package(GTest REQUIRED)
  set(heat ${TANDEM_COLD})
  set(pch tandem_test_pch)
  if(ARG_WARM)
    set(heat ${TANDEM_WARM})
    set(pch tandem_warm_test_pch)
  endif()
  list(APPEND heat ${TANDEM_UNWATCHED})
  if(NOT TARGET ${pch})
    tandem_pch(${pch} ${tandem_std_headers} <gtest/gtest.h> <gmock/gmock.h> OPTIONS ${heat} LINK GTest::gtest GTest::gmock)
    set_property(GLOBAL APPEND PROPERTY TANDEM_TEST_PROGRAMS ${pch})
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tandem_sdk ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${heat})
  target_precompile_headers(${name} REUSE_FROM ${pch})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_property(GLOBAL APPEND PROPERTY TANDEM_TEST_PROGRAMS ${name})
  add_test(NAME ${ARG_LAYER}.${name} COMMAND ${name} --gtest_color=no)
  set_tests_properties(${ARG_LAYER}.${name} PROPERTIES LABELS "${ARG_LAYER};fast" TIMEOUT 300)
endfunction()

# tandem_probe(NAME sources... [LINK libraries...]): a program that tests of lab and vm run: no test itself, compiled cold.
function(tandem_probe name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${TANDEM_COLD})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  tandem_unity(${name})
endfunction()

# tandem_without_test_programs(): the target of that name builds all but the programs of tandem_test and tandem_fuzz. A full run of the
# tests compiles those for the sanitizers alone.
function(tandem_without_test_programs)
  set(directories ${CMAKE_SOURCE_DIR})
  set(wanted)
  while(directories)
    list(POP_FRONT directories directory)
    get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    list(APPEND directories ${below})
    list(APPEND wanted ${targets})
  endwhile()
  get_property(programs GLOBAL PROPERTY TANDEM_TEST_PROGRAMS)
  if(programs)
    list(REMOVE_ITEM wanted ${programs})
  endif()
  add_custom_target(without_test_programs DEPENDS ${wanted})
endfunction()
enable_testing()
