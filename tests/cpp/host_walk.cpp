// Prints the tiles that a persistent grid visits, as the kernels number them: the task loop of a
// static schedule, with clusters, over tile_tasks. A test holds them against the walk in Python.
//
// Arguments: kind param tiles_m tiles_n cluster_m cluster_n workers splits, eight numbers a walk.
// A line a walk: block:task:row:col:split of each visit, by task and then by block, in tiles.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tk/tk.hpp"

namespace {

constexpr int tile_m = 64, tile_n = 16, k_tiles = 5;

struct visit {
    int block = -1, row = -1, col = -1, split = -1;
};

struct walk_kernel {
    static constexpr int num_threads = 128;
    struct globals {
        tk::lcf_config config;
        tk::tile_tasks<tile_m, tile_n> tasks;
        visit* visits;  // one for each block of the cluster of each task
    };
    static void run(const globals& g) {
        if (tk::warp::groupid() != 0) return;
        const tk::cluster_tile place(g.config.cluster);
        const int blocks = g.config.cluster.blocks(), rank = tk::cluster::rank();
        tk::static_scheduler::shared_block shared;
        tk::static_scheduler schedule(g.config, shared, true);
        int index = tk::static_scheduler::get_initial(g.config);
        while (index < g.config.num_tasks) {
            tk::tile_task task;
            g.tasks.get(index, place, g.config.cluster, task);
            visit& seen = g.visits[index * blocks + rank];
            if (seen.block >= 0) std::abort();  // visited twice
            seen = {tk::cluster::index() * blocks + rank, task.at.row / tile_m,
                    task.at.col / tile_n, task.split};
            index = schedule.get_next(index);
        }
    }
};

void print_walk(const int* v) {
    const tk::cluster_shape cluster{v[4], v[5]};
    walk_kernel::globals g{};
    // Sizes that cut the last tiles: they are visited like the others.
    g.tasks = {
        1,       int64_t(v[2]) * tile_m - 3,       int64_t(v[3]) * tile_n - 5, cluster, v[0], v[1],
        nullptr, {v[7], k_tiles, nullptr, nullptr}};
    g.config.num_tasks = g.tasks.count();
    g.config.cluster = cluster;
    std::vector<visit> visits(size_t(g.config.num_tasks) * size_t(cluster.blocks()));
    g.visits = visits.data();
    const int clusters = v[6] / cluster.blocks() > 0 ? v[6] / cluster.blocks() : 1;
    tk::launch<walk_kernel>(g, {clusters * cluster.blocks(), cluster.blocks(), 0, 0, nullptr});
    for (size_t i = 0; i < visits.size(); ++i) {
        const visit& seen = visits[i];
        if (seen.row >= v[2] || seen.col >= v[3]) continue;  // beyond the output: does nothing
        std::printf("%d:%d:%d:%d:%d ", seen.block, int(i) / cluster.blocks(), seen.row, seen.col,
                    seen.split);
    }
    std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<int> numbers;
    for (int i = 1; i < argc; ++i) numbers.push_back(std::atoi(argv[i]));
    for (size_t i = 0; i + 8 <= numbers.size(); i += 8) print_walk(&numbers[i]);
    return 0;
}
