// Register tiles and vectors: what both architectures say of them, and their short names.
#pragma once
#include "tk/arch/select.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/rt.hpp"
#else
#include "tk/arch/host/rt.hpp"
#endif

TK_NAMESPACE_BEGIN

template <int Rows, int Cols, register_layout Layout = row_layout>
using rt_fl = rt<float, Rows, Cols, Layout>;
template <int Rows, int Cols, register_layout Layout = row_layout>
using rt_bf = rt<bf16, Rows, Cols, Layout>;
template <int Rows, int Cols, register_layout Layout = row_layout>
using rt_hf = rt<half, Rows, Cols, Layout>;
template <int Rows, int Cols, register_layout Layout = row_layout>
using rt_e4m3 = rt<e4m3, Rows, Cols, Layout>;
template <int Rows, int Cols, register_layout Layout = row_layout>
using rt_e5m2 = rt<e5m2, Rows, Cols, Layout>;

template <int Length, vector_layout Layout = vector_layout::naive>
using rv_fl = rv<float, Length, Layout>;
template <int Length, vector_layout Layout = vector_layout::naive>
using rv_bf = rv<bf16, Length, Layout>;
template <int Length, vector_layout Layout = vector_layout::naive>
using rv_hf = rv<half, Length, Layout>;

// A value for each column of a register or shared tile, and one for each row.
template <class Tile>
using row_vec = typename Tile::row_vec;
template <class Tile>
using col_vec = typename Tile::col_vec;

template <class R>
concept register_tile = requires {
    typename R::dtype;
    R::elements;
    R::is_row;
};
template <class V>
concept register_vector = requires {
    typename V::dtype;
    V::elements;
    { V::layout } -> std::convertible_to<vector_layout>;
};
// Whatever is held in registers, element by element in `data`.
template <class R>
concept in_registers = register_tile<R> || register_vector<R>;

namespace detail {
template <class A, class B>
inline constexpr bool lie_alike = false;
template <register_tile A, register_tile B>
inline constexpr bool lie_alike<A, B> =
    A::rows == B::rows && A::cols == B::cols && A::layout == B::layout &&
    neighbours<typename A::dtype> == neighbours<typename B::dtype>;
template <register_vector A, register_vector B>
inline constexpr bool lie_alike<A, B> = A::length == B::length && A::layout == B::layout;
}  // namespace detail

// Two registers of one shape and layout, element for element in the same place.
template <class A, class B>
concept same_places = detail::lie_alike<A, B>;

// The tile that a CuTe tensor of its fragment holds: `R::tensor()`, backwards.
template <register_tile R, class Tensor>
TK_DEVICE R register_tile_of(const Tensor& fragment) {
    static_assert(std::is_same_v<typename Tensor::value_type, typename R::dtype>,
                  "register_tile_of: the tensor must have the tile's dtype");
    static_assert(decltype(cute::size(fragment.layout()))::value == R::elements,
                  "register_tile_of: the tensor must have as many elements as a lane has of the "
                  "tile");
    R result;
    auto to = result.tensor();
    TK_UNROLL
    for (int i = 0; i < R::elements; ++i) to(i) = fragment(i);
    return result;
}

// The same of a vector: `V::tensor()`, backwards.
template <register_vector V, class Tensor>
TK_DEVICE V register_vector_of(const Tensor& elements) {
    static_assert(std::is_same_v<typename Tensor::value_type, typename V::dtype>,
                  "register_vector_of: the tensor must have the vector's dtype");
    static_assert(decltype(cute::size(elements.layout()))::value == V::elements,
                  "register_vector_of: the tensor must have as many elements as a lane has of the "
                  "vector");
    V result;
    TK_UNROLL
    for (int i = 0; i < V::elements; ++i) result.data[i] = elements(i);
    return result;
}

// A complex register tile: two real ones.
template <element T, int Rows, int Cols, register_layout Layout = row_layout>
struct crt {
    using component = rt<T, Rows, Cols, Layout>;
    using dtype = T;
    static constexpr int rows = Rows;
    static constexpr int cols = Cols;
    component real, imag;
};
template <int Rows, int Cols, register_layout Layout = row_layout>
using crt_fl = crt<float, Rows, Cols, Layout>;
template <int Rows, int Cols, register_layout Layout = row_layout>
using crt_bf = crt<bf16, Rows, Cols, Layout>;

template <class C>
concept complex_tile = requires(C tile) {
    typename C::component;
    tile.real;
    tile.imag;
};

TK_NAMESPACE_END
