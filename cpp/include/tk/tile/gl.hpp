// Global tensors of (batch, depth, rows, cols): a pointer, sizes that are known at compile time or
// at run time, strides, and a TMA descriptor for each of the tiles they are copied by.
#pragma once
#include "tk/tile/tma_box.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/tma_descriptor.hpp"
#else
#include "tk/arch/host/tma_descriptor.hpp"
#endif

TK_NAMESPACE_BEGIN

// The sizes of a tensor, in elements, in the order of `coord`.
struct gl_shape {
    int64_t batch = 1, depth = 1, rows = 0, cols = 0;

    constexpr gl_shape() = default;
    constexpr gl_shape(int64_t rows_, int64_t cols_) : rows(rows_), cols(cols_) {}
    constexpr gl_shape(int64_t depth_, int64_t rows_, int64_t cols_)
        : depth(depth_), rows(rows_), cols(cols_) {}
    constexpr gl_shape(int64_t batch_, int64_t depth_, int64_t rows_, int64_t cols_)
        : batch(batch_), depth(depth_), rows(rows_), cols(cols_) {}
};

// From one element to the next of each dimension, in elements. 0 for batch or depth: all of them
// are the same.
struct gl_strides {
    int64_t batch = 0, depth = 0, row = 0, col = 1;

    gl_strides() = default;
    constexpr gl_strides(int64_t batch_, int64_t depth_, int64_t row_, int64_t col_ = 1)
        : batch(batch_), depth(depth_), row(row_), col(col_) {}
    // Of a tensor without gaps.
    constexpr explicit gl_strides(const gl_shape& shape)
        : batch(shape.depth * shape.rows * shape.cols),
          depth(shape.rows * shape.cols),
          row(shape.cols) {}
};

// How long the second-level cache is asked to keep what a TMA load brings: the upper half of the
// policies that `createpolicy.fractional` gives for a whole tensor, as CUTLASS has them
// (cute/arch/copy_sm90_desc.hpp, TMA::CacheHintSm90).
enum class eviction : uint32_t { normal = 0x10000000, first = 0x12F00000, last = 0x14F00000 };

namespace detail {

// A size known at compile time takes no room.
template <int Axis, int Size>
struct gl_size {
    static_assert(Size > 0, "gl: a dimension is positive, or -1 if it is known at run time only");
    TK_HOST_DEVICE static constexpr int64_t size() { return Size; }
    TK_HOST_DEVICE static constexpr auto extent() { return cute::Int<Size>{}; }
    static constexpr bool fits(int64_t given) { return given == Size; }
    static constexpr void set(int64_t) {}
};
template <int Axis>
struct gl_size<Axis, -1> {
    int64_t value = Axis < 2 ? 1 : 0;
    TK_HOST_DEVICE constexpr int64_t size() const { return value; }
    TK_HOST_DEVICE constexpr int64_t extent() const { return value; }
    static constexpr bool fits(int64_t given) { return given >= 0; }
    constexpr void set(int64_t given) { value = given; }
};

template <class Tile>
struct gl_map {
    tma_descriptor map{};
};

template <class S>
constexpr bool has_all_rows() {
    if constexpr (shared_vector<S> || whole_shared_tile<S>) {
        return true;
    } else {
        return S::rows == S::whole::rows;
    }
}

// Instantiated for its message, which names the tile and the gl.
template <class Tile, class Tensor, bool Listed>
struct tile_is_listed {
    static_assert(Listed,
                  "gl: this TMA copy is of a tile (the first argument of tile_is_listed) that the "
                  "global tensor (the second one) does not list among its Tiles");
};

}  // namespace detail

