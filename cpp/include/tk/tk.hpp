// The one header that an extension includes: tiles, block templates, grid orders and launch.
#pragma once
#include "tk/block/lcf.hpp"
#include "tk/block/lcsf.hpp"
#include "tk/block/split_k.hpp"
#include "tk/grid/launch.hpp"
#include "tk/grid/launch_tasks.hpp"
#include "tk/grid/order.hpp"
#include "tk/grid/tile_tasks.hpp"
#include "tk/tile/any_gl.hpp"
#include "tk/tile/functions.hpp"
#include "tk/tile/group.hpp"
