# The kernels for the processor, what they are tested against, and unit_cpu: without the libraries that the rest uses, so
# that it builds for another architecture from headers and GoogleTest's sources (libgtest-dev) alone.
enable_language(C)
gyrus_library(core)
gyrus_library(graph core)
gyrus_library(ops graph)
gyrus_library(reference graph ops)
gyrus_library(passes graph ops)
gyrus_library(cpu graph ops)
target_link_libraries(gyrus_graph PUBLIC gyrus_ops)
find_package(Threads REQUIRED)
target_link_libraries(gyrus_cpu PUBLIC Threads::Threads)

# Only the one header folder: all of /usr/include would hide the other architecture's. One instruction set, that of the
# architecture: choosing among several needs Highway's library.
find_path(hwy_include hwy/highway.h REQUIRED PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${hwy_include}/hwy ${PROJECT_BINARY_DIR}/include/hwy SYMBOLIC)
target_include_directories(gyrus_cpu SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/include)
target_compile_definitions(gyrus_cpu PUBLIC HWY_COMPILE_ONLY_STATIC)

set(INSTALL_GTEST OFF)
add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)

enable_testing()
gyrus_op_cases()
gyrus_test(unit cpu cpu passes reference op_cases)
