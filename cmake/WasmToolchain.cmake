# Emscripten's own toolchain file, found through the em++ on the path.
find_program(GYRUS_EMXX em++ REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(REAL_PATH ${GYRUS_EMXX} em_program)
get_filename_component(em_root ${em_program} DIRECTORY)
include(${em_root}/cmake/Modules/Platform/Emscripten.cmake)
