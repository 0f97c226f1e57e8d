# gyrus_library(NAME deps…): the static library gyrus_NAME from src/NAME/*.cpp without those in GYRUS_LEFT_OUT.
add_library(gyrus_options INTERFACE)
target_include_directories(gyrus_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(gyrus_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# GCC 12 sees overlapping copies in string concatenation where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(gyrus_options INTERFACE -Wno-restrict)
endif()
# Later ones take a reference that a view returns for one into the view.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(gyrus_options INTERFACE -Wno-dangling-reference)
endif()
# For what computes little itself, tests and commands: they take as long to compile as all the rest.
set(GYRUS_QUICK_COMPILE $<$<CONFIG:Release>:-O1>)
# Results must not depend on how the compiler regroups floating-point sums.
target_compile_options(gyrus_options INTERFACE -ffp-contract=off)
if(GYRUS_SANITIZE)
  set(sanitizers address,undefined)
  if(GYRUS_SANITIZE STREQUAL "thread")
    set(sanitizers thread)
  endif()
  target_compile_options(gyrus_options INTERFACE -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gyrus_options INTERFACE -fsanitize=${sanitizers})
endif()
if(GYRUS_FUZZ)
  target_compile_options(gyrus_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(gyrus_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  foreach(file ${GYRUS_LEFT_OUT})
    list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${file})
  endforeach()
  if(NOT sources)
    add_library(gyrus_${name} INTERFACE)
    target_link_libraries(gyrus_${name} INTERFACE gyrus_options)
    set(scope INTERFACE)
  else()
    add_library(gyrus_${name} STATIC ${sources})
    target_link_libraries(gyrus_${name} PUBLIC gyrus_options)
    set(scope PUBLIC)
  endif()
  foreach(dep ${ARGN})
    target_link_libraries(gyrus_${name} ${scope} gyrus_${dep})
  endforeach()
endfunction()

# gyrus_embed(OUTPUT names…): a C++ file with every src/kernels/*.wgsl but those named as a string.
function(gyrus_embed output)
  file(GLOB texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.wgsl)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DKERNELS=${PROJECT_SOURCE_DIR}/src/kernels "-DWITHOUT=${ARGN}"
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake
    DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/cmake/EmbedKernels.cmake
    VERBATIM)
endfunction()

# The kernels library also holds the texts of the kernels, less those in GYRUS_KERNELS_LEFT_OUT.
function(gyrus_kernels)
  set(embedded ${PROJECT_BINARY_DIR}/generated/embedded_kernels.cpp)
  gyrus_embed(${embedded} ${GYRUS_KERNELS_LEFT_OUT})
  gyrus_library(kernels ${ARGN})
  target_sources(gyrus_kernels PRIVATE ${embedded})
endfunction()

# gyrus_embed_page(TARGET FILE NAME NAMESPACE): the file FOO.html as the string NAMESPACE::NAME of "FOO_text.h".
function(gyrus_embed_page target file name namespace)
  get_filename_component(stem ${file} NAME_WE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} page)
  set(folder ${PROJECT_BINARY_DIR}/generated/pages)
  file(WRITE ${folder}/${stem}_text.new
    "#pragma once\n\nnamespace ${namespace} {\n\ninline constexpr const char* ${name} = R\"page(${page})page\";\n\n}  // namespace ${namespace}\n")
  configure_file(${folder}/${stem}_text.new ${folder}/${stem}_text.h COPYONLY)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()

# gyrus_embed_files(TARGET NAME FOLDER): the files of a folder as NAMEs of "NAME_files.h", with their bytes.
function(gyrus_embed_files target name folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(out "#pragma once\n#include <cstddef>\n\nnamespace gyrus {\n\nstruct ${name}File {\n  const char* name;\n  const unsigned char* bytes;\n  size_t size;\n};\n\n")
  set(list "")
  set(number 0)
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(own ${file} NAME)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND out "inline constexpr unsigned char k${name}${number}[] = {${bytes}};\n")
    string(APPEND list "    {\"${own}\", k${name}${number}, sizeof k${name}${number}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND out "inline constexpr ${name}File k${name}Files[] = {\n${list}};\n\n}  // namespace gyrus\n")
  set(made ${PROJECT_BINARY_DIR}/generated/files/${name}_files)
  file(WRITE ${made}.new "${out}")
  configure_file(${made}.new ${made}.h COPYONLY)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated/files)
endfunction()

# The table of op cases, which unit and conformance tests share.
function(gyrus_op_cases)
  set(tests ${PROJECT_SOURCE_DIR}/tests)
  file(GLOB sources CONFIGURE_DEPENDS ${tests}/op_cases*.cpp)
  add_library(gyrus_op_cases STATIC ${sources})
  target_include_directories(gyrus_op_cases PUBLIC ${tests})
  target_link_libraries(gyrus_op_cases PUBLIC gyrus_ops gyrus_graph)
  target_compile_options(gyrus_op_cases PRIVATE ${GYRUS_QUICK_COMPILE})
endfunction()

# gyrus_test(LABEL NAME [SHARES n] deps…): the test program LABEL_NAME from tests/LABEL/NAME*_test.cpp, one CTest per
# program, or n of them, LABEL_NAME_1 …, each with its share of the tests: CTest may run these side by side.
function(gyrus_test label name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SHARES" "")
  set(program ${label}_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${label}/${name}*_test.cpp)
  if(NOT sources)
    message(FATAL_ERROR "gyrus_test(${label} ${name}): there is no tests/${label}/${name}*_test.cpp")
  endif()
  add_executable(${program} ${sources})
  # Most of what a test takes to compile are headers.
  set_target_properties(${program} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${program} PRIVATE ${GYRUS_QUICK_COMPILE})
  target_compile_definitions(${program} PRIVATE
    GYRUS_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GYRUS_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${program} PRIVATE gyrus_options GTest::gtest GTest::gmock GTest::gtest_main)
  foreach(dep ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${program} PRIVATE gyrus_${dep})
  endforeach()
  set(environment)
  if(NOT label STREQUAL unit)
    # Silences Mesa; tests start from nothing, on WebGPU where software Vulkan is all that there is. The driver is left to the loader's own choice, or to VK_ICD_FILENAMES.
    set(environment XDG_RUNTIME_DIR=/tmp GYRUS_NO_CACHE=1 GYRUS_DEVICE=webgpu)
  endif()
  if(NOT arg_SHARES)
    gyrus_ctest(${program} ${program} ${label} ${environment})
    return()
  endif()
  foreach(share RANGE 1 ${arg_SHARES})
    math(EXPR index "${share} - 1")
    gyrus_ctest(${program}_${share} ${program} ${label} ${environment}
      GTEST_TOTAL_SHARDS=${arg_SHARES} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# gyrus_ctest(TEST PROGRAM LABEL environment…)
function(gyrus_ctest test program label)
  add_test(NAME ${test} COMMAND ${program})
  # Where everything is tested, a software driver needs some ten minutes for a crop.
  set(seconds 1500)
  if(label STREQUAL conformance)
    set(seconds 7200)
  endif()
  # The long ones first, so that no core waits at the end.
  set(cost_unit 1)
  set(cost_e2e 10)
  set(cost_conformance 100)
  set_tests_properties(${test} PROPERTIES LABELS ${label} TIMEOUT ${seconds} COST ${cost_${label}} ENVIRONMENT "${ARGN}")
endfunction()
