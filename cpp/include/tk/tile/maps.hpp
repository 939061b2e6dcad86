// Operations on register tiles, element by element: the same source for every architecture, since
// each holds some of a tile's elements in `data`.
// The destination comes first, the sources after it; a destination may be a source.
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <int Warps>
struct map_ops {
    template <class R, class F>
    static TK_DEVICE void map(R& dst, const R& src, F&& f) {
        TK_UNROLL
        for (int i = 0; i < R::elements; ++i) dst.data[i] = f(src.data[i]);
    }

    template <class R>
    static TK_DEVICE void zero(R& dst) {
        TK_UNROLL
        for (int i = 0; i < R::elements; ++i) dst.data[i] = typename R::dtype(0);
    }

    template <class R>
    static TK_DEVICE void mul(R& dst, const R& src, typename R::dtype scalar) {
        map(dst, src, [&](auto x) { return x * scalar; });
    }
};

}  // namespace detail

TK_NAMESPACE_END
