// Complex tiles: element by element, and through shared memory, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

constexpr int rows = 64, cols = 32, size = rows * cols;
constexpr const char* names[] = {"zero", "copy", "add", "sub", "mul", "conj", "store", "load"};

struct complex_kernel {
    static constexpr int num_threads = 128;
    using globals = arguments;
    using tile = crt_fl<rows / 4, cols>;

    static TK_DEVICE void run(const globals& g) {
        auto& staged = *reinterpret_cast<cst_bf<rows, cols>*>(shared_memory());
        tile a, b;
        read<4>(a.real, g.in[0]), read<4>(a.imag, g.in[1]);
        read<4>(b.real, g.in[1]), read<4>(b.imag, g.in[2]);
        tile result = a;
        switch (g.operation) {
            case 0:
                warpgroup::zero(result);
                break;
            case 1:
                warpgroup::copy(result, b);
                break;
            case 2:
                warpgroup::add(result, result, b);
                break;
            case 3:
                warpgroup::sub(result, a, b);
                break;
            case 4:
                warpgroup::mul(result, result, b);
                break;
            case 5:
                warpgroup::conj(result, a);
                break;
            default:
                warpgroup::store(staged, b);
                warpgroup::sync(1);
                warpgroup::load(result, staged);
        }
        write<4>(g.out, result.real), write<4>(g.out + size, result.imag);
    }
};

void fill_table() {
    for (int operation = 0; operation < 8; ++operation) {
        add_case(names[operation], "warpgroup complex 64x32", [=] {
            std::vector<std::vector<float>> in(3, std::vector<float>(size));
            for (int k = 0; k < 3; ++k) {
                for (int i = 0; i < size; ++i)
                    in[size_t(k)][size_t(i)] = float(i * (2 * k + 3) % 13 - 6);
            }
            const auto got =
                run<complex_kernel>(in, 2 * size, operation, {}, sizeof(cst_bf<rows, cols>));
            return compare(got, format_of<float>(), [&](size_t i) {
                const size_t at = i % size;
                const float a = in[0][at], b = in[1][at], c = in[1][at], d = in[2][at];
                const float real[] = {0, c, a + c, a - c, a * c - b * d, a, c, c};
                const float imag[] = {0, d, b + d, b - d, a * d + b * c, -b, d, d};
                return exactly(i < size ? real[operation] : imag[operation]);
            });
        });
    }
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
