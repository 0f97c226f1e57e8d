# What each stage uses from outside, in one place.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Threads REQUIRED)
find_library(DEFLATE_LIBRARY deflate REQUIRED)
find_package(PNG REQUIRED)

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
gyrus_uses(runtime ${GYRUS_DAWN_LIBRARY} Threads::Threads)

# <webgpu/webgpu.h>: gyrus's subset for the npm build of Dawn, or a system Dawn's own.
if(GYRUS_WEBGPU_HEADER)
  target_include_directories(gyrus_runtime SYSTEM PUBLIC ${GYRUS_WEBGPU_HEADER})
else()
  target_include_directories(gyrus_runtime PUBLIC ${PROJECT_SOURCE_DIR}/src/runtime)
endif()
