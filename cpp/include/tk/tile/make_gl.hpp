// Making global tensors on the host: sizes checked, and a TMA descriptor encoded for each tile.
#pragma once
#include "tk/tile/gl.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

template <class T>
constexpr tma_element tma_element_of() {
    if constexpr (sizeof(T) == 1) {
        return tma_element::byte;
    } else if constexpr (std::is_same_v<T, bf16>) {
        return tma_element::bf16;
    } else if constexpr (std::is_same_v<T, half>) {
        return tma_element::half;
    } else {
        static_assert(std::is_same_v<T, float>,
                      "make_gl: TMA copies bf16, half, float and dtypes of one byte; the tile's "
                      "dtype is none of them");
        return tma_element::fp32;
    }
}

// The descriptor that `tensor` needs for copies of Tile, each shared by `parts` blocks.
template <class Tile, class G>
tma_request request_for(const G& tensor, int parts) {
    using box = tma_box<Tile>;
    using T = typename box::object::dtype;
    static_assert(std::is_same_v<T, std::remove_const_t<typename G::dtype>>,
                  "make_gl: the dtypes of the tensor and of its tiles must be the same");
    if (parts < 1) {
        throw refused_tensor("make_gl: " + std::to_string(parts) +
                             " blocks share the copies of a tile, and must be 1 or more");
    }
    tma_request asked;
    asked.base = const_cast<std::remove_const_t<T>*>(tensor.data);
    asked.element = tma_element_of<T>();
    asked.element_bytes = int(sizeof(T));
    asked.swizzle_bytes = box::swizzle_bytes;
    asked.add({"cols", box::all_panels ? box::cols : tensor.cols(), int64_t(sizeof(T)), box::cols});
    asked.add("rows", tensor.rows(), tensor.row_stride, box::rows(parts));
    if constexpr (box::all_panels) {
        asked.add("panels", (tensor.cols() + box::cols - 1) / box::cols, box::cols,
                  box::panels(parts));
    }
    if constexpr (G::rank >= 3) {
        asked.add("depth", tensor.depth_is_broadcast ? 1 : tensor.depth(), tensor.depth_stride, 1);
    }
    if constexpr (G::rank == 4) {
        asked.add("batch", tensor.batch_is_broadcast ? 1 : tensor.batch(), tensor.batch_stride, 1);
    }
    if (tensor.col_stride != 1) {
        asked.refuse("the stride of cols is " + std::to_string(tensor.col_stride) +
                     " elements, and must be 1");
    }
    if (box::all_panels && tensor.cols() % box::cols != 0) {
        asked.refuse("the number of cols is " + std::to_string(tensor.cols()) +
                     ", and must be a multiple of " + std::to_string(box::cols) +
                     " for copies in one box");
    }
    if (!box::legal(parts)) {
        asked.refuse(std::to_string(parts) +
                     " blocks share it, and must be as many as divide the panels of a tile, or its "
                     "rows into multiples of 8 (in one box the panels), or the boxes of a vector");
    }
    asked.check();
    return asked;
}

template <class T, int B, int D, int R, int C, class... Tiles>
void encode_all(gl<T, B, D, R, C, Tiles...>& tensor, int parts) {
    ((static_cast<gl_map<tk::tma_key<Tiles>>&>(tensor).map =
          encode(request_for<Tiles>(tensor, parts))),
     ...);
}

}  // namespace detail

// A tensor of type G. Each copy of a tile is shared by `parts` blocks (`multicast`). Throws
// refused_tensor, a std::runtime_error, with the dimension, what it was and what is allowed, if a
// size is not what the type says, or if TMA refuses the tensor.
template <global_tensor G>
G make_gl(typename G::dtype* data, const gl_shape& shape, const gl_strides& strides,
          int parts = 1) {
    G result;
    result.set(data, shape, strides);
    result.batch_is_broadcast = shape.batch > 1 && strides.batch == 0;
    result.depth_is_broadcast = shape.depth > 1 && strides.depth == 0;
    const bool is_empty =
        shape.batch == 0 || shape.depth == 0 || shape.rows == 0 || shape.cols == 0;
    if (!is_empty) detail::encode_all(result, parts);  // else nothing will be copied
    return result;
}
// The same, without gaps.
template <global_tensor G>
G make_gl(typename G::dtype* data, const gl_shape& shape) {
    return make_gl<G>(data, shape, gl_strides(shape));
}

TK_NAMESPACE_END
