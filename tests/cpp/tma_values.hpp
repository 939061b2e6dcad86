// What TMA's copies must do, against loops over plain memory: the same checks on both
// architectures (host_tma_check.cpp, gpu_tma_check.cu).
#pragma once
#include <limits>
#include <map>

#include "device_memory.hpp"

namespace checks {

using namespace tk;

enum class way { copy, add, min, max };

// Loads an object of type S at one place of a tensor and stores it at a place of another, by one
// block or by several.
template <class S, class From, class To, way Way>
struct copy_kernel {
    static constexpr int num_threads = 128;
    struct globals {
        From from;
        To to;
        coord load_at, store_at;
    };
    struct shared {
        S object;
        semaphore arrived;
    };
    static TK_DEVICE void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        if (warp::groupid() == 0) {
            tma::prefetch_descriptors(g.from, g.to);
            init_semaphore(memory.arrived, 1, "arrived");
            fence_semaphore_init();
        }
        cluster::sync();
        if (warp::groupid() != 0) return;
        tma::prefetch<S>(g.from, g.load_at);
        warp::expect_bytes(memory.arrived, S::bytes);
        tma::load_async(memory.object, g.from, g.load_at, memory.arrived, eviction::last);
        wait(memory.arrived, 0);
        if constexpr (Way == way::copy) tma::store_async(g.to, memory.object, g.store_at);
        if constexpr (Way == way::add) tma::store_add_async(g.to, memory.object, g.store_at);
        if constexpr (Way == way::min) tma::store_min_async(g.to, memory.object, g.store_at);
        if constexpr (Way == way::max) tma::store_max_async(g.to, memory.object, g.store_at);
        tma::store_async_wait();
    }
};

// A small tensor with gaps between rows, matrices and batches, in plain memory.
template <class T>
struct plain_tensor {
    gl_shape shape;
    gl_strides strides;
    std::vector<T> values;

    plain_tensor(const gl_shape& of, int seed) : shape(of) {
        const int64_t unit = 16 / int64_t(sizeof(T));
        strides.row = (shape.cols + unit - 1) / unit * unit + unit;
        strides.depth = strides.row * shape.rows + 2 * unit;
        strides.batch = strides.depth * shape.depth + unit;
        values.resize(size_t(strides.batch * shape.batch));
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = T(float((int64_t(i) * 7 + seed) % 15 - 7));
        }
    }
    bool contains(int64_t b, int64_t d, int64_t r, int64_t c) const {
        return b >= 0 && d >= 0 && r >= 0 && c >= 0 && b < shape.batch && d < shape.depth &&
               r < shape.rows && c < shape.cols;
    }
    T& at(int64_t b, int64_t d, int64_t r, int64_t c) {
        return values[size_t(b * strides.batch + d * strides.depth + r * strides.row + c)];
    }
    // 0 outside.
    T get(int64_t b, int64_t d, int64_t r, int64_t c) {
        return contains(b, d, r, c) ? at(b, d, r, c) : T(0.0f);
    }
};

inline std::string say(const coord& at) {
    return "(" + std::to_string(at.batch) + ", " + std::to_string(at.depth) + ", " +
           std::to_string(at.row) + ", " + std::to_string(at.col) + ")";
}

