// Vectors of units, for kernels that move more than they compute: each unit is what a lane loads
// and stores by vectors of memory of up to 16 bytes, anywhere.
//
// A warp has 32 units, a group 32 for each warp, numbered through. What a kernel knows of each,
// such as where it lies, is in a `unit_array`, worked out once.
#pragma once
#include "tk/tile/maps.hpp"

#if defined(TK_ARCH_SM90)
#include "tk/arch/sm90/units.hpp"
#else
#include "tk/arch/host/units.hpp"
#endif

TK_NAMESPACE_BEGIN

// A value of a plain type for each of a warp's units.
template <class P>
struct unit_array {
    P data[detail::units_held];
};

// Where the pieces of a unit lie: the first of them, and how many elements on the next one is. No
// unit at all: null.
template <class T>
struct unit_pieces {
    T* first = nullptr;
    int64_t step = 0;
};

namespace detail {

template <class V>
constexpr int check_units() {
    static_assert(register_vector<V> && V::layout == vector_layout::units,
                  "the vector must have the layout `units`");
    return V::length / 32;
}

// The elements of a piece: as many as asked for, or as an instruction moves.
template <int Asked, int UnitLength, class T>
constexpr int piece_length() {
    constexpr int most = 16 / int(sizeof(T));
    constexpr int length = Asked > 0 ? Asked : UnitLength < most ? UnitLength : most;
    static_assert(
        length <= most && (length & (length - 1)) == 0 && UnitLength % length == 0,
        "load_units, store_units: a piece must be a power of two of elements that divides "
        "the unit, of at most 16 bytes");
    return length;
}

template <int Warps>
struct unit_ops {
    // dst = f(number of the unit, its values in other arrays...), for each.
    template <class P, class F, class... Q>
    static TK_DEVICE void index_units(unit_array<P>& dst, F&& f, const unit_array<Q>&... others) {
        for_each_unit([&](int held, int unit) {
            dst.data[held] = f(first_unit() + unit, others.data[held]...);
        });
    }

    // Each unit becomes what lies at from(its value in `places`), a `unit_pieces`: pieces of
    // `Piece` elements, aligned to their size; `nowhere` in every element where there is none.
    // Converted.
    template <int Piece = 0, register_vector V, class P, class F>
    static TK_DEVICE void load_units(V& dst, F&& from, const unit_array<P>& places,
                                     float nowhere = 0.0f) {
        constexpr int length = check_units<V>();
        using T = std::remove_const_t<std::remove_pointer_t<decltype(from(places.data[0]).first)>>;
        constexpr int piece = piece_length<Piece, length, T>();
        for_each_unit([&](int held, int unit) {
            alignas(16) T read[length];
            const auto at = from(places.data[held]);
            TK_UNROLL
            for (int i = 0; i < length; ++i) read[i] = convert<T>(nowhere);
            if (at.first != nullptr) {
                TK_UNROLL
                for (int i = 0; i < length; i += piece) {
                    read_piece<piece>(read + i, at.first + i / piece * at.step, unit);
                }
            }
            auto* const to = dst.data + held * length;
            if constexpr (std::is_same_v<T, typename V::dtype>) {
                TK_UNROLL
                for (int i = 0; i < length; ++i) to[i] = read[i];
            } else if constexpr (length % 2 == 0) {
                float values[length];
                TK_UNROLL
                for (int i = 0; i < length; i += 2) {
                    load_pair(values[i], values[i + 1], read + i);
                    store_pair(to + i, values[i], values[i + 1]);
                }
            } else {
                TK_UNROLL
                for (int i = 0; i < length; ++i) to[i] = convert<typename V::dtype>(read[i]);
            }
        });
    }
    // The same backwards, of the vector's own dtype: null is nowhere.
    template <int Piece = 0, register_vector V, class P, class F>
    static TK_DEVICE void store_units(F&& to, const V& src, const unit_array<P>& places) {
        constexpr int length = check_units<V>();
        using T = typename V::dtype;
        static_assert(std::is_same_v<std::remove_pointer_t<decltype(to(places.data[0]).first)>, T>,
                      "store_units: memory must have the vector's dtype");
        constexpr int piece = piece_length<Piece, length, T>();
        for_each_unit([&](int held, int unit) {
            const auto at = to(places.data[held]);
            if (at.first == nullptr) return;
            TK_UNROLL
            for (int i = 0; i < length; i += piece) {
                write_piece<piece>(at.first + i / piece * at.step, src.data + held * length + i,
                                   unit);
            }
        });
    }

    // f(x, y, a, b) of the fp32 elements of each unit of four vectors, arrays of a unit's length; x
    // and y become what it leaves in theirs, rounded.
    template <register_vector V, register_vector A, class F>
    static TK_DEVICE void map_units(V& x, V& y, const A& a, const A& b, F&& f) {
        constexpr int length = check_units<V>();
        static_assert(same_places<V, A>, "map_units: the vectors must have one length");
        for_each_unit([&](int held, int) {
            float of_x[length], of_y[length], of_a[length], of_b[length];
            get_unit(of_x, x, held), get_unit(of_y, y, held);
            get_unit(of_a, a, held), get_unit(of_b, b, held);
            f(of_x, of_y, of_a, of_b);
            put_unit(x, of_x, held), put_unit(y, of_y, held);
        });
    }

  private:
    static TK_DEVICE int first_unit() {
        if constexpr (Warps == 1) {
            return 0;
        } else {
            return own_warp() % Warps * 32;
        }
    }
    template <class V, int Length>
    static TK_DEVICE void get_unit(float (&values)[Length], const V& from, int held) {
        TK_UNROLL
        for (int i = 0; i < Length; ++i) {
            if constexpr (Length % 2 == 1) {
                values[i] = convert<float>(from.data[held * Length + i]);
            } else if (i % 2 == 0) {
                load_pair(values[i], values[i + 1], from.data + held * Length + i);
            }
        }
    }
    template <class V, int Length>
    static TK_DEVICE void put_unit(V& to, const float (&values)[Length], int held) {
        TK_UNROLL
        for (int i = 0; i < Length; ++i) {
            if constexpr (Length % 2 == 1) {
                to.data[held * Length + i] = convert<typename V::dtype>(values[i]);
            } else if (i % 2 == 0) {
                store_pair(to.data + held * Length + i, values[i], values[i + 1]);
            }
        }
    }
};

}  // namespace detail

TK_NAMESPACE_END
