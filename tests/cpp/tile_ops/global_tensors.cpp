// Copies from and to global tensors of any strides, clipped at every edge, and every conversion of
// dtypes, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

constexpr int64_t shared_bytes = 65536;

// 2 x 3 matrices of 37 x 53 with room around them, so that what is written outside is seen.
constexpr int batches = 2, depths = 3, matrix_rows = 37, matrix_cols = 53, room = 4096;

struct tensor_arguments {
    arguments plain;
    void* tensor;  // of T
    gl_strides strides;
    coord at;
};

// The elements of such a tensor, at strides of rows and columns, `shift` elements past where a
// vector could begin.
struct placement {
    gl_strides strides;
    int64_t origin;

    placement(int64_t row_stride, int64_t col_stride, int64_t shift) : origin(room + shift) {
        const int64_t matrix = matrix_rows * row_stride + matrix_cols * col_stride;
        const int64_t depth = (matrix + 63) / 64 * 64;
        strides = {depths * depth + 128, depth, row_stride, col_stride};
    }
    size_t size() const { return size_t(2 * room + batches * strides.batch); }
    // Of a place `row` and `col` from a corner.
    size_t index(coord at, int row, int col) const {
        return size_t(origin + at.batch * strides.batch + at.depth * strides.depth +
                      (at.row + row) * strides.row + (at.col + col) * strides.col);
    }
    static bool contains(coord at, int row, int col) {
        const auto below = [](int place, int size) { return place >= 0 && place < size; };
        return below(at.batch, batches) && below(at.depth, depths) &&
               below(at.row + row, matrix_rows) && below(at.col + col, matrix_cols);
    }
};
// Rows of memory at multiples of 16, 8, 4 and 2 bytes of 16-bit elements; any strides; columns of
// memory, aligned and not.
const placement placements[] = {{64, 1, 0},  {60, 1, 4}, {54, 1, 2}, {53, 1, 1},
                                {150, 2, 0}, {1, 40, 0}, {1, 37, 1}};

std::string text_of(coord at, const placement& where) {
    std::string result = "at (";
    for (const int each : {at.batch, at.depth, at.row, at.col})
        result += std::to_string(each) + " ";
    return result + "), strides (" + std::to_string(where.strides.row) + ", " +
           std::to_string(where.strides.col) + "): ";
}

// Of a tensor, or (Wrapped) of what comes of its CuTe tensor.
template <int Warps, class T, class X, bool Wrapped = false>
struct copy_global {
    static constexpr int num_threads = 128;
    using globals = tensor_arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        const gl_view<T> given(static_cast<T*>(g.tensor),
                               {batches, depths, matrix_rows, matrix_cols}, g.strides);
        const gl_view<T> tensor = Wrapped ? gl_view_of(given.tensor()) : given;
        if constexpr (in_registers<X>) {
            X x;
            if (g.plain.operation == 0) {
                read<register_tile<X> ? Warps : 1>(x, g.plain.in[0]);
                group<Warps>::store(tensor, x, g.at);
            } else {
                group<Warps>::load(x, tensor, g.at);
                write<register_tile<X> ? Warps : 1>(g.plain.out, x);
            }
        } else {
            X& x = *reinterpret_cast<X*>(shared_memory());
            if (g.plain.operation == 0) {
                read_shared<Warps>(x, g.plain.in[0]);
                group<Warps>::store(tensor, x, g.at);
            } else {
                group<Warps>::load(x, tensor, g.at);
                write_shared<Warps>(g.plain.out, x);
            }
        }
    }
};

