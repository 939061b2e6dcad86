// Warpgroup matrix products on the host. A product is only noted where it is issued; it is computed
// where it is waited for, from what the shared tiles hold then, and until then its accumulator is
// NaN. Each warp computes its own rows.
#pragma once
#include <algorithm>
#include <bit>
#include <span>

#include "tk/arch/host/product.hpp"
#include "tk/arch/host/tile_access.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// The calling warp's own room for `floats`, one of a few.
inline float* buffer(int index, size_t floats) {
    auto& values = self().buffers[size_t(index)];
    if (values.size() < floats) values.resize(floats);
    return values.data();
}

// Rows [row, row + rows) x columns [col, col + cols) of a shared tile, widened, row by row.
template <shared_tile S>
void read_tile(const S& tile, int row, int rows, int col, int cols, float* out) {
    auto* raw = reinterpret_cast<char*>(buffer(3, size_t(rows * cols / 2 + 8)));
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; c += 8) {
            std::memcpy(raw + (r * cols + c) * 2, tile.data + S::offset(row + r, col + c), 16);
        }
    }
    widen<typename S::dtype>(raw, out, rows * cols);
}

inline accumulator_in_flight* find_accumulator(const float* registers) {
    for (auto& each : self().accumulators) {
        if (each->registers == registers) return each.get();
    }
    return nullptr;
}

template <class Acc, shared_tile A, shared_tile B, bool TransposeA, bool TransposeB>
struct product {
    static constexpr int n = Acc::cols;
    static constexpr int k = TransposeA ? A::rows : A::cols;

    static void issue(Acc& acc, const A& a, const B& b, bool accumulate) {
        pending_product issued;
        issued.reads_a = note_async_read(a, "mma");
        issued.reads_b = note_async_read(b, "mma");
        issued.execute = &execute;
        issued.a = &a, issued.b = &b, issued.registers = acc.data;
        issued.accumulate = accumulate;
        accumulator_in_flight* flight = find_accumulator(acc.data);
        if (flight == nullptr) {
            self().accumulators.push_back(std::make_unique<accumulator_in_flight>());
            flight = self().accumulators.back().get();
            flight->registers = acc.data;
            flight->values.assign(acc.data, acc.data + Acc::elements);
            std::memset(acc.data, 0xff, sizeof(acc.data));
        }
        ++flight->products;
        self().products.push_back(issued);
    }

    static void execute(const pending_product& pending, float* values) {
        const A& a = *static_cast<const A*>(pending.a);
        const B& b = *static_cast<const B*>(pending.b);
        float* right = buffer(0, size_t(n * k));
        float* left = buffer(1, size_t(Acc::rows * k));
        float* turned = buffer(2, size_t(TransposeB || TransposeA ? n * k + 16 * k : 0));
        if constexpr (TransposeB) {
            read_tile(b, 0, n, 0, k, turned);
            transpose(right, turned, n, k);
        } else {
            read_tile(b, 0, k, 0, n, right);
        }
        for (int block = 0; block < Acc::row_blocks; ++block) {
            const int row = block * 64 + self().index % 4 * 16;
            if constexpr (TransposeA) {
                read_tile(a, 0, k, row, 16, turned);
                transpose(left + block * 16 * k, turned, k, 16);
            } else {
                read_tile(a, row, 16, 0, k, left + block * 16 * k);
            }
        }
        if (!pending.accumulate) std::fill_n(values, Acc::elements, 0.0f);
        multiply(values, left, right, Acc::rows, n, k);
    }
};

// Computes the oldest product.
inline void finish_product() {
    warp_context& warp = self();
    const pending_product oldest = warp.products.front();
    warp.products.pop_front();
    accumulator_in_flight& flight = *find_accumulator(oldest.registers);
    oldest.execute(oldest, flight.values.data());
    warp.block->accesses.finish(oldest.reads_a, warp.clock.epoch());
    warp.block->accesses.finish(oldest.reads_b, warp.clock.epoch());
    if (--flight.products != 0) return;
    for (const float& value : std::span(flight.registers, flight.values.size())) {
        if (std::bit_cast<uint32_t>(value) != 0xffffffffu) {
            fail("mma: the accumulator was written while a product was in flight");
        }
    }
    std::memcpy(flight.registers, flight.values.data(), flight.values.size() * sizeof(float));
    std::erase_if(warp.accumulators, [&](auto& each) { return each.get() == &flight; });
}

}  // namespace machine

