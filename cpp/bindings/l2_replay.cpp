// The replay of a grid through an L2 cache: plain numbers in, counters out.
#include "l2_replay.hpp"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedulers/l2_replay.hpp"
#include "tk/grid/order.hpp"

namespace py = pybind11;

namespace tk::binding {
namespace {

using Loads = std::array<int64_t, 6>;
using Counts = std::tuple<Loads, std::array<int64_t, 4>, std::vector<Loads>>;

Loads loads_array(const schedulers::l2_loads& n) {
    return {n.a_requested, n.b_requested, n.a_crossed, n.b_crossed, n.a_read, n.b_read};
}

// A wrong number here would be a write outside an array.
void check(const schedulers::l2_work& work) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw py::value_error(std::string("replay_l2: ") + what);
    };
    need(work.rows > 0 && work.cols > 0 && work.batch > 0 && work.k_step > 0 &&
             work.partitions > 0 && !work.delays.empty(),
         "sizes must be positive");
    need(work.splits > 0 && work.splits <= work.k_tiles, "splits must be 1 to k_tiles");
    need(work.a_bytes >= 0 && work.b_bytes >= 0 && work.out_bytes >= 0 && work.sum_bytes >= 0 &&
             work.capacity >= 0,
         "bytes must not be negative");
    need(work.near.size() == work.delays.size(), "near must have an entry a cluster, as delays");
    for (const int near : work.near) {
        need(near >= 0 && near < work.partitions, "near must name partitions");
    }
    // in doubles, which do not overflow
    const double tiles = double(work.rows) * work.cols * work.batch;
    const double steps = double(work.k_tiles) / work.k_step + work.splits;
    const double panels = (double(work.rows) + work.cols) * work.batch;
    need(steps * panels + tiles * (work.splits + 1) < double(1u << 31), "too many entries");
    if (work.order_kind != tk::order_table) return;
    need(double(work.order_table.size()) == double(work.rows) * work.cols,
         "order_table must have an entry a tile");
    for (const int32_t packed : work.order_table) {
        need((packed >> 16) < work.rows && (packed & 0xffff) < work.cols && packed >= 0,
             "order_table must name tiles of the grid");
    }
}

Counts replay(int order_kind, int order_param, std::vector<int32_t> order_table, int rows, int cols,
              int batch, int splits, int k_tiles, int k_step, int64_t a_bytes, int64_t b_bytes,
              int64_t out_bytes, int64_t sum_bytes, std::vector<int> delays, std::vector<int> near,
              int partitions, int64_t capacity, bool by_wave) {
    const schedulers::l2_work work{.order_kind = order_kind,
                                   .order_param = order_param,
                                   .order_table = std::move(order_table),
                                   .rows = rows,
                                   .cols = cols,
                                   .batch = batch,
                                   .splits = splits,
                                   .k_tiles = k_tiles,
                                   .k_step = k_step,
                                   .a_bytes = a_bytes,
                                   .b_bytes = b_bytes,
                                   .out_bytes = out_bytes,
                                   .sum_bytes = sum_bytes,
                                   .delays = std::move(delays),
                                   .near = std::move(near),
                                   .partitions = partitions,
                                   .capacity = capacity,
                                   .by_wave = by_wave};
    check(work);
    const py::gil_scoped_release others_may_run;
    const schedulers::l2_counts counts = schedulers::replay_l2(work);
    std::vector<Loads> waves;
    for (const auto& wave : counts.waves) waves.push_back(loads_array(wave));
    return {loads_array(counts.total),
            {counts.sums_requested, counts.sums_read, counts.sums_evicted, counts.outs_evicted},
            std::move(waves)};
}

}  // namespace

void bind_l2_replay(py::module_& module) {
    module.def("replay_l2", &replay, py::kw_only(), py::arg("order_kind"), py::arg("order_param"),
               py::arg("order_table"), py::arg("rows"), py::arg("cols"), py::arg("batch"),
               py::arg("splits"), py::arg("k_tiles"), py::arg("k_step"), py::arg("a_bytes"),
               py::arg("b_bytes"), py::arg("out_bytes"), py::arg("sum_bytes"), py::arg("delays"),
               py::arg("near"), py::arg("partitions"), py::arg("capacity"), py::arg("by_wave"),
               "tk.schedulers.l2_reference.replay, compiled: what L2Work has, and counts as "
               "L2Counts has them, in three parts: loads, sums and outputs, waves. Others may have "
               "the GIL meanwhile. Raises ValueError when a number is out of range.");
}

}  // namespace tk::binding
