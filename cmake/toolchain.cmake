# Asks build_backend/toolchain.py for nvcc, the CUDA headers and CUTLASS, turns on the CUDA language
# with that compiler, and says what to do when something is missing.
find_package(Threads REQUIRED)

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/build_backend/toolchain.py"
  OUTPUT_VARIABLE tk_toolchain
  COMMAND_ERROR_IS_FATAL ANY)

string(JSON tk_cutlass_found GET "${tk_toolchain}" cutlass)
if(TK_CUDA)
  set(tk_wanted compiler)
else()
  set(tk_wanted headers)
endif()
string(JSON tk_toolkit GET "${tk_toolchain}" ${tk_wanted})

set(tk_advice
    "  * a CUDA toolkit of 12.4 or later: put its nvcc on PATH or set CUDA_HOME;\n"
    "  * NVIDIA's compiler wheels: `pip install .` fetches them by itself. With"
    " --no-build-isolation or plain CMake, install them first:\n"
    "      pip install nvidia-cutlass==4.2.0.0"
    " nvidia-{cuda-nvcc,cuda-crt,cuda-cccl,cuda-runtime,nvvm}==13.0.*\n"
    "  * no CUDA at all: -C cmake.define.TK_CUDA=OFF (with plain CMake -DTK_CUDA=OFF) builds the"
    " host architecture with g++ alone; it still needs CUDA's headers, from a toolkit or from the"
    " wheels nvidia-{cuda-runtime,cuda-cccl,cuda-crt}==13.0.*;\n"
    "  * libraries built elsewhere: -C cmake.define.TK_PREBUILT_DIR=DIR.\n")
string(CONCAT tk_advice ${tk_advice})

if(NOT tk_toolkit)
  if(TK_CUDA)
    message(FATAL_ERROR "tk: no CUDA compiler was found (nvcc 12.4 or later). Do one of these:\n"
                        "${tk_advice}")
  endif()
  message(FATAL_ERROR "tk: the CUDA headers were not found. Do one of these:\n${tk_advice}")
endif()
if(NOT tk_cutlass_found)
  message(FATAL_ERROR "tk: CUTLASS was not found for ${Python_EXECUTABLE}: "
                      "pip install nvidia-cutlass==4.2.0.0 (`pip install .` does so by itself).")
endif()

foreach(name IN ITEMS origin version nvcc includes libraries)
  string(JSON tk_toolkit_${name} GET "${tk_toolkit}" ${name})
endforeach()

# Compilers see these folders as links in the build folder, by relative names (they run there): the
# real ones are often in a build environment with a random name, or in another clone, which would
# make every compilation new to ccache.
function(tk_link_dependency target name)
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/dependencies")
  file(REMOVE "${CMAKE_BINARY_DIR}/dependencies/${name}")
  file(CREATE_LINK "${target}" "${CMAKE_BINARY_DIR}/dependencies/${name}" SYMBOLIC)
endfunction()
tk_link_dependency("${tk_cutlass_found}" cutlass)
tk_link_dependency("${CMAKE_CURRENT_SOURCE_DIR}/cpp" cpp)
set(tk_include_flags -Idependencies/cpp/include -Idependencies/cpp
                     "SHELL:-isystem dependencies/cutlass")
set(tk_cuda_include_flags "") # nvcc finds its own
set(index 0)
foreach(folder IN LISTS tk_toolkit_includes)
  tk_link_dependency("${folder}" "cuda${index}")
  list(APPEND tk_cuda_include_flags "SHELL:-isystem dependencies/cuda${index}")
  math(EXPR index "${index} + 1")
endforeach()

if(TK_CUDA)
  set(CMAKE_CUDA_COMPILER "${tk_toolkit_nvcc}" CACHE FILEPATH "CUDA compiler" FORCE)
  # -gencode is ours (cmake/kernels.cmake): CMake 3.25 does not know the newer architectures
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  # the wheels keep libcudart_static.a where their nvcc does not look
  set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -L${tk_toolkit_libraries}")
  string(APPEND CMAKE_EXE_LINKER_FLAGS " -L${tk_toolkit_libraries}")
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -L${tk_toolkit_libraries}")
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20") # CMake 3.25 does not know it either
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
endif()
message(STATUS "tk: CUDA ${tk_toolkit_version} (${tk_toolkit_origin}): ${tk_toolkit_includes}")
message(STATUS "tk: CUTLASS: ${tk_cutlass_found}")

find_program(TK_CCACHE_PROGRAM ccache)
mark_as_advanced(TK_CCACHE_PROGRAM)
set(tk_launcher "")
if(TK_CCACHE AND TK_CCACHE_PROGRAM)
  set(tk_launcher
      "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_BINARY_DIR}/generated" CCACHE_NOHASHDIR=1
      "CCACHE_COMPILERCHECK=%compiler% --version" "${TK_CCACHE_PROGRAM}")
  message(STATUS "tk: ccache: ${TK_CCACHE_PROGRAM}")
endif()
