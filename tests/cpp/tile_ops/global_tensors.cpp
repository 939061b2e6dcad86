// Copies from and to global tensors of any strides, clipped at every edge, and every conversion of
// dtypes, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

constexpr int64_t shared_bytes = 65536;

// A matrix of 37 x 53 with room around it, so that what is written outside is seen.
constexpr int matrix_rows = 37, matrix_cols = 53, room = 4096;

struct tensor_arguments {
    arguments plain;
    void* matrix;  // of T
    int64_t row_stride, col_stride;
    coord at;
};

template <int Warps, class T, class X>
struct copy_global {
    static constexpr int num_threads = 128;
    using globals = tensor_arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        const gl_view<T> matrix(static_cast<T*>(g.matrix), {matrix_rows, matrix_cols},
                                {0, 0, g.row_stride, g.col_stride});
        if constexpr (in_registers<X>) {
            X x;
            if (g.plain.operation == 0) {
                read<register_tile<X> ? Warps : 1>(x, g.plain.in[0]);
                group<Warps>::store(matrix, x, g.at);
            } else {
                group<Warps>::load(x, matrix, g.at);
                write<register_tile<X> ? Warps : 1>(g.plain.out, x);
            }
        } else {
            X& x = *reinterpret_cast<X*>(shared_memory());
            if (g.plain.operation == 0) {
                read_shared<Warps>(x, g.plain.in[0]);
                group<Warps>::store(matrix, x, g.at);
            } else {
                group<Warps>::load(x, matrix, g.at);
                write_shared<Warps>(g.plain.out, x);
            }
        }
    }
};

template <int Warps, class X>
constexpr int rows_of() {
    if constexpr (register_tile<X>) {
        return X::rows * Warps;
    } else if constexpr (shared_tile<X>) {
        return X::rows;
    } else {
        return 1;
    }
}
template <class X>
constexpr int cols_of() {
    if constexpr (register_tile<X> || shared_tile<X>) {
        return X::cols;
    } else {
        return X::length;
    }
}
template <class X>
constexpr int copies_of() {
    if constexpr (register_vector<X>) {
        return copies<X>();
    } else {
        return 1;
    }
}

template <int Warps, class T, class X>
std::string check_copy(int operation, coord at, int64_t row_stride, int64_t col_stride, int shift) {
    using D = typename X::dtype;
    constexpr int rows = rows_of<Warps, X>(), cols = cols_of<X>();
    const size_t whole = 2 * room + size_t(matrix_rows * row_stride + matrix_cols * col_stride);
    const auto values = generate(format_of<T>(), whole, {3, 6, false});
    const auto tile = generate(format_of<D>(), size_t(rows * cols), {4, 6, false});
    memory matrix(whole * sizeof(T)), in(tile.size() * sizeof(float)),
        out(tile.size() * size_t(copies_of<X>()) * sizeof(float));
    for (size_t i = 0; i < whole; ++i) matrix.as<T>()[i] = T(values[i]);
    std::memcpy(in.as<void>(), tile.data(), tile.size() * sizeof(float));
    tensor_arguments g{};
    g.plain.in[0] = in.as<float>(), g.plain.out = out.as<float>(), g.plain.operation = operation;
    const int64_t origin = room + shift;
    g.matrix = matrix.as<T>() + origin;
    g.row_stride = row_stride, g.col_stride = col_stride, g.at = at;
    launch_and_wait<copy_global<Warps, T, X>>(g, shared_bytes);
    const auto inside = [&](int r, int c) {
        return r >= 0 && r < matrix_rows && c >= 0 && c < matrix_cols;
    };
    if (operation == 1) {
        const std::vector<float> got(out.as<float>(),
                                     out.as<float>() + tile.size() * size_t(copies_of<X>()));
        return compare(got, format_of<D>(), [&](size_t i) {
            const int r = at.row + int(i % tile.size()) / cols,
                      c = at.col + int(i % tile.size()) % cols;
            if (!inside(r, c)) return exactly(0.0f);
            return exactly(values[size_t(origin + r * row_stride + c * col_stride)]);
        });
    }
    std::vector<float> want = values, got(whole);
    for (size_t i = 0; i < whole; ++i) {
        got[i] = static_cast<float>(matrix.as<T>()[i]);
        want[i] = round_to(format_of<T>(), double(values[i]));
    }
    for (int i = 0; i < rows * cols; ++i) {
        const int r = at.row + i / cols, c = at.col + i % cols;
        if (inside(r, c)) want[size_t(origin + r * row_stride + c * col_stride)] = tile[size_t(i)];
    }
    return compare(got, format_of<T>(), [&](size_t i) { return exactly(want[i]); });
}

