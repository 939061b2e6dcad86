// Shared tiles and vectors: copies from and to registers, maps and parts, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

constexpr int64_t shared_bytes = 3 * 65536;
// Room for the i-th operand.
template <class S>
TK_DEVICE S& operand(int i) {
    return *reinterpret_cast<S*>(shared_memory() + i * 65536);
}

// Registers to the Parts x Parts'th of a tile and back: the part at the last place, the rest of the
// tile as it was.
template <int Warps, class S, class R, int Parts>
struct copy_registers {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        S& tile = operand<S>(0);
        read_shared<Warps>(tile, g.in[0]);
        R r;
        const auto apply = [&](auto&& part) {
            if (g.operation == 0) {
                read<Warps>(r, g.in[1]);
                group<Warps>::store(part, r);
                write_shared<Warps>(g.out, tile);
            } else {
                group<Warps>::load(r, part);
                write<Warps>(g.out, r);
            }
        };
        if constexpr (Parts == 1) {
            apply(tile);
        } else {
            apply(tile.template subtile<S::rows / Parts, S::cols / Parts>(Parts - 1, Parts - 1));
        }
    }
};
template <int Warps, class S, class R, int Parts = 1>
void add_registers() {
    static constexpr int rows = S::rows / Parts, cols = S::cols / Parts;
    for (int operation = 0; operation < 2; ++operation) {
        add_case(operation == 0 ? "store" : "load",
                 scope_name<Warps>() + " " + shared_name<S>() + " in " + std::to_string(Parts) +
                     ", " + register_name<R>(),
                 [=] {
                     const auto tile = generate(format_of<typename S::dtype>(),
                                                size_t(S::rows * S::cols), {1, 4, false});
                     const auto registers = generate(format_of<typename R::dtype>(),
                                                     size_t(rows * cols), {2, 4, false});
                     const auto got = run<copy_registers<Warps, S, R, Parts>>(
                         {tile, registers}, operation == 0 ? tile.size() : registers.size(),
                         operation, {}, shared_bytes);
                     const int row_0 = S::rows - rows, col_0 = S::cols - cols;
                     if (operation == 1) {
                         return compare(got, format_of<typename R::dtype>(), [&](size_t i) {
                             const int r = int(i) / cols, c = int(i) % cols;
                             return exactly(tile[size_t((row_0 + r) * S::cols + col_0 + c)]);
                         });
                     }
                     return compare(got, format_of<typename S::dtype>(), [&](size_t i) {
                         const int r = int(i) / S::cols - row_0, c = int(i) % S::cols - col_0;
                         return exactly(r < 0 || c < 0 ? tile[i] : registers[size_t(r * cols + c)]);
                     });
                 });
    }
}

struct three_less {
    TK_DEVICE float operator()(float a) const { return 0.5f * a; }
    TK_DEVICE float operator()(float a, float b) const { return a - b; }
    TK_DEVICE float operator()(float a, float b, float c) const { return a > 0.0f ? b : c; }
};
struct plus_place {
    TK_DEVICE float operator()(int row, int col, float x) const {
        return x + float(1000 * row + col);
    }
    TK_DEVICE float operator()(int place, float x) const { return x + float(place); }
};

constexpr const char* map_names[] = {
    "fill",       "copy",          "map",           "map",
    "map",        "add",           "apply",         "relu",
    "map_shared", "map_row",       "map_col",       "zero",
    "max",        "broadcast_row", "broadcast_col", "exp2_scaled_sub_row"};
constexpr int num_maps = 16,
              first_of_values = 13;  // by a vector of values, besides map_row and map_col
