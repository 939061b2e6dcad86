// Shared vectors: contiguous elements in shared memory.
#pragma once
#include "tk/tile/types.hpp"

TK_NAMESPACE_BEGIN

template <element T, int Length>
struct alignas(128) sv {  // TMA's boxes start at multiples of 128 bytes
    using dtype = T;
    static constexpr int length = Length;
    static constexpr int bytes = Length * int(sizeof(T));
    static_assert(Length > 0, "sv: there must be elements");

    T data[Length];

    TK_HOST_DEVICE auto tensor() {  // (LENGTH)
        return cute::make_tensor(cute::make_smem_ptr(data), cute::Int<Length>{});
    }
    TK_HOST_DEVICE auto tensor() const {  // (LENGTH)
        return cute::make_tensor(cute::make_smem_ptr(data), cute::Int<Length>{});
    }
};

template <int Length>
using sv_fl = sv<float, Length>;
template <int Length>
using sv_bf = sv<bf16, Length>;
template <int Length>
using sv_hf = sv<half, Length>;

template <class V>
concept shared_vector = requires {
    typename V::dtype;
    V::length;
    V::bytes;
} && !requires { V::elements; };

// The shared vector that a CuTe tensor with its layout lies in: `V::tensor()`, backwards.
template <shared_vector V, class Tensor>
TK_HOST_DEVICE V& shared_vector_of(Tensor&& tensor) {
    using own = decltype(std::declval<V&>().tensor());
    static_assert(
        std::is_same_v<std::remove_cvref_t<decltype(tensor.layout())>,
                       std::remove_cvref_t<decltype(std::declval<own&>().layout())>> &&
            std::is_same_v<typename std::remove_cvref_t<Tensor>::value_type, typename V::dtype>,
        "shared_vector_of: the tensor must have the vector's layout and dtype");
    return *reinterpret_cast<V*>(cute::raw_pointer_cast(tensor.data()));
}

TK_NAMESPACE_END