namespace detail {

template <int Warps>
struct mma_ops {
    // acc = a b + (accumulate ? acc : 0). acc is (4 * rows, cols) over the warpgroup, fp32; a is
    // (M, K), or (K, M) when transposed; b is (K, N), or (N, K) when transposed. The product is
    // asynchronous: a and b must stay as they are, and acc must not be touched, until
    // `mma_async_wait`.
    template <bool TransposeA, bool TransposeB, class Acc, shared_tile A, shared_tile B>
    static void mma(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        static_assert(Warps == 4, "mma on shared tiles is an operation of a warpgroup");
        using T = typename A::dtype;
        constexpr int M = TransposeA ? A::cols : A::rows, K = TransposeA ? A::rows : A::cols;
        constexpr int N = TransposeB ? B::rows : B::cols;
        static_assert(std::is_same_v<T, typename B::dtype>, "mma: a and b must have one dtype");
        static_assert(std::is_same_v<typename Acc::dtype, float>, "mma: acc must be float");
        static_assert(element_16bit<T>, "mma: a and b must be bf16 or half");
        static_assert(M == Acc::rows * 4, "mma: a must have four times the rows of acc");
        static_assert(N == Acc::cols, "mma: b must have the columns of acc");
        static_assert(N <= 256, "mma: at most 256 columns");
        static_assert(K == (TransposeB ? B::cols : B::rows), "mma: a and b must agree in K");
        static_assert(K % 16 == 0, "mma: K must be a multiple of 16");
        machine::product<Acc, A, B, TransposeA, TransposeB>::issue(acc, a, b, accumulate);
    }

    template <class Acc, shared_tile A, shared_tile B>
    static void mma_AB(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<false, false>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static void mma_ABt(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<false, true>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static void mma_AtB(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<true, false>(acc, a, b, accumulate);
    }
    template <class Acc, shared_tile A, shared_tile B>
    static void mma_AtBt(Acc& acc, const A& a, const B& b, bool accumulate = true) {
        mma<true, true>(acc, a, b, accumulate);
    }

    // Waits until at most `InFlight` of the products issued so far are unfinished. Every register
    // tile in flight must be named, so that the compiler keeps its hands off them.
    template <int InFlight>
    static void mma_async_wait(std::source_location where = std::source_location::current()) {
        finish<InFlight>({}, where);
    }
    template <int InFlight, class A>
    static void mma_async_wait(A& a, std::source_location where = std::source_location::current()) {
        finish<InFlight>({a.data}, where);
    }
    template <int InFlight, class A, class B>
    static void mma_async_wait(A& a, B& b,
                               std::source_location where = std::source_location::current()) {
        finish<InFlight>({a.data, b.data}, where);
    }
    template <int InFlight, class A, class B, class C>
    static void mma_async_wait(A& a, B& b, C& c,
                               std::source_location where = std::source_location::current()) {
        finish<InFlight>({a.data, b.data, c.data}, where);
    }
    template <int InFlight, class A, class B, class C, class D>
    static void mma_async_wait(A& a, B& b, C& c, D& d,
                               std::source_location where = std::source_location::current()) {
        finish<InFlight>({a.data, b.data, c.data, d.data}, where);
    }

  private:
    template <int InFlight>
    static void finish(std::initializer_list<const float*> named,
                       const std::source_location& where) {
        if (machine::sabotage::drops("mma_async_wait", where)) return;
        for (const auto& each : machine::self().accumulators) {
            if (std::find(named.begin(), named.end(), each->registers) == named.end()) {
                machine::fail("mma_async_wait does not name every register tile in flight");
            }
        }
        while (machine::self().products.size() > size_t(InFlight)) machine::finish_product();
    }
};

}  // namespace detail

TK_NAMESPACE_END