// B, D, R and C are the sizes of (batch, depth, rows, cols), or -1 where they are known at run time
// only; Tiles are the shared tiles `st`, vectors `sv` and `one_box<st>` that TMA copies. Strides
// are in elements and may have any value; for TMA columns are contiguous. `make_gl` makes one.
//
// The descriptors have as many dimensions as the tensor: two if there is one batch and one depth at
// compile time, three if there is one batch, else four. A batch or depth stride of 0 (the same
// matrix for all) is a size of 1 in the descriptor.
template <class T, int B, int D, int R, int C, class... Tiles>
struct gl : detail::gl_size<0, B>,
            detail::gl_size<1, D>,
            detail::gl_size<2, R>,
            detail::gl_size<3, C>,
            detail::gl_map<tma_key<Tiles>>... {
    using dtype = T;
    static constexpr int rank = B != 1 ? 4 : D != 1 ? 3 : 2;
    // Whether copies of S take one box, and whether they can be made at all. A part of a tile does
    // not lie in one piece, unless it has all its rows: then it is copied box by box.
    template <class S>
    static constexpr bool copies_in_one_box =
        (std::is_same_v<one_box<tma_key<S>>, tma_key<Tiles>> || ...) && detail::has_all_rows<S>();
    template <class S>
    static constexpr bool lists =
        copies_in_one_box<S> || (std::is_same_v<tma_key<S>, tma_key<Tiles>> || ...);

    T* data = nullptr;
    int64_t batch_stride = 0, depth_stride = 0, row_stride = 0, col_stride = 1;
    eviction keep = eviction::normal;  // of loads that do not say
    bool batch_is_broadcast = false, depth_is_broadcast = false;

    gl() = default;
    // Without a descriptor. On the host it throws std::runtime_error if a size is not what it is at
    // compile time.
    TK_HOST_DEVICE gl(T* data_, const gl_shape& shape, const gl_strides& strides)
        requires(sizeof...(Tiles) == 0)
    {
        set(data_, shape, strides);
    }
    TK_HOST_DEVICE gl(T* data_, const gl_shape& shape)
        requires(sizeof...(Tiles) == 0)
        : gl(data_, shape, gl_strides(shape)) {}

    TK_HOST_DEVICE constexpr int64_t batch() const { return detail::gl_size<0, B>::size(); }
    TK_HOST_DEVICE constexpr int64_t depth() const { return detail::gl_size<1, D>::size(); }
    TK_HOST_DEVICE constexpr int64_t rows() const { return detail::gl_size<2, R>::size(); }
    TK_HOST_DEVICE constexpr int64_t cols() const { return detail::gl_size<3, C>::size(); }

    // From `data`, in elements.
    TK_HOST_DEVICE int64_t offset(int64_t b, int64_t d, int64_t r, int64_t c) const {
        return b * batch_stride + d * depth_stride + r * row_stride + c * col_stride;
    }
    TK_HOST_DEVICE int64_t offset(const coord& at) const {
        return offset(at.batch, at.depth, at.row, at.col);
    }

    // Sizes known at compile time are so in its layout.
    TK_HOST_DEVICE auto tensor() const {  // (ROWS,COLS,DEPTH,BATCH)
        return cute::make_tensor(
            cute::make_gmem_ptr(data),
            cute::make_shape(detail::gl_size<2, R>::extent(), detail::gl_size<3, C>::extent(),
                             detail::gl_size<1, D>::extent(), detail::gl_size<0, B>::extent()),
            cute::make_stride(row_stride, col_stride, depth_stride, batch_stride));
    }

    // The TMA descriptor for copies of S.
    template <class S>
    TK_HOST_DEVICE const tma_descriptor& descriptor() const {
        (void)sizeof(detail::tile_is_listed<S, gl, lists<S>>);
        if constexpr (copies_in_one_box<S>) {
            return static_cast<const detail::gl_map<one_box<tma_key<S>>>*>(this)->map;
        } else if constexpr (lists<S>) {
            return static_cast<const detail::gl_map<tma_key<S>>*>(this)->map;
        } else {
            return *static_cast<const tma_descriptor*>(nullptr);  // refused above
        }
    }
    // f(descriptor) for each of them.
    template <class F>
    TK_HOST_DEVICE void for_each_descriptor(F&& f) const {
        (f(static_cast<const detail::gl_map<tma_key<Tiles>>*>(this)->map), ...);
    }
    // f(coordinates...) of a box of S, the innermost first: the box at `at`, or if copies take one
    // box, from panel `panel` of it.
    template <class S, class F>
    TK_HOST_DEVICE void visit_coords(const coord& at, int panel, F&& f) const {
        const int b = batch_is_broadcast ? 0 : at.batch, d = depth_is_broadcast ? 0 : at.depth;
        if constexpr (copies_in_one_box<S>) {
            const int p = at.col / S::panel_cols + panel;
            if constexpr (rank == 2) f(0, at.row, p);
            if constexpr (rank == 3) f(0, at.row, p, d);
            if constexpr (rank == 4) f(0, at.row, p, d, b);
        } else {
            if constexpr (rank == 2) f(at.col, at.row);
            if constexpr (rank == 3) f(at.col, at.row, d);
            if constexpr (rank == 4) f(at.col, at.row, d, b);
        }
    }

    // For `make_gl`.
    TK_HOST_DEVICE void set(T* data_, const gl_shape& shape, const gl_strides& strides) {
        set_size<0, B>("batch", shape.batch), set_size<1, D>("depth", shape.depth);
        set_size<2, R>("rows", shape.rows), set_size<3, C>("cols", shape.cols);
        data = data_;
        batch_stride = strides.batch, depth_stride = strides.depth;
        row_stride = strides.row, col_stride = strides.col;
    }

  private:
    template <int Axis, int Size>
    TK_HOST_DEVICE void set_size(const char* name, int64_t given) {
#if !defined(__CUDA_ARCH__)
        if (!detail::gl_size<Axis, Size>::fits(given)) {
            throw refused_tensor(std::string("gl: ") + name + " is " + std::to_string(given) +
                                 ", and must be " +
                                 (Size > 0 ? std::to_string(Size) + ", as its type says"
                                           : std::string("0 or more")));
        }
#else
        (void)name;
#endif
        detail::gl_size<Axis, Size>::set(given);
    }
};

