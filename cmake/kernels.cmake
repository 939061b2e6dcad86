# Expands each family's table of instances into small translation units, and builds the two
# libraries of them: libtk_host.so always, libtk_cuda.so with TK_CUDA.
#
# A line of cpp/kernels/FOLDER/instances.inc, say
#     TK_MATMUL_INSTANCE(bf16, k, k, tma, 128, 256, 64, 2)
# becomes the line TK_DEFINE_MATMUL_INSTANCE(bf16, k, …) of a generated file. A few lines share a
# file, since most of the time goes into the headers: four take nvcc 1.6 times as long as one.
set(tk_generated "${CMAKE_BINARY_DIR}/generated")
set(tk_cuda_instances_per_file 4)
set(tk_host_instances_per_file 8)

# Writes a file unless it already says so, to compile nothing anew without need.
function(tk_write path text)
  set(present "")
  if(EXISTS "${path}")
    file(READ "${path}" present)
  endif()
  if(NOT present STREQUAL text)
    file(WRITE "${path}" "${text}")
  endif()
endfunction()

# Files FOLDER/NAME_0.EXTENSION and so on, of `include` and `per_file` of the lines each; their paths
# are appended to the variable `sources`.
function(tk_write_instances sources folder name extension per_file include)
  list(LENGTH ARGN count)
  set(first 0)
  while(first LESS count)
    list(SUBLIST ARGN ${first} ${per_file} lines)
    list(JOIN lines "\n" text)
    math(EXPR number "${first} / ${per_file}")
    set(path "${tk_generated}/${folder}/${name}_${number}.${extension}")
    tk_write("${path}" "${include}${text}\n")
    list(APPEND ${sources} "${path}")
    math(EXPR first "${first} + ${per_file}")
  endwhile()
  set(${sources} "${${sources}}" PARENT_SCOPE)
endfunction()

# tk_add_family(gemm matmul): cpp/kernels/gemm with matmul_instance.hpp (TK_DEFINE_MATMUL_INSTANCE),
# matmul_dispatch.cpp and matmul_api.h.
function(tk_add_family folder family)
  string(TOUPPER "${family}" FAMILY)
  set(table "${CMAKE_CURRENT_SOURCE_DIR}/cpp/kernels/${folder}/instances.inc")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
  file(STRINGS "${table}" lines REGEX "^TK_${FAMILY}_INSTANCE\\(.*\\)")
  list(TRANSFORM lines REPLACE "^TK_${FAMILY}_INSTANCE" "TK_DEFINE_${FAMILY}_INSTANCE")
  list(LENGTH lines count)
  message(STATUS "tk: ${count} instances of ${family}")

  set(include "#include \"kernels/${folder}/${family}_instance.hpp\"\n")
  set(name "${family}_instances")
  tk_write_instances(cuda_sources cuda ${name} cu ${tk_cuda_instances_per_file} "${include}"
                     ${lines})
  tk_write_instances(host_sources host ${name} cpp ${tk_host_instances_per_file} "${include}"
                     ${lines})

  configure_file(cmake/dispatch.in "${tk_generated}/cuda/${family}_dispatch.cu" @ONLY)
  configure_file(cmake/dispatch.in "${tk_generated}/host/${family}_dispatch.cpp" @ONLY)
  list(APPEND cuda_sources "${tk_generated}/cuda/${family}_dispatch.cu")
  list(APPEND host_sources "${tk_generated}/host/${family}_dispatch.cpp")
  set_property(GLOBAL APPEND PROPERTY tk_cuda_sources ${cuda_sources})
  set_property(GLOBAL APPEND PROPERTY tk_host_sources ${host_sources})
endfunction()

function(tk_common_settings target architecture)
  configure_file(cmake/architecture.cpp.in "${tk_generated}/${architecture}/architecture.cpp" @ONLY)
  target_sources(${target} PRIVATE "${tk_generated}/${architecture}/architecture.cpp")
  target_compile_options(${target} PRIVATE ${tk_include_flags})
  target_link_options(
    ${target} PRIVATE "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map"
    LINKER:--no-undefined LINKER:--exclude-libs,ALL)
  set_target_properties(
    ${target}
    PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib"
               CXX_COMPILER_LAUNCHER "${tk_launcher}"
               CUDA_COMPILER_LAUNCHER
               "sh;${CMAKE_CURRENT_SOURCE_DIR}/cmake/keep_log.sh;${tk_launcher}")
  install(TARGETS ${target} LIBRARY DESTINATION tk/lib)
endfunction()

function(tk_add_libraries)
  get_property(host_sources GLOBAL PROPERTY tk_host_sources)
  add_library(tk_host SHARED ${host_sources})
  tk_common_settings(tk_host host)
  target_compile_definitions(tk_host PRIVATE TK_ARCH_HOST=1)
  # the CUDA headers are for CuTe's types; nothing of CUDA is linked
  target_compile_options(tk_host PRIVATE -Wall -Wextra ${tk_cuda_include_flags})
  target_link_libraries(tk_host PRIVATE Threads::Threads)

  if(NOT TK_CUDA)
    return()
  endif()
  get_property(cuda_sources GLOBAL PROPERTY tk_cuda_sources)
  add_library(tk_cuda SHARED ${cuda_sources})
  tk_common_settings(tk_cuda sm90)
  foreach(architecture IN LISTS TK_CUDA_ARCHITECTURES)
    list(APPEND gencode
         "SHELL:-gencode arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  target_compile_options(
    tk_cuda
    PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:${gencode};--expt-relaxed-constexpr;-Xptxas=-v>")
  # one text of all that ptxas said, for tools/check_library.py
  add_custom_command(
    TARGET tk_cuda
    POST_BUILD
    COMMAND
      "${CMAKE_COMMAND}" "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:tk_cuda>,|>"
      "-DOUTPUT=${CMAKE_BINARY_DIR}/lib/libtk_cuda.ptxas.txt" -P
      "${CMAKE_CURRENT_SOURCE_DIR}/cmake/merge_logs.cmake"
    VERBATIM)
  install(FILES "${CMAKE_BINARY_DIR}/lib/libtk_cuda.ptxas.txt" DESTINATION tk/lib)
endfunction()
