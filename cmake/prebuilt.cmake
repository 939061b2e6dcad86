# Takes the libraries as already built: another Python, or a machine without nvcc, needs only a C++
# compiler for the binding.
get_filename_component(TK_PREBUILT_DIR "${TK_PREBUILT_DIR}" ABSOLUTE BASE_DIR
                       "${CMAKE_CURRENT_SOURCE_DIR}")
if(NOT EXISTS "${TK_PREBUILT_DIR}/libtk_host.so")
  message(
    FATAL_ERROR
      "TK_PREBUILT_DIR=${TK_PREBUILT_DIR} holds no libtk_host.so. Name the folder of the built "
      "libraries: build/lib of a CMake build, or tk/lib of an installed wheel.")
endif()
foreach(name IN ITEMS libtk_host.so libtk_cuda.so libtk_cuda.ptxas.txt)
  if(EXISTS "${TK_PREBUILT_DIR}/${name}")
    message(STATUS "tk: taking ${TK_PREBUILT_DIR}/${name} as built")
    # follows a link, where install() would copy it
    file(REAL_PATH "${TK_PREBUILT_DIR}/${name}" prebuilt_file)
    install(PROGRAMS "${prebuilt_file}" DESTINATION tk/lib RENAME "${name}")
  endif()
endforeach()