TK_HOST_DEVICE constexpr bool takes_values(int operation) {
    return operation == 9 || operation == 10 || operation >= first_of_values;
}
template <int Warps, class D, class A, class B>
struct maps {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        using G = group<Warps>;
        A& a = operand<A>(0);
        B& b = operand<B>(1);
        D& d = operand<D>(2);
        read_shared<Warps>(a, g.in[0]);
        read_shared<Warps>(b, g.in[1]);
        switch (g.operation) {
            case 0:
                G::fill(d, 0.375f);
                break;
            case 1:
                G::copy(d, a);
                break;
            case 2:
                G::map(d, a, three_less{});
                break;
            case 3:
                G::map(d, a, b, three_less{});
                break;
            case 4:
                G::map(d, a, b, 0.5f, three_less{});
                break;
            case 5:
                G::add(d, a, b);
                break;
            case 6:
                G::apply(d, a, plus_place{});
                break;
            case 7:
                G::relu(d, a);
                break;
            case 8:
                G::map_shared(d, three_less{}, "map_shared", a, b);
                break;
            case 11:
                G::zero(d);
                break;
            case 12:
                G::max(d, a, b);
                break;
        }
        if constexpr (shared_tile<D>) {
            if (takes_values(g.operation)) {
                auto& rows = operand<col_vec<B>>(1);
                auto& cols = operand<row_vec<B>>(1);
                const bool of_columns = g.operation == 10 || g.operation == 14;
                if (of_columns) {
                    read_shared<Warps>(cols, g.in[2]);
                } else {
                    read_shared<Warps>(rows, g.in[2]);
                }
                if (g.operation == 9) G::map_row(d, a, rows, three_less{});
                if (g.operation == 10) G::map_col(d, a, cols, three_less{});
                if (g.operation == 13) G::broadcast_row(d, rows);
                if (g.operation == 14) G::broadcast_col(d, cols);
                if (g.operation == 15) G::exp2_scaled_sub_row(d, a, rows, 0.25f);
            }
        }
        write_shared<Warps>(g.out, d);
    }
};
template <int Warps, class D, class A, class B>
void add_maps() {
    for (int operation = 0; operation < num_maps; ++operation) {
        if (!shared_tile<D> && takes_values(operation)) continue;
        add_case(map_names[operation],
                 scope_name<Warps>() + " " + shared_name<D>() + " of " + shared_name<A>() +
                     " and " + shared_name<B>(),
                 [=] {
                     size_t cols = 1, size = 0;
                     if constexpr (shared_tile<D>) {
                         cols = size_t(D::cols), size = size_t(D::rows) * cols;
                     } else {
                         size = size_t(D::length);
                     }
                     const auto a = generate(format_of<typename A::dtype>(), size, {1, 4, false}),
                                b = generate(format_of<typename B::dtype>(), size, {2, 4, false});
                     return compare(
                         run<maps<Warps, D, A, B>>({a, b, b}, size, operation, {}, shared_bytes),
                         format_of<typename D::dtype>(), [&](size_t i) {
                             const size_t place = shared_tile<D> ? i / cols * 1000 + i % cols : i;
                             const float x = a[i], y = b[i];
                             const bool x_wins =
                                 std::isnan(x) || x > y || (x == y && !std::signbit(x));
                             const float of_row = b[i / cols % b.size()];
                             if (operation == 15) {
                                 const float scaled = of_row == -infinity ? 0.0f : of_row * 0.25f;
                                 return within(std::exp2(double(std::fma(x, 0.25f, -scaled))), 2.0,
                                               true);
                             }
                             const float results[] = {0.375f,
                                                      x,
                                                      0.5f * x,
                                                      x - y,
                                                      x > 0.0f ? y : 0.5f,
                                                      x + y,
                                                      x + float(place),
                                                      x < 0.0f ? 0.0f : x,
                                                      x - y,
                                                      x - of_row,
                                                      x - b[i % cols],
                                                      0.0f,
                                                      x_wins ? x : y,
                                                      of_row,
                                                      b[i % cols]};
                             return exactly(results[operation]);
                         });
                 });
    }
}

// What a CuTe tensor of a tile or a vector was made of.
template <class S>
struct rewrapped {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<1>()) return;
        S& from = operand<S>(0);
        const auto same = [&]() -> S& {
            if constexpr (shared_tile<S>) {
                return shared_tile_of<S>(from.tensor());
            } else {
                return shared_vector_of<S>(from.tensor());
            }
        };
        read_shared<1>(from, g.in[0]);
        write_shared<1>(g.out, same());
    }
};
template <class S>
void add_rewrapped() {
    add_case(shared_tile<S> ? "shared_tile_of" : "shared_vector_of", shared_name<S>(), [] {
        const size_t size = S::bytes / sizeof(typename S::dtype);
        const auto x = generate(format_of<typename S::dtype>(), size, {1, 4, false});
        return compare(run<rewrapped<S>>({x}, size, 0, {}, shared_bytes),
                       format_of<typename S::dtype>(), [&](size_t i) { return exactly(x[i]); });
    });
}

// A register vector and a shared one: of the whole, or a warp's rows of it.
template <int Warps, bool Rows, class S, class V>
struct copy_vector {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        constexpr int parts = Rows ? Warps : 1;
        S& shared = operand<S>(0);
        V v;
        if (g.operation == 0) {
            read<parts>(v, g.in[0]);
            if constexpr (Rows) {
                group<Warps>::store_rows(shared, v);
            } else {
                group<Warps>::store(shared, v);
            }
            write_shared<Warps>(g.out, shared);
        } else {
            read_shared<Warps>(shared, g.in[0]);
            if constexpr (Rows) {
                group<Warps>::load_rows(v, shared);
            } else {
                group<Warps>::load(v, shared);
            }
            if (Rows || tk::detail::warp_index() == Warps - 1) write<parts>(g.out, v);
        }
    }
};
template <int Warps, bool Rows, class S, class V>
void add_vector() {
    for (int operation = 0; operation < 2; ++operation) {
        add_case(std::string(operation == 0 ? "store" : "load") + (Rows ? "_rows" : ""),
                 scope_name<Warps>() + " " + shared_name<S>() + ", " + register_name<V>(), [=] {
                     constexpr size_t size = size_t(S::length);
                     const auto x =
                         operation == 0
                             ? generate(format_of<typename V::dtype>(), size, {1, 4, false})
                             : generate(format_of<typename S::dtype>(), size, {1, 4, false});
                     const size_t copied = operation == 0 ? 1 : size_t(copies<V>());
                     return compare(run<copy_vector<Warps, Rows, S, V>>(
                                        {x}, size * copied, operation, {}, shared_bytes),
                                    operation == 0 ? format_of<typename S::dtype>()
                                                   : format_of<typename V::dtype>(),
                                    [&](size_t i) { return exactly(x[i % size]); });
                 });
    }
}

