// A warpgroup's matrix products on the host. A product is only noted where it is issued; it is
// computed where its group is waited for, from what the shared tiles hold then, and until then its
// register tiles are NaN. Each warp computes its own rows.
#pragma once
#include "tk/arch/host/tile_access.hpp"
#include "tk/arch/host/warp_mma.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

// Rows [row, row + rows) x columns [col, col + cols) of a shared tile, widened, row by row.
template <shared_tile S>
void read_tile(const S& tile, int row, int rows, int col, int cols, float* out) {
    using T = typename S::dtype;
    constexpr int step = 16 / int(sizeof(T));  // elements that no swizzle separates
    auto* raw = reinterpret_cast<char*>(buffer(3, size_t(rows * cols) * sizeof(T) / 4 + 8));
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; c += step) {
            std::memcpy(raw + (r * cols + c) * int(sizeof(T)),
                        tile.data + tile.index(row + r, col + c), 16);
        }
    }
    widen<T>(raw, out, rows * cols);
}

// Notes that WGMMA reads a shared operand from now on. A part is read by stretches of memory: one a
// panel, or every 16 bytes for themselves if it has only some of a panel's columns.
template <shared_tile S>
void note_operand_read(const S& operand, std::vector<uint64_t>& tickets) {
    if constexpr (whole_shared_tile<S>) {
        tickets.push_back(note_async_read(operand, "mma"));
    } else {
        using whole = typename S::whole;
        constexpr int size = int(sizeof(typename S::dtype)), width = 16 / size;
        block_context& block = *self().block;
        if (!block.contains(operand.data, whole::bytes)) {
            fail("mma: " + tile_name<whole>() + " is not in the shared memory");
        }
        const auto note_bytes = [&](const void* first, int bytes) {
            access made = make_access("mma", &tile_name<whole>, block.offset_of(first), bytes);
            made.asynchronous = made.under_way = true;
            tickets.push_back(note(block, made));
        };
        if constexpr (S::cols % S::panel_cols == 0) {
            for (int panel = 0; panel < S::panels; ++panel) {
                note_bytes(operand.panel_address(panel), S::rows * S::panel_cols * size);
            }
        } else {
            for (int row = 0; row < S::rows; ++row) {
                for (int col = 0; col < S::cols; col += width) {
                    note_bytes(operand.data + operand.index(row, col), 16);
                }
            }
        }
    }
}

// What a product remembers of a shared operand: a tile stays where it is, a part is a view of one.
template <shared_tile S>
class shared_operand {
  public:
    explicit shared_operand(const S& tile) : tile_(hold(tile)) {}
    const S& get() const {
        if constexpr (whole_shared_tile<S>) {
            return *tile_;
        } else {
            return tile_;
        }
    }

  private:
    static auto hold(const S& tile) {
        if constexpr (whole_shared_tile<S>) {
            return &tile;
        } else {
            return S(tile);
        }
    }
    decltype(hold(std::declval<const S&>())) tile_;
};

// Computes the oldest product, and hands back the registers that only it held.
inline void finish_product() {
    warp_context& warp = self();
    const pending_product oldest = std::move(warp.products.issued.front());
    warp.products.issued.pop_front();
    oldest.execute();
    for (const uint64_t ticket : oldest.reads) {
        warp.block->accesses.finish(ticket, warp.clock.epoch());
    }
    if (!warp.products.give_back(oldest.accumulator)) {
        fail("mma: the accumulator was written while a product was in flight");
    }
    if (oldest.operand != nullptr && !warp.products.give_back(oldest.operand)) {
        fail("mma: a register tile was written while a product that reads it was in flight");
    }
}

}  // namespace machine

namespace detail {

struct wgmma {
    template <class Acc, class A>
    static void begin(Acc&, const A&) {}
    template <class Acc, class A>
    static void end(Acc&, const A&) {
        machine::self().products.commit();
    }

