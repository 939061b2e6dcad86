// What TMA's copies between the blocks of a cluster must do, against loops over plain memory: the
// same checks on both architectures (host_tma_check.cpp, gpu_tma_check.cu).
#pragma once
#include "tma_values.hpp"

namespace checks {

// Each block of a cluster loads a part of a tile for all, and stores what it has.
template <class S, class Listed>
struct multicast_kernel {
    static constexpr int num_threads = 128;
    using shared_gl = gl<typename S::dtype, 1, 1, -1, -1, Listed>;
    struct globals {
        shared_gl from;
        gl<typename S::dtype, 1, -1, -1, -1, S> to;
        int blocks;
    };
    struct shared {
        S tile;
        semaphore arrived;
    };
    static TK_DEVICE void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        if (warp::groupid() == 0) {
            init_semaphore(memory.arrived, 1, "arrived");
            fence_semaphore_init();
        }
        cluster::sync();
        if (warp::groupid() == 0) {
            warp::expect_bytes(memory.arrived, S::bytes);
            const multicast share = {g.blocks, cluster::rank(), uint16_t((1u << g.blocks) - 1u)};
            tma::cluster::load_async(memory.tile, g.from, {0, 0}, memory.arrived, share);
            wait(memory.arrived, 0);
            tma::store_async(g.to, memory.tile, {cluster::rank(), 0, 0});
            tma::store_async_wait();
        }
        cluster::sync();
    }
};
template <class S, class Listed = S>
void check_multicast(int blocks) {
    using T = typename S::dtype;
    using kernel = multicast_kernel<S, Listed>;
    std::vector<T> values(size_t(S::rows) * S::cols);
    for (size_t i = 0; i < values.size(); ++i) values[i] = T(float(int(i) * 5 % 13));
    device_memory<T> from(values), to(std::vector<T>(values.size() * size_t(blocks)));
    typename kernel::globals g;
    g.from = make_gl<decltype(g.from)>(from.data(), {S::rows, S::cols},
                                       gl_strides(gl_shape(S::rows, S::cols)), blocks);
    g.to = make_gl<decltype(g.to)>(to.data(), {blocks, S::rows, S::cols});
    g.blocks = blocks;
    launch<kernel>(g, {blocks, blocks, sizeof(typename kernel::shared), 0, nullptr});
    finish_kernels();
    const std::vector<T> got = to.get(0, values.size() * size_t(blocks));
    for (size_t i = 0; i < got.size(); ++i) {
        require(float(got[i]) == float(values[i % values.size()]), "a wrong element");
    }
}