// Copies an object of Rows x Cols from one place to another by Kernel; every element of both
// tensors must then be right, gaps included.
template <class S, int Rows, int Cols, class G, way Way>
void check_copy(const gl_shape& shape, const coord& load_at, const coord& store_at, int grid = 1) {
    using T = typename S::dtype;
    using kernel = copy_kernel<S, G, G, Way>;
    plain_tensor<T> from(shape, 3), to(shape, 8);
    device_memory<T> from_memory(from.values), to_memory(to.values);
    typename kernel::globals g;
    g.from = make_gl<G>(from_memory.data(), shape, from.strides);
    g.to = make_gl<G>(to_memory.data(), shape, to.strides);
    g.load_at = load_at, g.store_at = store_at;
    launch<kernel>(g, {grid, 1, sizeof(typename kernel::shared), 0, nullptr});
    finish_kernels();
    for (int r = 0; r < Rows; ++r) {
        for (int c = 0; c < Cols; ++c) {
            const T value =
                from.get(load_at.batch, load_at.depth, load_at.row + r, load_at.col + c);
            const int64_t row = store_at.row + r, col = store_at.col + c;
            if (!to.contains(store_at.batch, store_at.depth, row, col)) continue;
            T& there = to.at(store_at.batch, store_at.depth, row, col);
            const float a = float(there), b = float(value);
            if constexpr (Way == way::copy) there = value;
            if constexpr (Way == way::add) there = T(a + float(grid) * b);
            if constexpr (Way == way::min) there = a < b ? there : value;
            if constexpr (Way == way::max) there = a > b ? there : value;
        }
    }
    const std::vector<T> got = to_memory.get(0, to.values.size());
    for (size_t i = 0; i < got.size(); ++i) {
        if (float(got[i]) == float(to.values[i])) continue;
        throw std::runtime_error("from " + say(load_at) + " to " + say(store_at) + ": element " +
                                 std::to_string(i) + " is " + std::to_string(float(got[i])) +
                                 ", not " + std::to_string(float(to.values[i])));
    }
}

// A tile in tensors of every number of dimensions, inside and over each of their edges.
template <class S, class Listed = S>
void check_tile() {
    using T = typename S::dtype;
    constexpr int unit = 16 / int(sizeof(T));
    constexpr int step = std::is_same_v<S, Listed> ? unit : S::panel_cols;  // that columns start at
    constexpr int cols = 3 * S::panel_cols * ((S::panels + 1) / 2);
    const gl_shape shape(2, 3, S::rows + 20, std::is_same_v<S, Listed> ? cols - unit : cols);
    using four = gl<T, -1, -1, -1, -1, Listed>;
    const auto in_four = [&](const coord& from, const coord& to) {
        check_copy<S, S::rows, S::cols, four, way::copy>(shape, from, to);
    };
    in_four({0, 0, 0, 0}, {1, 2, 20, 0});
    in_four({1, 1, 9, step}, {0, 2, 3, step == unit ? 3 * unit : 0});  // over the last column
    in_four({1, 2, 25, 0}, {1, 0, 4, step});                           // over the last row
    in_four({0, 1, -7, -step}, {1, 1, S::rows + 10, cols - step});     // the first ones
    in_four({2, 0, 0, 0}, {0, 0, 0, 0});                               // outside: zeros
    in_four({0, -1, 0, 0}, {0, 0, 1, 0});
    in_four({0, 0, 0, 0}, {0, 3, 0, 0});  // outside: nothing
    using three = gl<T, 1, -1, -1, -1, Listed>;
    const gl_shape matrices(1, shape.depth, shape.rows, shape.cols);
    check_copy<S, S::rows, S::cols, three, way::copy>(matrices, {2, 3, step}, {1, 5, 0});
    using two = gl<T, 1, 1, -1, -1, Listed>;
    const gl_shape matrix(shape.rows, shape.cols);
    check_copy<S, S::rows, S::cols, two, way::copy>(matrix, {3, step}, {25, 2 * step});
}

template <class V>
void check_vector() {
    using T = typename V::dtype;
    constexpr int length = V::length;
    using four = gl<T, -1, -1, -1, -1, V>;
    constexpr int unit = 16 / int(sizeof(T));
    const gl_shape shape(2, 3, 5, length + 3 * unit);
    const auto in_four = [&](const coord& from, const coord& to) {
        check_copy<V, 1, length, four, way::copy>(shape, from, to);
    };
    in_four({1, 2, 4, 0}, {0, 1, 2, unit});
    in_four({1, 2, 4, 3 * unit}, {0, 1, 2, 2 * unit});
    in_four({0, 0, 0, -unit}, {0, 1, 2, 4 * unit});
    in_four({0, 0, 5, 0}, {0, 1, 2, 0});
    using two = gl<T, 1, 1, -1, -1, V>;
    check_copy<V, 1, length, two, way::copy>({5, length + 3 * unit}, {4, unit}, {0, 2 * unit});
}