template <int Warps, class T, class X>
void add_copies() {
    std::string name = std::string(format_of<T>().name) + " tensor, ";
    if constexpr (in_registers<X>) {
        name += register_name<X>();
    } else {
        name += shared_name<X>();
    }
    for (int operation = 0; operation < 2; ++operation) {
        add_case(operation == 0 ? "store" : "load", scope_name<Warps>() + " " + name, [=] {
            const coord places[] = {{0, 0, 0},   {0, 5, 16},  {0, 30, 48}, {0, -7, 8},
                                    {0, 3, -13}, {0, 36, 52}, {0, 40, 0},  {0, 0, 60}};
            for (const coord at : places) {
                // rows of memory aligned and not; any strides; columns of memory
                const int64_t strides[][3] = {{64, 1, 0}, {53, 1, 1}, {150, 2, 0}, {1, 40, 0}};
                for (const auto& [row_stride, col_stride, shift] : strides) {
                    const std::string problem =
                        check_copy<Warps, T, X>(operation, at, row_stride, col_stride, int(shift));
                    if (!problem.empty()) {
                        return "at (" + std::to_string(at.row) + ", " + std::to_string(at.col) +
                               "), strides (" + std::to_string(row_stride) + ", " +
                               std::to_string(col_stride) + "): " + problem;
                    }
                }
            }
            return std::string();
        });
    }
}

// --- Conversions of one number, and of a tile's neighbours ---

constexpr int sweep = 1 << 14;
template <class To, class From>
struct conversion {
    static constexpr int num_threads = 128;
    using globals = arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<1>()) return;
        for (int at = 0; at < sweep; at += 512) {
            rt<From, 16, 32> from;
            rt<To, 16, 32> to;
            read<1>(from, g.in[0] + at);
            if (g.operation == 0) {
                warp::copy(to, from);
            } else {
                rv<From, 512> numbers;
                rv<To, 512> converted;
                read<1>(numbers, g.in[0] + at);
                rv<To, 512>::for_each(
                    [&](int i, int) { converted.data[i] = convert<To>(numbers.data[i]); });
                write<1>(g.out + at, converted);
                continue;
            }
            write<1>(g.out + at, to);
        }
    }
};
// Bits of every magnitude and sign, and those about the middle of two neighbours of `To`.
template <class To, class From>
std::vector<float> numbers_to_convert(int part) {
    std::vector<float> result(sweep);
    for (int i = 0; i < sweep; ++i) {
        const uint32_t index = uint32_t(part * sweep + i);
        float x = 0.0f;
        if constexpr (sizeof(From) == 2) {  // every one of 2^16
            const uint16_t bits = uint16_t(index);
            From from;
            std::memcpy(static_cast<void*>(&from), &bits, 2);
            x = static_cast<float>(from);
        } else {
            // The upper 16 bits run over all, the lower ones over what rounding looks at.
            const uint32_t lows[] = {0, 0x8000, 0x7FFF, 0x8001, 1, 0xFFFF, 0x1000, 0x1001};
            const uint32_t bits = index << 16 | lows[index % 8];
            std::memcpy(&x, &bits, 4);
            x = round_to(format_of<From>(), double(x));
        }
        result[size_t(i)] = x;
    }
    return result;
}
template <class To, class From>
void add_conversion() {
    for (int operation = 0; operation < 2; ++operation) {
        add_case(
            operation == 0 ? "copy" : "convert",
            std::string("all of ") + format_of<From>().name + " to " + format_of<To>().name, [=] {
                std::string problem;
                for (int part = 0; part < 65536 / sweep && problem.empty(); ++part) {
                    const auto x = numbers_to_convert<To, From>(part);
                    problem = compare(run<conversion<To, From>>({x}, x.size(), operation),
                                      format_of<To>(), [&](size_t i) { return exactly(x[i]); });
                }
                return problem;
            });
    }
}

void fill_table() {
    add_copies<1, float, rt_fl<16, 16>>();
    add_copies<4, tk::half, rt_fl<16, 24>>();
    add_copies<4, float, rt_bf<16, 32, col_layout>>();
    add_copies<1, e4m3, rt_e4m3<32, 32>>();
    add_copies<4, bf16, st_bf<32, 64>>();
    add_copies<1, float, st_bf<16, 32, 0>>();
    add_copies<4, tk::half, st_e4m3<16, 32>>();
    add_copies<4, float, rv_fl<40>>();
    add_copies<1, bf16, rv_fl<24, vector_layout::aligned>>();
    add_copies<1, tk::half, rv_hf<48, vector_layout::orthogonal>>();
    add_copies<4, float, sv_bf<40>>();

    add_conversion<bf16, float>();
    add_conversion<tk::half, float>();
    add_conversion<e4m3, float>();
    add_conversion<e5m2, float>();
    add_conversion<e4m3, tk::half>();
    add_conversion<e5m2, tk::half>();
    add_conversion<e4m3, bf16>();
    add_conversion<tk::half, e4m3>();
    add_conversion<float, e5m2>();
    add_conversion<bf16, tk::half>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
