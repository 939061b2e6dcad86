# tk._binding: loads the libraries at run time, so that it links neither, nor anything of torch; and
# what planning has compiled (cpp/schedulers), in plain C++.
if(NOT Python_Development.Module_FOUND OR NOT DEFINED SKBUILD)
  return() # a plain CMake build makes the libraries alone
endif()
set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 3.0 CONFIG REQUIRED)
# NO_EXTRAS: link-time optimisation would only make this thin module slow to build
pybind11_add_module(
  _binding MODULE NO_EXTRAS
  cpp/bindings/module.cpp
  cpp/bindings/library.cpp
  cpp/bindings/matmul.cpp
  cpp/bindings/attention.cpp
  cpp/bindings/rotary.cpp
  cpp/bindings/l2_replay.cpp
  cpp/schedulers/l2_replay.cpp)
# tk/grid/order.hpp is the one header of the kernels that it reads
target_include_directories(_binding PRIVATE cpp cpp/include)
target_compile_options(_binding PRIVATE -Wall -Wextra)
target_link_libraries(_binding PRIVATE ${CMAKE_DL_LIBS})
install(TARGETS _binding LIBRARY DESTINATION tk)