void fill_table() {
    add_registers<1, st_bf<16, 64>, rt_bf<16, 64>>();
    add_registers<4, st_bf<128, 64>, rt_fl<32, 64>>();
    add_registers<4, st_hf<64, 96, 64>, rt_fl<16, 96>>();
    add_registers<1, st_bf<32, 48, 32>, rt_bf<32, 48, col_layout>>();
    add_registers<4, st_hf<128, 16, 32>, rt_hf<32, 16, col_layout>>();
    add_registers<1, st_bf<16, 24, 0>, rt_bf<16, 24>>();
    add_registers<4, st_bf<64, 64, 0>, rt_bf<16, 64>>();
    add_registers<4, st_fl<64, 32>, rt_fl<16, 32>>();
    add_registers<1, st_fl<32, 48, 64>, rt_bf<32, 48>>();
    add_registers<4, st_fl<128, 16, 32>, rt_fl<32, 16, col_layout>>();
    add_registers<4, st_e4m3<64, 64>, rt_e4m3<16, 64>>();
    add_registers<1, st_e5m2<16, 32>, rt_fl<16, 32>>();
    add_registers<4, st_e4m3<128, 32, 0>, rt_bf<32, 32>>();
    add_registers<1, st_e4m3<32, 32>, rt_e4m3<32, 32, col_layout>>();
    add_registers<1, st_e4m3<32, 32>, rt_fl<32, 32, col_layout>>();
    add_registers<1, st_bf<16, 32>, rt_e4m3<16, 32>>();
    // Parts: of whole panels, narrower than one, of a row of panels.
    add_registers<1, st_bf<32, 128>, rt_bf<16, 64>, 2>();
    add_registers<4, st_bf<128, 64>, rt_bf<16, 32>, 2>();
    add_registers<1, st_bf<64, 32, 64>, rt_fl<16, 8>, 4>();
    add_registers<4, st_fl<128, 64>, rt_fl<16, 32>, 2>();
    add_registers<1, st_fl<32, 32>, rt_fl<16, 16, col_layout>, 2>();
    // Those whose lanes exchange the two of a pair.
    add_registers<1, st_fl<32, 32>, rt_fl<16, 16>, 2>();
    add_registers<4, st_fl<256, 64>, rt_bf<16, 16>, 4>();
    add_registers<4, st_fl<128, 96>, rt_fl<16, 48>, 2>();
    add_registers<1, st_fl<32, 16, 64>, rt_fl<16, 8>, 2>();
    add_registers<1, st_e4m3<32, 64>, rt_e4m3<16, 32>, 2>();

    add_maps<4, st_bf<64, 64>, st_bf<64, 64>, st_bf<64, 64>>();
    add_maps<1, st_fl<16, 32>, st_bf<16, 32, 0>, st_hf<16, 32, 32>>();
    add_maps<4, st_e4m3<24, 64>, st_fl<24, 64>, st_e5m2<24, 64, 32>>();
    add_maps<4, sv_bf<40>, sv_fl<40>, sv_hf<40>>();
    add_maps<1, sv_fl<7>, sv_fl<7>, sv_bf<7>>();

    add_rewrapped<st_bf<64, 32>>();
    add_rewrapped<sv_fl<40>>();
    add_vector<1, false, sv_fl<40>, rv_bf<40>>();
    add_vector<4, false, sv_bf<64>, rv_fl<64>>();
    add_vector<4, false, sv_bf<24>, rv_fl<24, vector_layout::aligned>>();
    add_vector<1, false, sv_hf<48>, rv_fl<48, vector_layout::orthogonal>>();
    add_vector<4, true, sv_fl<128>, rv_fl<32, vector_layout::orthogonal>>();
    add_vector<4, true, sv_bf<64>, rv_fl<16, vector_layout::aligned>>();
    add_vector<1, true, sv_fl<16>, rv_fl<16, vector_layout::orthogonal>>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
