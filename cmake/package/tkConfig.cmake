# find_package(tk): the headers of the installed wheel tk-cute, for kernels built by CMake.
#
#   find_package(tk REQUIRED)                   tk::host: g++, no GPU
#   find_package(tk REQUIRED COMPONENTS sm90)   tk::sm90 as well: turns on the CUDA language
#   tk_add_extension(NAME SOURCE...)            libNAME_host.so, and libNAME_sm90.so where tk::sm90
#                                               is, for tk.open_extension
#
# A target carries the include folders (tk, CUTLASS, the CUDA headers for g++), C++20, TK_ARCH_HOST
# or TK_ARCH_SM90, and the flags that tk's kernels need. CUTLASS and the compiler are found through
# Python, where `pip install 'tk-cute[extend]'` puts them; a Python is looked for unless
# Python_EXECUTABLE is set. tk_CUTLASS_INCLUDE_DIR, tk_CUDA_INCLUDE_DIRS and CMAKE_CUDA_COMPILER
# given by the caller are taken as they are.
set(tk_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
get_filename_component(tk_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)

# Sets tk_FOUND to false with a message, as find_package wants it, and leaves the file.
macro(tk_not_found)
  string(CONCAT tk_NOT_FOUND_MESSAGE ${ARGN})
  set(tk_FOUND FALSE)
  return()
endmacro()

foreach(tk_component IN LISTS tk_FIND_COMPONENTS)
  if(NOT tk_component MATCHES "^(host|sm90)$")
    tk_not_found("tk has no component \"${tk_component}\"; has host and sm90.")
  endif()
endforeach()

# What only Python knows; a caller who gives everything needs none.
set(tk_toolchain "{}")
if(NOT Python_EXECUTABLE)
  find_package(Python 3.10 COMPONENTS Interpreter QUIET)
endif()
if(Python_EXECUTABLE)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/../_toolchain.py"
    OUTPUT_VARIABLE tk_toolchain
    RESULT_VARIABLE tk_toolchain_result
    ERROR_VARIABLE tk_toolchain_error)
  if(NOT tk_toolchain_result EQUAL 0)
    tk_not_found("looking for CUTLASS by ${Python_EXECUTABLE} failed: ${tk_toolchain_error}")
  endif()
endif()

set(tk_advice "pip install 'tk-cute[extend]' into the Python that CMake finds "
              "(${Python_EXECUTABLE}, another by -DPython_EXECUTABLE=...)")
string(CONCAT tk_advice ${tk_advice})

if(NOT tk_CUTLASS_INCLUDE_DIR)
  string(JSON tk_CUTLASS_INCLUDE_DIR ERROR_VARIABLE tk_json_error GET "${tk_toolchain}" cutlass)
  if(tk_json_error OR NOT tk_CUTLASS_INCLUDE_DIR)
    unset(tk_CUTLASS_INCLUDE_DIR)
    tk_not_found("CUTLASS was not found: ${tk_advice}, or set tk_CUTLASS_INCLUDE_DIR to its "
                 "include folder.")
  endif()
endif()
if(NOT EXISTS "${tk_CUTLASS_INCLUDE_DIR}/cute/tensor.hpp")
  tk_not_found("tk_CUTLASS_INCLUDE_DIR=${tk_CUTLASS_INCLUDE_DIR} holds no cute/tensor.hpp.")
endif()
if(NOT tk_CUDA_INCLUDE_DIRS)
  string(JSON tk_CUDA_INCLUDE_DIRS ERROR_VARIABLE tk_json_error GET "${tk_toolchain}" headers
         includes)
  if(tk_json_error)
    unset(tk_CUDA_INCLUDE_DIRS)
    tk_not_found("the CUDA headers were not found: ${tk_advice}, put the nvcc of a CUDA toolkit of "
                 "12.4 or later on PATH, or set tk_CUDA_INCLUDE_DIRS.")
  endif()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
if(NOT Threads_FOUND)
  tk_not_found("threads were not found; the project must have the language CXX or C.")
endif()

