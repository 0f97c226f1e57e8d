# make install: the program, the library as one shared file with its public headers, and the packages by which others
# find it: find_package(gyrus), pkg-config gyrus. Dawn goes along where the system has none.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(gyrus_shared SHARED)
add_library(gyrus::gyrus ALIAS gyrus_shared)
# All stages but that of `gyrus train`, which has no public header.
get_property(stages GLOBAL PROPERTY gyrus_stages)
list(REMOVE_ITEM stages training)
foreach(stage ${stages})
  target_sources(gyrus_shared PRIVATE $<TARGET_OBJECTS:gyrus_${stage}>)
endforeach()
target_link_libraries(gyrus_shared PRIVATE gyrus_llm gyrus_engine)  # for what lies outside of gyrus
target_include_directories(gyrus_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(gyrus_shared INTERFACE cxx_std_20)
set_target_properties(gyrus_shared PROPERTIES
  OUTPUT_NAME gyrus EXPORT_NAME gyrus LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "$ORIGIN:$ORIGIN/gyrus")
set_target_properties(gyrus PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}:$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/gyrus")

install(TARGETS gyrus RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS gyrus_shared EXPORT gyrusTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/gyrus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT TARGET dawn::webgpu_dawn)
  install(FILES ${PROJECT_SOURCE_DIR}/node_modules/bun-webgpu-linux-x64/libwebgpu_wrapper.so
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/gyrus)
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Where make web was run: what gyrus export and gyrus web give out.
install(DIRECTORY web/dist/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gyrus/web OPTIONAL)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gyrus)
install(EXPORT gyrusTargets NAMESPACE gyrus:: DESTINATION ${config_dir})
file(WRITE ${PROJECT_BINARY_DIR}/gyrusConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/gyrusTargets.cmake)\n")
# Before 1.0 a new minor version may break what uses it.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gyrusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gyrusConfig.cmake ${PROJECT_BINARY_DIR}/gyrusConfigVersion.cmake
  DESTINATION ${config_dir})
# Paths from the file itself, so that what was installed may be moved.
file(WRITE ${PROJECT_BINARY_DIR}/gyrus.pc
"prefix=\${pcfiledir}/../..
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: gyrus
Description: Whole-brain segmentation and neural networks on any GPU, through WebGPU
Version: ${PROJECT_VERSION}
Libs: -L\${libdir} -lgyrus
Cflags: -I\${includedir}
")
install(FILES ${PROJECT_BINARY_DIR}/gyrus.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