// Tiles, parts of tiles and vectors go round a cluster: each block sends what it loaded to the
// next, twice, into the same memory, so that the receiver must say when it is free.
struct ring_kernel {
    static constexpr int num_threads = 128;
    using tile = st_bf<64, 128>;
    using vector = sv_fl<64>;
    static constexpr int bytes = tile::bytes + vector::bytes;
    struct globals {
        gl<bf16, 1, -1, -1, -1, tile> from, to;  // a tile for each block
        gl<float, 1, 1, -1, -1, vector> vector_from, vector_to;
        int blocks;
    };
    struct shared {
        tile given, taken;
        vector vector_given, vector_taken;
        semaphore loaded, arrived, free;
    };
    static TK_DEVICE void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        if (warp::groupid() == 0) {
            init_semaphore(memory.loaded, 1, "loaded");
            init_semaphore(memory.arrived, 1, "arrived");
            init_semaphore(memory.free, 3, "free");
            fence_semaphore_init();
        }
        cluster::sync();
        if (warp::groupid() == 0) {
            const int next = (cluster::rank() + 1) % g.blocks;
            const int before = (cluster::rank() + g.blocks - 1) % g.blocks;
            warp::add_expected_bytes(memory.loaded, vector::bytes);
            warp::expect_bytes(memory.loaded, tile::bytes);
            tma::load_async(memory.given, g.from, {cluster::rank(), 0, 0}, memory.loaded);
            tma::load_async(memory.vector_given, g.vector_from, {cluster::rank(), 0},
                            memory.loaded);
            wait(memory.loaded, 0);
            for (int turn = 0; turn < 2; ++turn) {
                if (turn > 0) wait(memory.free, 0);
                warp::expect_bytes(memory.arrived, bytes);
                if (turn == 0) {
                    tma::cluster::store_async(memory.taken, memory.given, next, memory.arrived);
                } else {  // the same by parts, exchanged
                    for (int i = 0; i < 2; ++i) {
                        tma::cluster::store_async(memory.taken.subtile<32, 128>(i, 0),
                                                  memory.given.subtile<32, 128>(1 - i, 0), next,
                                                  memory.arrived);
                    }
                }
                tma::cluster::store_async(memory.vector_taken, memory.vector_given, next,
                                          memory.arrived);
                wait(memory.arrived, turn);
                tma::store_async(g.to, memory.taken, {turn * g.blocks + cluster::rank(), 0, 0});
                tma::store_async(g.vector_to, memory.vector_taken,
                                 {turn * g.blocks + cluster::rank(), 0});
                tma::store_async_wait();
                if (turn == 0) cluster::arrive(memory.free, 1u << before, 3);
            }
        }
        cluster::sync();
    }
};
inline void check_cluster_copies(int blocks) {
    using K = ring_kernel;
    const size_t tile = 64 * 128, all = tile * size_t(blocks), vectors = 64 * size_t(blocks);
    std::vector<bf16> values(all);
    std::vector<float> numbers(vectors);
    for (size_t i = 0; i < all; ++i) values[i] = bf16(float(i * 5 % 241));
    for (size_t i = 0; i < vectors; ++i) numbers[i] = float(i) + 0.25f;
    device_memory<bf16> from(values), to(std::vector<bf16>(2 * all));
    device_memory<float> vector_from(numbers), vector_to(std::vector<float>(2 * vectors));
    K::globals g;
    g.from = make_gl<decltype(g.from)>(from.data(), {blocks, 64, 128});
    g.to = make_gl<decltype(g.to)>(to.data(), {2 * blocks, 64, 128});
    g.vector_from = make_gl<decltype(g.vector_from)>(vector_from.data(), {blocks, 64});
    g.vector_to = make_gl<decltype(g.vector_to)>(vector_to.data(), {2 * blocks, 64});
    g.blocks = blocks;
    launch<K>(g, {blocks, blocks, sizeof(K::shared), 0, nullptr});
    finish_kernels();
    const std::vector<bf16> got = to.get(0, 2 * all);
    const std::vector<float> got_numbers = vector_to.get(0, 2 * vectors);
    for (int block = 0; block < 2 * blocks; ++block) {
        const size_t sender = size_t((block % blocks + blocks - 1) % blocks);
        for (size_t i = 0; i < tile; ++i) {
            const size_t source = block < blocks ? i : (i + tile / 2) % tile;
            require(float(got[size_t(block) * tile + i]) == float(values[sender * tile + source]),
                    "a wrong element of a tile in turn " + std::to_string(block / blocks));
        }
        for (size_t i = 0; i < 64; ++i) {
            require(got_numbers[size_t(block) * 64 + i] == numbers[sender * 64 + i],
                    "a wrong element of a vector in turn " + std::to_string(block / blocks));
        }
    }
}

inline const test_list tma_cluster_checks = {
    {"a_cluster_shares_a_load",
     [] {
         check_multicast<st_bf<64, 64>>(2);
         check_multicast<st_bf<64, 128>>(2);
         check_multicast<st_bf<64, 128>>(4);
         check_multicast<st_bf<64, 128>, one_box<st_bf<64, 128>>>(2);
         check_multicast<st_bf<64, 64>, one_box<st_bf<64, 64>>>(2);
     }},
    {"a_cluster_passes_tiles_and_vectors_round",
     [] {
         check_cluster_copies(2);
         check_cluster_copies(4);
     }},
};

}  // namespace checks