if(NOT TARGET tk::host)
  add_library(tk::host INTERFACE IMPORTED)
  target_include_directories(tk::host INTERFACE "${tk_INCLUDE_DIR}" "${tk_CUTLASS_INCLUDE_DIR}"
                                                ${tk_CUDA_INCLUDE_DIRS})
  target_compile_definitions(tk::host INTERFACE TK_ARCH_HOST=1)
  target_compile_features(tk::host INTERFACE cxx_std_20)
  target_link_libraries(tk::host INTERFACE Threads::Threads)
endif()
set(tk_host_FOUND TRUE)

if("sm90" IN_LIST tk_FIND_COMPONENTS AND NOT TARGET tk::sm90)
  if(NOT CMAKE_CUDA_COMPILER)
    string(JSON tk_nvcc ERROR_VARIABLE tk_json_error GET "${tk_toolchain}" compiler nvcc)
    if(tk_json_error)
      if(tk_FIND_REQUIRED_sm90)
        tk_not_found("component sm90: no CUDA compiler was found (nvcc 12.4 or later): "
                     "${tk_advice}, or put the nvcc of a CUDA toolkit on PATH.")
      endif()
    else()
      set(CMAKE_CUDA_COMPILER "${tk_nvcc}" CACHE FILEPATH "CUDA compiler")
      # the wheels keep libcudart_static.a where their nvcc does not look
      string(JSON tk_cuda_libraries GET "${tk_toolchain}" compiler libraries)
      string(APPEND CMAKE_CUDA_FLAGS " -L${tk_cuda_libraries}")
      string(APPEND CMAKE_SHARED_LINKER_FLAGS " -L${tk_cuda_libraries}")
      string(APPEND CMAKE_EXE_LINKER_FLAGS " -L${tk_cuda_libraries}")
      string(APPEND CMAKE_MODULE_LINKER_FLAGS " -L${tk_cuda_libraries}")
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES OFF) # -gencode below: older CMake does not know 90a
    endif()
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20") # CMake 3.25 does not know it either
    endif()
    add_library(tk::sm90 INTERFACE IMPORTED)
    target_include_directories(tk::sm90 INTERFACE "${tk_INCLUDE_DIR}" "${tk_CUTLASS_INCLUDE_DIR}")
    target_compile_definitions(tk::sm90 INTERFACE TK_ARCH_SM90=1)
    target_compile_options(
      tk::sm90
      INTERFACE
        "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;SHELL:-gencode arch=compute_90a,code=sm_90a>"
    )
    target_link_libraries(tk::sm90 INTERFACE Threads::Threads)
    set(tk_sm90_FOUND TRUE)
  endif()
elseif(TARGET tk::sm90)
  set(tk_sm90_FOUND TRUE)
endif()

# tk_add_extension(NAME SOURCE...): targets NAME_host and, where tk::sm90 is, NAME_sm90, each of all
# the sources, whatever their suffix. Python opens them by tk.open_extension(FOLDER, "NAME").
function(tk_add_extension name)
  foreach(architecture IN ITEMS host sm90)
    if(NOT TARGET tk::${architecture})
      continue()
    endif()
    set(copies "")
    foreach(source IN LISTS ARGN)
      # A file has one language in a folder of CMake: each architecture compiles one that includes it
      get_filename_component(path "${source}" ABSOLUTE)
      get_filename_component(stem "${source}" NAME_WE)
      set(suffix cpp)
      if(architecture STREQUAL "sm90")
        set(suffix cu)
      endif()
      set(copy "${CMAKE_CURRENT_BINARY_DIR}/${name}_${architecture}/${stem}.${suffix}")
      file(CONFIGURE OUTPUT "${copy}" CONTENT "#include \"@path@\"\n" @ONLY)
      list(APPEND copies "${copy}")
    endforeach()
    set(target ${name}_${architecture})
    add_library(${target} SHARED ${copies})
    target_link_libraries(${target} PRIVATE tk::${architecture})
    set_target_properties(
      ${target}
      PROPERTIES CXX_VISIBILITY_PRESET hidden
                 CUDA_VISIBILITY_PRESET hidden
                 VISIBILITY_INLINES_HIDDEN ON
                 POSITION_INDEPENDENT_CODE ON
                 CUDA_RUNTIME_LIBRARY Static)
    target_link_options(${target} PRIVATE "LINKER:--version-script=${tk_CMAKE_DIR}/extension.map"
                        LINKER:--no-undefined)
  endforeach()
endfunction()