template <class S, int Rows, int Cols, way Way>
void check_reduction(int grid = 1) {
    using T = typename S::dtype;
    using four = gl<T, -1, -1, -1, -1, S>;
    constexpr int unit = 16 / int(sizeof(T));
    const gl_shape shape(2, 2, Rows + 9, Cols + unit);
    check_copy<S, Rows, Cols, four, Way>(shape, {1, 0, 2, unit}, {0, 1, 3, 0}, grid);
    check_copy<S, Rows, Cols, four, Way>(shape, {0, 0, 10, 0}, {1, 1, 4, 2 * unit}, grid);
}

// The same matrix for every batch and depth, and dimensions known at compile time.
inline void check_broadcast() {
    using S = st_bf<16, 64>;
    using from_type = gl<bf16, -1, -1, -1, -1, S>;
    using to_type = gl<bf16, 2, 3, 16, 64, S>;
    using kernel = copy_kernel<S, from_type, to_type, way::copy>;
    std::vector<bf16> values(16 * 64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = bf16(float(int(i) % 91));
    device_memory<bf16> from(values), to(std::vector<bf16>(6 * values.size()));
    typename kernel::globals g;
    g.from = make_gl<from_type>(from.data(), {2, 3, 16, 64}, {0, 0, 64});
    g.to = make_gl<to_type>(to.data(), {2, 3, 16, 64});
    for (int b = 0; b < 2; ++b) {
        for (int d = 0; d < 3; ++d) {
            g.load_at = g.store_at = {b, d, 0, 0};
            launch<kernel>(g, {1, 1, sizeof(typename kernel::shared), 0, nullptr});
        }
    }
    finish_kernels();
    const std::vector<bf16> got = to.get(0, 6 * values.size());
    for (size_t i = 0; i < got.size(); ++i) {
        require(float(got[i]) == float(values[i % values.size()]), "a wrong element");
    }
}

// Batches that lie more than 2^31 elements apart. Only what is touched costs memory on the host.
inline void check_large_strides() {
    using S = st_bf<16, 64>;
    using G = gl<bf16, -1, -1, -1, -1, S>;
    using kernel = copy_kernel<S, G, G, way::copy>;
    const int64_t apart = (int64_t(1) << 31) + 4096;
    std::vector<bf16> values(16 * 64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = bf16(float(int(i) % 83));
    device_memory<bf16> memory(size_t(apart) + 4096);
    memory.put(0, values);
    typename kernel::globals g;
    g.from = g.to = make_gl<G>(memory.data(), {2, 1, 16, 64}, {apart, 0, 64});
    require(g.from.offset({1, 0, 2, 3}) == apart + 131, "the offset has not 64 bits");
    g.load_at = {0, 0, 0, 0}, g.store_at = {1, 0, 0, 0};
    launch<kernel>(g, {1, 1, sizeof(typename kernel::shared), 0, nullptr});
    finish_kernels();
    const std::vector<bf16> got = memory.get(size_t(apart), values.size());
    for (size_t i = 0; i < got.size(); ++i) {
        require(float(got[i]) == float(values[i]), "a wrong element");
    }
}

// Parts of a tile, by the descriptor of a tile of their size.
struct parts_kernel {
    static constexpr int num_threads = 128;
    using part = st_bf<64, 64>;
    using wide = st_bf<32, 128>;
    struct globals {
        gl<bf16, 1, 1, -1, -1, part, wide> from, to;
    };
    struct shared {
        st_bf<128, 128> tile;
        semaphore arrived;
    };
    // The quarters of a matrix into the opposite quarters, and out by bands.
    static TK_DEVICE void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        if (warp::groupid() == 0) {
            init_semaphore(memory.arrived, 1, "arrived");
            fence_semaphore_init();
        }
        cluster::sync();
        if (warp::groupid() != 0) return;
        warp::expect_bytes(memory.arrived, st_bf<128, 128>::bytes);
        for (int i = 0; i < 4; ++i) {
            tma::load_async(memory.tile.subtile<64, 64>(1 - i / 2, 1 - i % 2), g.from,
                            {i / 2 * 64, i % 2 * 64}, memory.arrived);
        }
        wait(memory.arrived, 0);
        for (int i = 0; i < 4; ++i) {
            tma::store_async(g.to, memory.tile.subtile<32, 128>(i, 0), {i * 32, 0});
        }
        tma::store_async_wait();
    }
};
inline void check_parts() {
    std::vector<bf16> values(128 * 128);
    for (size_t i = 0; i < values.size(); ++i) values[i] = bf16(float(int(i) * 5 % 251));
    device_memory<bf16> from(values), to(std::vector<bf16>(values.size()));
    using G = decltype(parts_kernel::globals::from);
    launch<parts_kernel>({make_gl<G>(from.data(), {128, 128}), make_gl<G>(to.data(), {128, 128})},
                         {1, 1, sizeof(parts_kernel::shared), 0, nullptr});
    finish_kernels();
    const std::vector<bf16> got = to.get(0, values.size());
    for (int r = 0; r < 128; ++r) {
        for (int c = 0; c < 128; ++c) {
            require(float(got[size_t(r * 128 + c)]) ==
                        float(values[size_t((r + 64) % 128 * 128 + (c + 64) % 128)]),
                    "a wrong element");
        }
    }
}

using test_list = std::map<std::string, void (*)()>;

inline const test_list tma_value_checks = {
    {"a_swizzled_tile_is_copied_in_every_dimension_and_over_every_edge",
     [] {
         check_tile<st_bf<64, 64>>();
         check_tile<st_hf<24, 32>>();
         check_tile<st_fl<16, 8>>();
     }},
    {"a_tile_of_several_panels_is_copied_in_every_dimension_and_over_every_edge",
     [] {
         check_tile<st_bf<32, 128>>();
         check_tile<st_fl<16, 96>>();
         check_tile<st_bf<16, 64, 32>>();
     }},
    {"a_tile_without_a_swizzle_is_copied", [] { check_tile<st_bf<16, 32, 0>>(); }},
    {"a_tile_of_bytes_is_copied",
     [] {
         check_tile<st_e4m3<16, 128>>();
         check_tile<st_e5m2<32, 256>>();
     }},
    {"one_box_copies_all_panels",
     [] {
         check_tile<st_bf<32, 128>, one_box<st_bf<32, 128>>>();
         check_tile<st_bf<16, 32, 0>, one_box<st_bf<16, 32, 0>>>();
         check_tile<st_e4m3<16, 256>, one_box<st_e4m3<16, 256>>>();
     }},
    {"a_vector_is_copied_in_every_dimension_and_over_every_edge",
     [] {
         check_vector<sv_bf<64>>();
         check_vector<sv_fl<100>>();
         check_vector<sv_hf<8>>();
         check_vector<sv_bf<1024>>();  // four boxes
         check_vector<sv<e4m3, 256>>();
     }},
    {"sums_into_memory_count_every_block",
     [] {
         check_reduction<st_bf<16, 64>, 16, 64, way::add>();
         check_reduction<st_hf<16, 64>, 16, 64, way::add>(3);
         check_reduction<st_fl<16, 64>, 16, 64, way::add>(7);
         check_reduction<sv_fl<64>, 1, 64, way::add>(5);
     }},
    {"minima_and_maxima_into_memory",
     [] {
         check_reduction<st_bf<16, 64>, 16, 64, way::min>(3);
         check_reduction<st_hf<16, 128>, 16, 128, way::max>(3);
         check_reduction<sv_hf<64>, 1, 64, way::min>();
         check_reduction<sv_bf<64>, 1, 64, way::max>();
     }},
    {"a_stride_of_0_is_the_same_matrix_for_all", [] { check_broadcast(); }},
    {"strides_may_exceed_2_to_the_31_elements", [] { check_large_strides(); }},
    {"parts_of_tiles_are_targets_and_sources", [] { check_parts(); }},
};

}  // namespace checks
