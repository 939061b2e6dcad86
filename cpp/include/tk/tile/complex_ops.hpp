// Operations on complex tiles, pairs of real ones: element by element, and copies.
#pragma once
#include "tk/tile/global_copy.hpp"
#include "tk/tile/layouts.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// A shared or a register tile pair; a global tensor pair.
template <class C>
concept complex_pair = requires(C tile) {
    tile.real;
    tile.imag;
};

template <int Warps>
struct complex_ops {
    template <complex_tile D>
    static TK_DEVICE void zero(D& dst) {
        group<Warps>::zero(dst.real);
        group<Warps>::zero(dst.imag);
    }
    template <complex_tile D, complex_tile A>
    static TK_DEVICE void copy(D& dst, const A& src) {
        group<Warps>::copy(dst.real, src.real);
        group<Warps>::copy(dst.imag, src.imag);
    }
    template <complex_tile D, complex_tile A, complex_tile B>
    static TK_DEVICE void add(D& dst, const A& a, const B& b) {
        group<Warps>::add(dst.real, a.real, b.real);
        group<Warps>::add(dst.imag, a.imag, b.imag);
    }
    template <complex_tile D, complex_tile A, complex_tile B>
    static TK_DEVICE void sub(D& dst, const A& a, const B& b) {
        group<Warps>::sub(dst.real, a.real, b.real);
        group<Warps>::sub(dst.imag, a.imag, b.imag);
    }
    // Element by element, (a + bi)(c + di) = (ac - bd) + (ad + bc)i; of register tiles.
    template <complex_tile D, complex_tile A, complex_tile B>
        requires register_tile<typename D::component>
    static TK_DEVICE void mul(D& dst, const A& a, const B& b) {
        using real_type = typename D::component;
        static_assert(same_places<real_type, typename A::component> &&
                          same_places<real_type, typename B::component>,
                      "mul: complex tiles must have one shape and one register layout");
        real_type real, imag;
        assign(real, [&](int i) {
            return fmaf(value_of(a.real, i), value_of(b.real, i),
                        -(value_of(a.imag, i) * value_of(b.imag, i)));
        });
        assign(imag, [&](int i) {
            return fmaf(value_of(a.real, i), value_of(b.imag, i),
                        value_of(a.imag, i) * value_of(b.real, i));
        });
        dst.real = real, dst.imag = imag;
    }
    template <complex_tile D, complex_tile A>
    static TK_DEVICE void conj(D& dst, const A& src) {
        group<Warps>::copy(dst.real, src.real);
        group<Warps>::map(dst.imag, src.imag, [](float x) { return -x; });
    }

    // Between registers, shared and global memory, the real and the imaginary part each.
    template <complex_tile D, complex_pair A>
    static TK_DEVICE void load(D& dst, const A& src) {
        group<Warps>::load(dst.real, src.real);
        group<Warps>::load(dst.imag, src.imag);
    }
    template <complex_tile D, complex_tile A>
    static TK_DEVICE void store(D& dst, const A& src) {
        group<Warps>::store(dst.real, src.real);
        group<Warps>::store(dst.imag, src.imag);
    }
    template <complex_tile D, complex_pair G>
    static TK_DEVICE void load(D& dst, const G& src, coord at) {
        group<Warps>::load(dst.real, src.real, at);
        group<Warps>::load(dst.imag, src.imag, at);
    }
    template <complex_pair G, complex_tile A>
    static TK_DEVICE void store(const G& dst, const A& src, coord at) {
        group<Warps>::store(dst.real, src.real, at);
        group<Warps>::store(dst.imag, src.imag, at);
    }
};

}  // namespace detail

TK_NAMESPACE_END
