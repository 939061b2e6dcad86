// The units of a warp on sm90: a lane has one.
#pragma once
#include "tk/arch/sm90/sync.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

// Those that a thread holds.
inline constexpr int units_held = 1;

// f(which of those held, its number in the warp) for all of them.
template <class F>
TK_DEVICE void for_each_unit(F&& f) {
    f(0, lane());
}

// A piece of memory that an instruction moves, and its words.
template <class T, int Count>
struct alignas(Count * sizeof(T)) unit_piece {
    using word = std::conditional_t<Count * sizeof(T) >= 4, uint32_t, uint16_t>;
    static constexpr int num_words = Count * int(sizeof(T)) / int(sizeof(word));
    word words[num_words];
};

template <int Count, class T>
TK_DEVICE void read_piece(T* to, const T* from, int) {
    using piece = unit_piece<T, Count>;
    const piece read = *reinterpret_cast<const piece*>(from);
    TK_UNROLL
    for (int i = 0; i < piece::num_words; ++i) {
        reinterpret_cast<typename piece::word*>(to)[i] = read.words[i];
    }
}
template <int Count, class T>
TK_DEVICE void write_piece(T* to, const T* from, int) {
    using piece = unit_piece<T, Count>;
    piece written;
    TK_UNROLL
    for (int i = 0; i < piece::num_words; ++i) {
        written.words[i] = reinterpret_cast<const typename piece::word*>(from)[i];
    }
    *reinterpret_cast<piece*>(to) = written;
}

}  // namespace detail

TK_NAMESPACE_END
