# What each stage uses from outside, in one place.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Threads REQUIRED)
find_library(DEFLATE_LIBRARY deflate REQUIRED)
find_package(PNG REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)  # SIMD, chosen at run time

function(gyrus_uses name)
  get_target_property(type gyrus_${name} TYPE)
  if(type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(gyrus_${name} INTERFACE ${ARGN})
  else()
    target_link_libraries(gyrus_${name} PUBLIC ${ARGN})
  endif()
endfunction()

# The graph asks the registry, which is in ops, for shape rules: the one circle among the stages.
gyrus_uses(graph gyrus_ops)
gyrus_uses(plan nlohmann_json::nlohmann_json)
gyrus_uses(import nlohmann_json::nlohmann_json)
gyrus_uses(volume ${DEFLATE_LIBRARY} PNG::PNG nlohmann_json::nlohmann_json Threads::Threads)
gyrus_uses(cpu ${HWY_LIBRARY} Threads::Threads)
gyrus_uses(engine nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})

# Dawn: the system's with its own header (Debian testing: libwebgpu-dawn-dev). Elsewhere the library that setup.sh takes
# from npm, which ships no header: gyrus's subset describes exactly these bytes and no others.
find_package(Dawn CONFIG QUIET)
if(TARGET dawn::webgpu_dawn)
  message(STATUS "Dawn: ${Dawn_DIR}")
  gyrus_uses(runtime dawn::webgpu_dawn Threads::Threads)
else()
  set(dawn ${PROJECT_SOURCE_DIR}/node_modules/bun-webgpu-linux-x64/libwebgpu_wrapper.so)
  set(dawn_sha256 3190c3777f2c07fcf6a0640833cbf5d0cde859dc53aed6d9083946d093198788)
  if(NOT EXISTS ${dawn})
    message(FATAL_ERROR "Dawn is neither installed nor in node_modules; scripts/setup.sh brings it")
  endif()
  file(SHA256 ${dawn} found)
  if(NOT found STREQUAL dawn_sha256)
    message(FATAL_ERROR "${dawn} has the SHA-256 ${found}; src/runtime/webgpu/webgpu.h describes ${dawn_sha256}. Run scripts/setup.sh again")
  endif()
  message(STATUS "Dawn: ${dawn}")
  gyrus_uses(runtime ${dawn} Threads::Threads)
  target_include_directories(gyrus_runtime PUBLIC ${PROJECT_SOURCE_DIR}/src/runtime)
endif()
