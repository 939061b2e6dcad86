// The names of matrix products, and complex products made of real ones, on every architecture.
#pragma once
#include "tk/tile/mma_checks.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// What a product does with its operands stands in its name: AB is a b, ABt is a b^T, and so on.
// `mma` adds to the destination, unless `accumulate` is false, or to c; `mm` overwrites it.
// dst may be c, but not a or b. `Scope` says where the operands may lie and when it is done:
// warp_products, warpgroup_products.
template <class Scope>
struct mma_words {
    template <class D, class A, class B>
    static TK_DEVICE void mma_AB(D& acc, const A& a, const B& b, bool accumulate = true) {
        Scope::template mma<false, false>(acc, a, b, accumulate);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_ABt(D& acc, const A& a, const B& b, bool accumulate = true) {
        Scope::template mma<false, true>(acc, a, b, accumulate);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_AtB(D& acc, const A& a, const B& b, bool accumulate = true) {
        Scope::template mma<true, false>(acc, a, b, accumulate);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_AtBt(D& acc, const A& a, const B& b, bool accumulate = true) {
        Scope::template mma<true, true>(acc, a, b, accumulate);
    }

    template <class D, class A, class B>
    static TK_DEVICE void mm_AB(D& dst, const A& a, const B& b) {
        Scope::template mma<false, false>(dst, a, b, false);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mm_ABt(D& dst, const A& a, const B& b) {
        Scope::template mma<false, true>(dst, a, b, false);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mm_AtB(D& dst, const A& a, const B& b) {
        Scope::template mma<true, false>(dst, a, b, false);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mm_AtBt(D& dst, const A& a, const B& b) {
        Scope::template mma<true, true>(dst, a, b, false);
    }

    // dst = a b + c
    template <class D, class A, class B>
    static TK_DEVICE void mma_AB(D& dst, const A& a, const B& b, const D& c) {
        Scope::template mma<false, false>(dst, a, b, c);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_ABt(D& dst, const A& a, const B& b, const D& c) {
        Scope::template mma<false, true>(dst, a, b, c);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_AtB(D& dst, const A& a, const B& b, const D& c) {
        Scope::template mma<true, false>(dst, a, b, c);
    }
    template <class D, class A, class B>
    static TK_DEVICE void mma_AtBt(D& dst, const A& a, const B& b, const D& c) {
        Scope::template mma<true, true>(dst, a, b, c);
    }
};

template <class D, class A, class B>
constexpr bool is_complex_mma() {
    static_assert(complex_tile<D> == complex_tile<A> && complex_tile<A> == complex_tile<B>,
                  "mma: all operands must be complex, or none");
    return complex_tile<D>;
}

// The four real products of (ar + i ai) (br + i bi). f(part of the destination, part of a, part of
// b, whether it is the first for this part of the destination, whether to subtract it).
template <class D, class A, class B, class F>
TK_DEVICE void for_real_products(D& dst, const A& a, const B& b, F&& f) {
    f(dst.real, a.real, b.real, std::true_type{}, std::false_type{});
    f(dst.real, a.imag, b.imag, std::false_type{}, std::true_type{});
    f(dst.imag, a.real, b.imag, std::true_type{}, std::false_type{});
    f(dst.imag, a.imag, b.real, std::false_type{}, std::false_type{});
}

// Products of one warp, done when they return. Every operand is a register tile, real or complex:
// a in the row layout as (M, K), in the column layout as (K, M); b in the column layout as (K, N),
// in the row layout as (N, K). dtypes: bf16, half (which may accumulate in half), 8-bit elements of
// either kind, and float, which is multiplied as tf32: the low 13 bits are ignored.
template <class Engine>
struct warp_products : mma_words<warp_products<Engine>> {
    template <bool TransposeA, bool TransposeB, class D, class A, class B>
    static TK_DEVICE void mma(D& dst, const A& a, const B& b, const D& c) {
        add<TransposeA, TransposeB>(dst, a, b, c, true);
    }
    template <bool TransposeA, bool TransposeB, class D, class A, class B>
    static TK_DEVICE void mma(D& acc, const A& a, const B& b, bool accumulate = true) {
        add<TransposeA, TransposeB>(acc, a, b, acc, accumulate);
    }

  private:
    template <bool TransposeA, bool TransposeB, class D, class A, class B>
    static TK_DEVICE void add(D& dst, const A& a, const B& b, const D& c, bool accumulate) {
        if constexpr (is_complex_mma<D, A, B>()) {
            static_assert(is_warp_mma<TransposeA, TransposeB, typename D::component,
                                      typename A::component, typename B::component>());
            Engine::start(dst.real, c.real, accumulate);
            Engine::start(dst.imag, c.imag, accumulate);
            for_real_products(dst, a, b, [](auto& to, auto& left, auto& right, auto, auto minus) {
                Engine::template add<TransposeA, TransposeB, minus>(to, left, right);
            });
        } else {
            static_assert(is_warp_mma<TransposeA, TransposeB, D, A, B>());
            Engine::start(dst, c, accumulate);
            Engine::template add<TransposeA, TransposeB, false>(dst, a, b);
        }
    }
};

// Products of a warpgroup, asynchronous. acc is (4 * rows, cols) over the warpgroup, fp32. a is
// (M, K), or (K, M) when transposed: in shared memory, or in registers as a warp's products have
// it, each warp its own rows. b is (K, N), or (N, K) when transposed, in shared memory. What lies
// in shared memory may be a tile or a part of one, of any swizzle; it is K-major (K contiguous) or,
// if of 16 bits, also M- or N-major. dtypes as for a warp's products, but floats, taken as tf32,
// must lie in shared memory, and accumulators are float.
//
// Until `mma_async_wait` a and b must stay as they are, and no register tile may be touched: acc,
// and a if it is one. If `Commits`, a product is a group of its own; else the author says
// `mma_fence` before and `mma_commit_group` after any number of products.
template <class Engine, bool Commits>
struct warpgroup_products : mma_words<warpgroup_products<Engine, Commits>> {
    template <bool TransposeA, bool TransposeB, class D, class A, class B>
    static TK_DEVICE void mma(D& acc, const A& a, const B& b, bool accumulate = true) {
        if constexpr (Commits) Engine::begin(acc, a);
        if constexpr (is_complex_mma<D, A, B>()) {
            static_assert(is_warpgroup_mma<TransposeA, TransposeB, typename D::component,
                                           typename A::component, typename B::component>());
            for_real_products(acc, a, b,
                              [=](auto& to, auto& left, auto& right, auto first, auto minus) {
                                  Engine::template issue<TransposeA, TransposeB, minus, Commits>(
                                      to, left, right, !first || accumulate);
                              });
        } else {
            static_assert(is_warpgroup_mma<TransposeA, TransposeB, D, A, B>());
            Engine::template issue<TransposeA, TransposeB, false, Commits>(acc, a, b, accumulate);
        }
        if constexpr (Commits) Engine::end(acc, a);
    }
    template <bool TransposeA, bool TransposeB, class D, class A, class B>
    static TK_DEVICE void mma(D& dst, const A& a, const B& b, const D& c) {
        static_assert(Commits, "mma: fenced registers are not copied to; use mma_AB(acc, a, b)");
        dst = c;
        mma<TransposeA, TransposeB>(dst, a, b);
    }
};

// Any other number of warps.
struct no_products : mma_words<no_products> {
    template <bool TransposeA, bool TransposeB, class D, class A, class B, class C = bool>
    static TK_DEVICE void mma(D&, const A&, const B&, const C& = true) {
        static_assert(
            sizeof(D) == 0,
            "mma: an operation of a warp, on register tiles, or of a warpgroup, with b in "
            "shared memory");
    }
};

}  // namespace detail

TK_NAMESPACE_END
