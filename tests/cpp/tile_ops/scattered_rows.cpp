// Rows that lie anywhere in global memory, copied to and from tiles and vectors, against plain
// loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

struct row_arguments {
    arguments plain;
    void* rows;  // of T
    int step, cols;
};

// Row r of a tile is the row of this number in memory; every fifth is nowhere.
TK_HOST_DEVICE int place_of(int row, int rows) { return row % 5 == 2 ? -1 : row * 7 % rows; }

// Operation 0 copies out of the tile or vector, 1 into it.
template <int Warps, class T, class X>
struct copy_rows {
    static constexpr int num_threads = 128;
    using globals = row_arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        const auto at = [&](int row) {
            const int place = place_of(row, rows_of<Warps, X>());
            return place < 0 ? nullptr : static_cast<T*>(g.rows) + place * g.step;
        };
        if constexpr (register_tile<X>) {
            X x;
            read<Warps>(x, g.plain.in[0]);
            group<Warps>::scatter_rows(at, x, g.cols);
        } else if constexpr (register_vector<X>) {
            X x;
            if (g.plain.operation == 0) {
                read<Warps>(x, g.plain.in[0]);
                group<Warps>::scatter_row_values(at, x);
            } else {
                group<Warps>::gather_row_values(x, [&](int row) {
                    return static_cast<const T*>(g.rows) + row * 7 % rows_of<Warps, X>() * g.step;
                });
                write<Warps>(g.plain.out, x);
            }
        } else {
            X& x = *reinterpret_cast<X*>(shared_memory());
            group<Warps>::gather_rows(x, at, g.cols);
            write_shared<Warps>(g.plain.out, x);
        }
    }
    template <int W, class Y>
    static TK_HOST_DEVICE constexpr int rows_of() {
        if constexpr (register_tile<Y>) {
            return Y::rows * W;
        } else if constexpr (register_vector<Y>) {
            return Y::length * W;
        } else {
            return Y::rows;
        }
    }
};

// `cols` columns of each row, `step` elements from row to row.
template <int Warps, class T, class X>
std::string check_rows(int operation, int cols, int step) {
    constexpr int rows = copy_rows<Warps, T, X>::template rows_of<Warps, X>();
    constexpr int width = [] {
        if constexpr (register_vector<X>) {
            return 1;
        } else {
            return X::cols;
        }
    }();
    const auto x = generate(format_of<T>(), size_t(rows * width), inputs{1, 0, false});
    const auto memory = generate(format_of<T>(), size_t(rows * step), inputs{2, 0, false});
    std::vector<T> start;
    for (const float each : memory) start.push_back(T(each));
    device_memory<T> held(start);
    device_memory<float> in(x), out(size_t(rows * width * 8), -123456.789f);
    row_arguments g{};
    g.plain.in[0] = in.data(), g.plain.out = out.data(), g.plain.operation = operation;
    g.rows = held.data(), g.step = step, g.cols = cols;
    launch_and_wait<copy_rows<Warps, T, X>>(g, 65536);

    std::vector<float> got, want;
    if (operation == 0) {
        for (const T each : held.get()) got.push_back(float(each));
        want = memory;
        for (int row = 0; row < rows; ++row) {
            const int place = place_of(row, rows);
            for (int col = 0; col < std::min(cols, width) && place >= 0; ++col) {
                want[size_t(place * step + col)] = x[size_t(row * width + col)];
            }
        }
    } else {
        got = out.get();
        got.resize(size_t(rows * width));
        for (int row = 0; row < rows; ++row) {
            const int place = register_vector<X> ? row * 7 % rows : place_of(row, rows);
            for (int col = 0; col < width; ++col) {
                const bool there = place >= 0 && col < cols;
                want.push_back(there ? memory[size_t(place * step + col)] : 0.0f);
            }
        }
    }
    return compare(got, format_of<T>(), [&](size_t i) { return exactly(want[i]); });
}

template <int Warps, class T, class X>
void add_case_of(const char* operation_name, int operation, const std::string& name, int cols,
                 int step) {
    add_case(operation_name,
             scope_name<Warps>() + " " + name + ", " + std::to_string(cols) + " of " +
                 std::to_string(step) + " " + format_of<T>().name,
             [=] { return check_rows<Warps, T, X>(operation, cols, step); });
}

template <int Warps, class T, class R>
void add_registers() {
    for (const auto& [cols, step] : {std::pair{R::cols, R::cols + 8},
                                     {R::cols - 8, R::cols + 8},
                                     {R::cols - 6, R::cols + 3}}) {
        add_case_of<Warps, T, R>("scatter_rows", 0, register_name<R>(), cols, step);
    }
    using V = typename R::col_vec;
    add_case_of<Warps, T, V>("scatter_row_values", 0, register_name<V>(), 1, 3);
    add_case_of<Warps, T, V>("gather_row_values", 1, register_name<V>(), 1, 3);
}
template <int Warps, class S>
void add_shared() {
    for (const auto& [cols, step] : {std::pair{S::cols, S::cols + 8}, {S::cols - 8, S::cols + 3}}) {
        add_case_of<Warps, typename S::dtype, S>("gather_rows", 1, shared_name<S>(), cols, step);
    }
}

void fill_table() {
    add_registers<1, float, rt_fl<16, 16>>();
    add_registers<4, bf16, rt_fl<16, 24>>();
    add_registers<4, tk::half, rt_hf<32, 32>>();
    add_registers<4, bf16, rt_fl<16, 128>>();
    add_registers<1, tk::half, rt_fl<32, 64>>();
    add_shared<1, st_bf<16, 64>>();
    add_shared<4, st_hf<64, 96>>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
