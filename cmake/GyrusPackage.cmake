# cpack -G DEB: a package for Debian of what make install installs, with the manual page and completions.
set(CPACK_PACKAGE_NAME gyrus)
set(CPACK_PACKAGE_VENDOR "the gyrus developers")
set(CPACK_PACKAGE_CONTACT "the gyrus developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Whole-brain segmentation and neural networks on any GPU, through WebGPU")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Every Debian has another version of cpp-httplib, so the package brings its own, where Dawn lies too: one package then
# serves Debian 12 and newer.
find_library(GYRUS_HTTPLIB_FILE cpp-httplib)
if(GYRUS_HTTPLIB_FILE)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${GYRUS_HTTPLIB_FILE} OUTPUT_VARIABLE httplib_facts ERROR_QUIET)
  if(httplib_facts MATCHES "SONAME +([^\n]+)")
    file(REAL_PATH ${GYRUS_HTTPLIB_FILE} httplib_real)
    configure_file(${httplib_real} ${PROJECT_BINARY_DIR}/private/${CMAKE_MATCH_1} COPYONLY)
    install(FILES ${PROJECT_BINARY_DIR}/private/${CMAKE_MATCH_1} DESTINATION ${CMAKE_INSTALL_LIBDIR}/gyrus)
  endif()
endif()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/private
  ${PROJECT_SOURCE_DIR}/node_modules/bun-webgpu-linux-x64 ${PROJECT_BINARY_DIR})
# Dawn loads the Vulkan loader and gyrus libcurl when they are needed.
set(CPACK_DEBIAN_PACKAGE_DEPENDS libvulkan1)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "mesa-vulkan-drivers (>= 23.1), libcurl4 | libcurl4t64")

# The program itself knows its manual page and completions.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  function(write_from folder file)
    file(MAKE_DIRECTORY \"\${share}/\${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:gyrus>\" \${ARGN} OUTPUT_FILE \"\${share}/\${folder}/\${file}\"
      COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  write_from(man/man1 gyrus.1 man)
  write_from(bash-completion/completions gyrus completion bash)
  write_from(zsh/vendor-completions _gyrus completion zsh)
  write_from(fish/vendor_completions.d gyrus.fish completion fish)")
# Debian looks for licences there.
install(CODE "
  set(doc \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/scripts/licences.sh\" \"\${doc}/third-party-licences\"
    COMMAND_ERROR_IS_FATAL ANY)
  file(COPY_FILE \"${PROJECT_SOURCE_DIR}/LICENSE\" \"\${doc}/copyright\")")
install(FILES CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR})
include(CPack)
