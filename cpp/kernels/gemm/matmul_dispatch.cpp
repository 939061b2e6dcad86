// The C interface of the matrix product, over the table of instances. Compiled once for each
// architecture; needs none of CuTe.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gemm/matmul_entry.hpp"
#include "kernels/last_error.hpp"
#include "tk/grid/order.hpp"

TK_NAMESPACE_BEGIN

// The generated translation units define an entry for each line of the table.
#define TK_MATMUL_INSTANCE(...) matmul_entry TK_MATMUL_ENTRY(__VA_ARGS__)();
#include "kernels/gemm/instances.inc"
#undef TK_MATMUL_INSTANCE

namespace {

const std::vector<matmul_entry>& entries() {
    static const std::vector<matmul_entry> table = {
#define TK_MATMUL_INSTANCE(...) TK_MATMUL_ENTRY(__VA_ARGS__)(),
#include "kernels/gemm/instances.inc"
#undef TK_MATMUL_INSTANCE
    };
    return table;
}

const matmul_entry& entry_of(const tk_matmul_problem& p) {
    if (p.instance < 0 || size_t(p.instance) >= entries().size()) {
        throw std::out_of_range("instance " + std::to_string(p.instance) + " is not one of " +
                                std::to_string(entries().size()));
    }
    return entries()[size_t(p.instance)];
}

// out^T = b^T a^T for out = a b, where the plan asks for it. The bias stays along out's columns.
tk_matmul_problem exchanged(tk_matmul_problem p) {
    if (!p.swapped) return p;
    const int64_t a[3] = {p.b_strides[1], p.b_strides[0], p.b_strides[2]};
    const int64_t b[3] = {p.a_strides[1], p.a_strides[0], p.a_strides[2]};
    std::swap(p.m, p.n);
    std::copy(a, a + 3, p.a_strides);
    std::copy(b, b + 3, p.b_strides);
    std::swap(p.c_strides[0], p.c_strides[1]);
    std::swap(p.out_strides[0], p.out_strides[1]);
    return p;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The output tiles that the grid covers, those beyond the edge in a last cluster included.
int64_t covered_tiles(const tk_matmul_problem& p) {
    const tk_matmul_instance& info = entry_of(p).info;
    const int64_t rows = ceil_div(p.m, int64_t(info.tile_m) * p.cluster_m) * p.cluster_m;
    const int64_t cols = ceil_div(p.n, int64_t(info.tile_n) * p.cluster_n) * p.cluster_n;
    return p.batch * rows * cols;
}

void check(bool legal, const char* what) {
    if (!legal) throw std::invalid_argument(what);
}

void check_plan(const tk_matmul_problem& p) {
    const tk_matmul_instance& info = entry_of(p).info;
    const int64_t k_tiles = ceil_div(p.k, info.tile_k);
    check(p.batch >= 1 && p.m >= 1 && p.n >= 1, "m, n and batch must be positive");
    // One product is in flight while the next stage is waited for.
    check(p.num_stages >= 2 && p.num_stages <= info.max_stages, "num_stages is out of range");
    const auto power_of_two = [](int x) { return x >= 1 && (x & (x - 1)) == 0; };
    check(power_of_two(p.cluster_m) && power_of_two(p.cluster_n) && p.cluster_m * p.cluster_n <= 8,
          "a cluster has 1, 2, 4 or 8 blocks either way, 8 at most");
    // Its stages are filled by ordinary stores, which no other block of a cluster waits for.
    check(info.loader == TK_LOADER_TMA || p.cluster_m * p.cluster_n == 1,
          "the gather loader takes no clusters");
    check(p.dynamic == 0 || (info.loader == TK_LOADER_TMA && p.cluster_m * p.cluster_n == 1),
          "a dynamic plan needs the tma loader and clusters of one block");
    check(p.grid >= 1 && p.grid % (p.cluster_m * p.cluster_n) == 0,
          "grid must be a positive multiple of the cluster's blocks");
    check(p.splits >= 1 && p.splits <= (k_tiles > 1 ? k_tiles : 1),
          "splits must be between 1 and the number of K tiles");
    if (p.splits_in_cluster) {
        check(info.bytes_per_part > 0, "the instance cannot sum the splits of a tile in a cluster");
        check(p.splits >= 2 && p.splits <= 8, "a cluster of splits has 2 to 8 blocks");
        check(p.cluster_m * p.cluster_n == 1 && p.dynamic == 0,
              "a cluster of splits shares no loads and draws no tasks");
        check(p.grid == covered_tiles(p) * p.splits, "a cluster of splits has one tile");
    }
    check(p.order_kind >= 0 && p.order_kind <= 5, "order_kind is not one of 0 to 5");
    const int64_t largest = (int64_t(1) << 31) - 1024;  // the corner of a last tile is an int
    check(p.m <= largest && p.n <= largest && p.k <= largest,
          "m, n and k must be at most 2^31 - 1024");
    check(covered_tiles(p) * p.splits < (int64_t(1) << 31), "more than 2^31 tiles");
}

// What a legal plan needs beside the tensors.
struct memory_needs {
    int64_t workspace_bytes = 0, counters = 0;
};
memory_needs needs(const tk_matmul_problem& as_asked) {
    memory_needs result;
    if (as_asked.splits_in_cluster || (as_asked.splits <= 1 && as_asked.dynamic == 0)) {
        return result;
    }
    const tk_matmul_problem p = exchanged(as_asked);
    check_plan(p);
    const tk_matmul_instance& info = entry_of(p).info;
    if (p.dynamic) result.counters = 1;
    if (p.splits > 1) {
        const int64_t tiles = covered_tiles(p);
        result.counters += tiles * info.consumer_warpgroups;
        result.workspace_bytes =
            tiles * p.splits * info.tile_m * info.tile_n * int64_t(sizeof(float));
    }
    return result;
}

}  // namespace

TK_NAMESPACE_END

extern "C" {

int tk_abi_version(void) { return TK_ABI_VERSION; }

const char* tk_last_error(void) { return tk::last_error.c_str(); }

int tk_num_matmul_instances(void) { return int(tk::entries().size()); }

int tk_get_matmul_instance(int index, tk_matmul_instance* out) {
    if (index < 0 || size_t(index) >= tk::entries().size()) {
        tk::last_error = "there is no instance " + std::to_string(index);
        return 1;
    }
    *out = tk::entries()[size_t(index)].info;
    return 0;
}

int64_t tk_matmul_workspace_bytes(const tk_matmul_problem* p) {
    return tk::or_failure(int64_t(-1), [&] { return tk::needs(*p).workspace_bytes; });
}

int64_t tk_matmul_num_counters(const tk_matmul_problem* p) {
    return tk::or_failure(int64_t(-1), [&] { return tk::needs(*p).counters; });
}

int tk_matmul(const tk_matmul_problem* p, const tk_matmul_pointers* at) {
    return tk::or_failure(1, [&] {
        if (p->m == 0 || p->n == 0 || p->batch == 0) return 0;
        const tk_matmul_problem problem = tk::exchanged(*p);
        tk::check_plan(problem);
        tk::check(p->k >= 1, "k must be positive");
        tk::check(p->order_kind != tk::order_table || at->order_table != nullptr,
                  "order_kind 5 needs an order_table");
        const bool by_memory = p->splits > 1 && !p->splits_in_cluster;
        tk::check(!by_memory || at->workspace != nullptr, "a split product needs a workspace");
        tk::check((!by_memory && !p->dynamic) || at->counters != nullptr,
                  "a split or dynamic product needs counters");
        tk_matmul_pointers pointers = *at;
        if (p->swapped) std::swap(pointers.a, pointers.b);
        tk::entry_of(problem).run(problem, pointers);
        return 0;
    });
}

int tk_order_tile(int kind, int param, int rows, int cols, const int32_t* table, int64_t index,
                  int32_t* row, int32_t* col) {
    if (rows < 1 || cols < 1 || index < 0 || index >= int64_t(rows) * cols || kind < 0 ||
        kind > tk::order_table || (kind == tk::order_table && table == nullptr)) {
        tk::last_error =
            "an order needs a kind of 0 to 5 (5 with a table) and an index in its grid";
        return 1;
    }
    const tk::tile_coord at = tk::tile_order{kind, param, rows, cols, table}.at(int(index));
    *row = at.row;
    *col = at.col;
    return 0;
}
}