// The 8 columns that an `any_gl` has from every eighth of a row of rows_of_any x cols_of_any,
// by one thread.
constexpr int rows_of_any = 5, cols_of_any = 24;
template <class T>
struct copy_any {
    static constexpr int num_threads = 128;
    using globals = tensor_arguments;
    static TK_DEVICE void run(const globals& g) {
        if (!is_first_thread()) return;
        any_gl tensor;
        tensor.data = g.tensor, tensor.tag = tag_of<T>;
        tensor.batch_stride = g.strides.batch, tensor.depth_stride = g.strides.depth;
        tensor.row_stride = g.strides.row, tensor.col_stride = g.strides.col;
        tensor.by_vectors = g.plain.integers[0] != 0;
        for (int row = 0; row < rows_of_any; ++row) {
            for (int col = 0; col < cols_of_any; col += 8) {
                float values[8] = {};
                const coord at{g.at.batch, g.at.depth, g.at.row + row, g.at.col + col};
                const int first = row * cols_of_any + col;
                if (g.plain.operation == 0) {
                    for (int i = 0; i < 8; ++i) values[i] = g.plain.in[0][first + i];
                    tensor.set8(values, at, matrix_cols);
                } else {
                    tensor.get8(values, at, matrix_cols);
                    for (int i = 0; i < 8; ++i) g.plain.out[first + i] = values[i];
                }
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

// Of rows x cols numbers of format D, `copies` times, by a kernel that stores (operation 0) or
// loads.
template <class Kernel, class T>
std::string check_copy(const format& d, int rows, int cols, int copies, int operation, coord at,
                       const placement& where, bool by_vectors = false) {
    const size_t whole = where.size(), count = size_t(rows * cols);
    const auto values = generate(format_of<T>(), whole, {3, 6, false});
    const auto tile = generate(d, count, {4, 6, false});
    device_memory<T> tensor(whole);
    for (size_t i = 0; i < whole; ++i) tensor[i] = T(values[i]);
    device_memory<float> in(tile), out(count * size_t(copies));
    tensor_arguments g{};
    g.plain.in[0] = in.data(), g.plain.out = out.data(), g.plain.operation = operation;
    g.plain.integers[0] = by_vectors ? 1 : 0;
    g.tensor = tensor.data() + where.origin, g.strides = where.strides, g.at = at;
    launch_and_wait<Kernel>(g, shared_bytes);
    if (operation == 1) {
        return compare(out.get(), d, [&](size_t i) {
            const int row = int(i % count) / cols, col = int(i % count) % cols;
            if (!placement::contains(at, row, col)) return exactly(0.0f);
            return exactly(values[where.index(at, row, col)]);
        });
    }
    std::vector<float> want = values, got(whole);
    for (size_t i = 0; i < whole; ++i) {
        got[i] = static_cast<float>(tensor[i]);
        want[i] = round_to(format_of<T>(), double(values[i]));
    }
    for (int i = 0; i < rows * cols; ++i) {
        const int row = i / cols, col = i % cols;
        if (placement::contains(at, row, col)) want[where.index(at, row, col)] = tile[size_t(i)];
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
            const coord places[] = {{0, 0, 0, 0},   {1, 0, 5, 16}, {0, 2, 30, 48}, {1, 1, -7, 8},
                                    {1, 2, 3, -13}, {0, 36, 52},   {0, 1, 40, 0},  {1, 0, 0, 60},
                                    {2, 0, 0, 0},   {0, 3, 0, 0},  {-1, 0, 0, 0},  {0, -1, 0, 0}};
            for (const coord at : places) {
                for (const placement& where : placements) {
                    const std::string problem = check_copy<copy_global<Warps, T, X>, T>(
                        format_of<typename X::dtype>(), rows_of<Warps, X>(), cols_of<X>(),
                        copies_of<X>(), operation, at, where);
                    if (!problem.empty()) return text_of(at, where) + problem;
                }
            }
            return std::string();
        });
    }
}
// The view of a tensor's CuTe tensor, and of its rows and columns alone.
template <class T, class X>
void add_wrapped() {
    add_case("gl_view_of", std::string(format_of<T>().name) + " tensor, " + register_name<X>(), [] {
        for (const coord at : {coord{1, 2, 3, 8}, coord{0, 1, 30, 48}, coord{2, 0, 0, 0}}) {
            const std::string problem = check_copy<copy_global<1, T, X, true>, T>(
                format_of<typename X::dtype>(), X::rows, X::cols, 1, 1, at, placements[4]);
            if (!problem.empty()) return text_of(at, placements[4]) + problem;
        }
        T first[12] = {};
        const gl<T, 1, 1, 3, -1> fixed(first, {3, 2}, {0, 0, 4, 2});
        static_assert(cute::is_static<decltype(cute::shape<0>(fixed.tensor()))>::value);
        const auto view = gl_view_of(fixed.tensor()(cute::_, cute::_, 0, 0));
        const bool right = view.data == first && view.rows() == 3 && view.cols() == 2 &&
                           view.row_stride == 4 && view.col_stride == 2 && view.depth() == 1;
        return std::string(right ? "" : "the view of a matrix is another");
    });
}
template <class T>
void add_any() {
    for (int operation = 0; operation < 2; ++operation) {
        add_case(operation == 0 ? "set8" : "get8", std::string("any_gl of ") + format_of<T>().name,
                 [=] {
                     const coord places[] = {
                         {0, 0, 0, 0}, {1, 0, 5, 16}, {0, 2, 30, 48}, {1, 2, 3, 8}, {1, 1, 0, 40}};
                     for (const coord at : places) {
                         for (const placement& where : placements) {
                             for (const bool by_vectors : {false, true}) {
                                 if (by_vectors && where.strides.row % 8 != 0) continue;
                                 const std::string problem = check_copy<copy_any<T>, T>(
                                     format_of<float>(), rows_of_any, cols_of_any, 1, operation, at,
                                     where, by_vectors);
                                 if (!problem.empty()) return text_of(at, where) + problem;
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
    add_copies<4, bf16, st_bf<32, 32>>();  // some of them all inside
    add_copies<1, tk::half, st_hf<8, 16>>();
    add_copies<1, float, st_bf<16, 32, 0>>();
    add_copies<4, tk::half, st_e4m3<16, 32>>();
    add_copies<4, float, rv_fl<40>>();
    add_copies<1, bf16, rv_fl<24, vector_layout::aligned>>();
    add_copies<1, tk::half, rv_hf<48, vector_layout::orthogonal>>();
    add_copies<4, float, sv_bf<40>>();
    add_wrapped<float, rt_fl<16, 16>>();
    add_any<bf16>();
    add_any<tk::half>();
    add_any<float>();

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