// A global tensor of any sizes without a descriptor.
template <class T>
using gl_view = gl<T, -1, -1, -1, -1>;

// The view of a CuTe tensor in global memory, (ROWS,COLS), (ROWS,COLS,DEPTH) or with the batch too:
// `gl::tensor()`, backwards.
template <class Tensor>
TK_HOST_DEVICE auto gl_view_of(const Tensor& tensor) {
    constexpr int rank = decltype(cute::rank(tensor.layout()))::value;
    static_assert(rank >= 2 && rank <= 4,
                  "gl_view_of: the tensor must have two to four dimensions: rows, columns, depth "
                  "and batch");
    auto* const data = cute::raw_pointer_cast(tensor.data());
    gl_view<std::remove_pointer_t<decltype(data)>> result;
    gl_shape shape(int64_t(cute::size<0>(tensor)), int64_t(cute::size<1>(tensor)));
    gl_strides strides(0, 0, int64_t(cute::stride<0>(tensor)), int64_t(cute::stride<1>(tensor)));
    if constexpr (rank >= 3) {
        shape.depth = int64_t(cute::size<2>(tensor));
        strides.depth = int64_t(cute::stride<2>(tensor));
    }
    if constexpr (rank == 4) {
        shape.batch = int64_t(cute::size<3>(tensor));
        strides.batch = int64_t(cute::stride<3>(tensor));
    }
    result.set(data, shape, strides);
    return result;
}

template <class G>
concept global_tensor = requires(const G& tensor) {
    typename G::dtype;
    G::rank;
    tensor.batch_stride;
    tensor.offset(coord{});
};

// A complex tensor: a tensor of the real parts and one of the imaginary parts.
template <class G>
struct cgl {
    G real, imag;
};

TK_NAMESPACE_END
