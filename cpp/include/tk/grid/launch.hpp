// Starting a kernel template over a grid: the same call on every architecture.
#pragma once
#include "tk/grid/launch_config.hpp"
#include "tk/tile/make_gl.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/launch.hpp"
#else
#include "tk/arch/host/launch.hpp"
#endif