    // acc = (Subtract ? -1 : 1) a b + (accumulate ? acc : 0), in the group under way.
    template <bool TransposeA, bool TransposeB, bool Subtract, bool Commits, class Acc, class A,
              shared_tile B>
    static void issue(Acc& acc, const A& a, const B& b, bool accumulate) {
        constexpr int k = TransposeA ? A::rows : A::cols;
        auto& products = machine::self().products;
        if constexpr (!Commits) {
            require_fenced(acc);
            if constexpr (register_tile<A>) require_fenced(a);
        }
        machine::pending_product issued;
        ++machine::self().products_started;
        machine::note_operand_read(b, issued.reads);
        float* const sums = take(acc, true).content.data();
        issued.accumulator = acc.data;
        const machine::shared_operand<B> right(b);
        const auto multiply = [=](auto&& read_left) {
            float* left = machine::buffer(1, size_t(Acc::rows * k));
            read_left(left);
            if constexpr (Subtract) machine::negate(left, Acc::rows * k);
            if (!accumulate) std::fill_n(sums, Acc::elements, 0.0f);
            machine::multiply(sums, left, read_b<TransposeB, Acc::cols, k>(right.get()), Acc::rows,
                              Acc::cols, k);
        };
        if constexpr (register_tile<A>) {
            const void* const content = take(const_cast<A&>(a), false).content.data();
            issued.operand = a.data;
            issued.execute = [=] {
                multiply([=](float* left) {
                    machine::widen_registers<TransposeA>(
                        static_cast<const typename A::dtype*>(content), Acc::rows, k, left);
                });
            };
        } else {
            machine::note_operand_read(a, issued.reads);
            const machine::shared_operand<A> shared(a);
            issued.execute = [=] {
                multiply([&](float* left) {
                    read_a<TransposeA, Acc::row_blocks, k>(shared.get(), left);
                });
            };
        }
        products.issued.push_back(std::move(issued));
        ++products.uncommitted;
    }

  private:
    template <class R>
    static machine::registers_in_flight& take(R& tile, bool is_accumulator) {
        auto& taken = machine::self().products.take(tile.data, sizeof(tile.data), is_accumulator);
        if (taken.is_accumulator != is_accumulator) {
            machine::fail("mma: a register tile is accumulator and operand of products in flight");
        }
        return taken;
    }

    // Registers in flight are in order with the next product of the same kind (PTX ISA,
    // "wgmma.fence"); all others need the fence after whatever was done with them.
    template <class R>
    static void require_fenced(const R& tile) {
        auto& products = machine::self().products;
        if (products.find(tile.data) != nullptr) return;
        for (const auto& each : products.fenced) {
            if (each.registers != tile.data) continue;
            if (std::memcmp(each.content.data(), tile.data, sizeof(tile.data)) != 0) {
                machine::fail("mma: a register tile was written after its mma_fence");
            }
            return;
        }
        machine::fail("mma: no mma_fence of this group names the register tile");
    }

    template <bool Transpose, int N, int K, class B>
    static const float* read_b(const B& b) {  // (K,N)
        float* right = machine::buffer(0, size_t(N * K));
        if constexpr (Transpose) {
            float* turned = machine::buffer(2, size_t(N * K));
            machine::read_tile(b, 0, N, 0, K, turned);
            machine::transpose(right, turned, N, K);
        } else {
            machine::read_tile(b, 0, K, 0, N, right);
        }
        return right;
    }

    // The rows of the calling warp.
    template <bool Transpose, int RowBlocks, int K, class A>
    static void read_a(const A& a, float* left) {  // (16 * RowBlocks,K)
        for (int block = 0; block < RowBlocks; ++block, left += 16 * K) {
            const int row = block * 64 + warp_index() % 4 * 16;
            if constexpr (Transpose) {
                float* turned = machine::buffer(2, size_t(16 * K));
                machine::read_tile(a, 0, K, row, 16, turned);
                machine::transpose(left, turned, K, 16);
            } else {
                machine::read_tile(a, row, 16, 0, K, left);
            }
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
