// The units of a warp on the host: the thread that a warp is has all 32.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tk/arch/host/sync.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

inline constexpr int units_held = 32;

template <class F>
void for_each_unit(F&& f) {
    for (int unit = 0; unit < units_held; ++unit) f(unit, unit);
}

// What an instruction moves at once is aligned to its own size: anything else is an error there.
template <int Count, class T>
void check_piece(const T* at, int unit, const char* operation) {
    if (reinterpret_cast<uintptr_t>(at) % (Count * sizeof(T)) == 0) return;
    char text[128];
    std::snprintf(text, sizeof(text), "%s: unit %d is at %p, which is no multiple of %d bytes",
                  operation, unit, static_cast<const void*>(at), int(Count * sizeof(T)));
    machine::fail(text);
}
template <int Count, class T>
void read_piece(T* to, const T* from, int unit) {
    check_piece<Count>(from, unit, "load_units");
    std::memcpy(static_cast<void*>(to), from, Count * sizeof(T));
}
template <int Count, class T>
void write_piece(T* to, const T* from, int unit) {
    check_piece<Count>(to, unit, "store_units");
    std::memcpy(static_cast<void*>(to), from, Count * sizeof(T));
}

}  // namespace detail

TK_NAMESPACE_END
