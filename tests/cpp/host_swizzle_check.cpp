// Holds the layout of every kind of shared tile against the swizzle of the hardware, written here
// without CuTe: PTX ISA, "Tensor swizzling modes" (cp.async.bulk.tensor, 128B, 64B and 32B), and
// CUDA driver API, CUtensorMapSwizzle. A tile lies in panels as wide as the swizzle, each a TMA
// box; within a box, bits of the byte address are exchanged in units of 16 bytes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tk/tk.hpp"

namespace {

int failures = 0;

// Where the hardware puts byte `at` of a box: address bits 4 and up, exclusive-or bits 7 and up.
int64_t swizzled(int64_t at, int swizzle_bytes) {
    switch (swizzle_bytes) {
        case 128:
            return at ^ ((at >> 7 & 7) << 4);  // bits 4-6 ^= bits 7-9
        case 64:
            return at ^ ((at >> 7 & 3) << 4);  // bits 4-5 ^= bits 7-8
        case 32:
            return at ^ ((at >> 7 & 1) << 4);  // bit 4 ^= bit 7
        default:
            std::abort();
    }
}

// The widest swizzle whose width divides the row.
int swizzle_of(int row_bytes) { return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32; }

template <class S>
int64_t hardware_offset(int row, int col) {
    const int size = int(sizeof(typename S::dtype)), width = swizzle_of(S::cols * size);
    const int64_t panel = col * size / width, within = col * size % width;
    return swizzled((panel * S::rows + row) * width + within, width);
}

// Loads one tile of a matrix by TMA into shared memory and copies its raw bytes out.
template <class S>
struct load_kernel {
    using T = typename S::dtype;
    static constexpr int num_threads = 128;
    struct globals {
        tk::gl<T, 1, 1, -1, -1, S> matrix;
        unsigned char* out;
    };
    struct shared {
        S tile;
        tk::semaphore arrived;
    };
    static void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(tk::shared_memory());
        if (tk::warp::groupid() == 0) {
            tk::init_semaphores(&memory.arrived, 1, 1);
            tk::fence_semaphore_init();
        }
        tk::cluster::sync();
        if (tk::warp::groupid() != 0) return;
        tk::warp::expect_bytes(memory.arrived, S::bytes);
        tk::tma::load_async(memory.tile, g.matrix, {0, 0}, memory.arrived);
        tk::wait(memory.arrived, 0);
        std::memcpy(g.out, memory.tile.data, S::bytes);
    }
};

template <class T, int Rows, int Cols>
void check(const char* type) {
    using S = tk::st<T, Rows, Cols>;
    const auto tile = std::make_unique<S>();
    const char* const base = reinterpret_cast<const char*>(tile->data);
    const S& constant = *tile;
    int wrong = 0;
    // The element (row, col) is its own number, in as many bits as the type takes exactly.
    const auto value = [](int row, int col) { return T(float((row * 31 + col * 7) % 251)); };
    std::vector<T> matrix;
    matrix.resize(size_t(Rows) * Cols);
    for (int row = 0; row < Rows; ++row) {
        for (int col = 0; col < Cols; ++col) matrix[size_t(row) * Cols + col] = value(row, col);
    }
    std::vector<unsigned char> loaded(S::bytes);
    if constexpr (Rows <= 256) {
        tk::launch<load_kernel<S>>(
            {tk::make_gl<tk::gl<T, 1, 1, -1, -1, S>>(matrix.data(), {Rows, Cols}), loaded.data()},
            {1, 1, sizeof(typename load_kernel<S>::shared), 0, nullptr});
    }
    for (int row = 0; row < Rows; ++row) {
        for (int col = 0; col < Cols; ++col) {
            const int64_t right = hardware_offset<S>(row, col);
            const auto offset = [&](const auto& element) {
                return reinterpret_cast<const char*>(&element) - base;
            };
            T arrived;
            std::memcpy(&arrived, loaded.data() + right, sizeof(T));
            wrong += int64_t(S::offset(row, col)) * int64_t(sizeof(T)) != right;
            wrong += offset(tile->tensor()(row, col)) != right;
            wrong += offset(constant.tensor()(row, col)) != right;
            wrong += offset(constant.tensor_t()(col, row)) != right;
            wrong += float(arrived) != float(value(row, col));
        }
    }
    std::printf("st<%s, %d, %d> swizzle %d: %s\n", type, Rows, Cols, S::swizzle_bytes,
                wrong == 0 ? "ok" : "WRONG");
    failures += wrong != 0;
}

}  // namespace

int main() {
    using tk::bf16, tk::half;
    // rows of 32 and 96 bytes (32B), of 64 and 192 (64B), of 128, 256 and 384 (128B)
    check<bf16, 8, 16>("bf16"), check<bf16, 64, 16>("bf16"), check<bf16, 128, 48>("bf16");
    check<bf16, 8, 32>("bf16"), check<bf16, 64, 32>("bf16"), check<bf16, 72, 96>("bf16");
    check<bf16, 8, 64>("bf16"), check<bf16, 16, 64>("bf16"), check<bf16, 256, 64>("bf16");
    check<bf16, 64, 128>("bf16"), check<bf16, 64, 192>("bf16"), check<bf16, 40, 256>("bf16");
    check<half, 64, 16>("half"), check<half, 72, 96>("half"), check<half, 64, 192>("half");
    check<float, 64, 8>("float"), check<float, 128, 24>("float"), check<float, 64, 16>("float");
    check<float, 72, 48>("float"), check<float, 16, 64>("float"), check<float, 64, 96>("float");
    return failures == 0 ? 0 : 1;
}
