// How the checks of maps call each operation, and what it should give.
#pragma once
#include "harness.hpp"

namespace tile_ops {

// An operation of one, two or three operands: how to call it at scope G, and what it gives.
#define ONE(NAME, ...)                                           \
    struct NAME##_of_one {                                       \
        static constexpr const char* name = #NAME;               \
        template <class G, class D, class A>                     \
        static TK_DEVICE void apply(D& d, const A& a) {          \
            G::NAME(d, a);                                       \
        }                                                        \
        static wanted reference(float x) { return __VA_ARGS__; } \
    };
#define TWO(NAME, ...)                                                    \
    struct NAME##_of_two {                                                \
        static constexpr const char* name = #NAME;                        \
        template <class G, class D, class A, class B>                     \
        static TK_DEVICE void apply(D& d, const A& a, const B& b) {       \
            G::NAME(d, a, b);                                             \
        }                                                                 \
        static wanted reference(float a, float b) { return __VA_ARGS__; } \
    };

// Bounds as functions.hpp states them, in units in the last place; what it leaves to the compiler
// is within 2 (CUDA C++ Programming Guide, "Mathematical functions").
constexpr double special = 2.0;
ONE(exp, within(std::exp(double(x)), special + 1.2 * std::fabs(double(x)), true))
ONE(exp2, within(std::exp2(double(x)), special, true))
ONE(log, within(std::log(double(x)), special))
ONE(log2, within(std::log2(double(x)), special))
ONE(abs, exactly(std::fabs(x)))
ONE(relu, exactly(x < 0.0f ? 0.0f : x))
ONE(sqrt, exactly(std::sqrt(x)))
ONE(rsqrt, within(1.0 / std::sqrt(double(x)), special))
ONE(sin, within(std::sin(double(x)), special))
ONE(cos, within(std::cos(double(x)), special))
ONE(tanh, within(std::tanh(double(x)), special))
// An exponential, whose error grows with |x| where it decides, a sum and a quotient.
ONE(sigmoid, within(1.0 / (1.0 + std::exp(-double(x))), 4.0 + 1.2 * std::fabs(double(x)), true))

inline float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return not_a_number;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
}
inline float smaller(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return not_a_number;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}
TWO(add, exactly(a + b))
TWO(sub, exactly(a - b))
TWO(mul, exactly(a* b))
TWO(div, exactly(a / b))
TWO(max, exactly(larger(a, b)))
TWO(min, exactly(smaller(a, b)))
TWO(add_row, exactly(a + b))
TWO(sub_row, exactly(a - b))
TWO(mul_row, exactly(a* b))
TWO(div_row, exactly(a / b))
TWO(max_row, exactly(larger(a, b)))
TWO(min_row, exactly(smaller(a, b)))
TWO(add_col, exactly(a + b))
TWO(sub_col, exactly(a - b))
TWO(mul_col, exactly(a* b))
TWO(div_col, exactly(a / b))
TWO(max_col, exactly(larger(a, b)))
TWO(min_col, exactly(smaller(a, b)))

// Functions of a user's.
struct halve {
    TK_DEVICE float operator()(float x) const { return 0.5f * x; }
};
struct twice_less {
    TK_DEVICE float operator()(float a, float b) const { return 2.0f * a - b; }
};
struct where_positive {
    TK_DEVICE float operator()(float a, float b, float c) const { return a > 0.0f ? b : c; }
};
struct map_of_one {
    static constexpr const char* name = "map";
    template <class G, class D, class A>
    static TK_DEVICE void apply(D& d, const A& a) {
        G::map(d, a, halve{});
    }
    static wanted reference(float x) { return exactly(0.5f * x); }
};
struct map_of_two {
    static constexpr const char* name = "map";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A& a, const B& b) {
        G::map(d, a, b, twice_less{});
    }
    // 2 a is exact, unless it overflows: then a multiply-add gives otherwise.
    static wanted reference(float a, float b) {
        wanted result = exactly(float(2.0 * double(a) - double(b)));
        result.anything = std::isinf(2.0f * a) && !std::isinf(a);
        return result;
    }
};
struct map_row_of_two : map_of_two {
    static constexpr const char* name = "map_row";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A& a, const B& b) {
        G::map_row(d, a, b, twice_less{});
    }
};
struct map_col_of_two : map_of_two {
    static constexpr const char* name = "map_col";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A& a, const B& b) {
        G::map_col(d, a, b, twice_less{});
    }
};
struct broadcast_row_of_two {
    static constexpr const char* name = "broadcast_row";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A&, const B& b) {
        G::broadcast_row(d, b);
    }
    static wanted reference(float, float b) { return exactly(b); }
};
struct broadcast_col_of_two : broadcast_row_of_two {
    static constexpr const char* name = "broadcast_col";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A&, const B& b) {
        G::broadcast_col(d, b);
    }
};
constexpr float softmax_scale = 0.18033688f;
struct exp2_scaled_sub_row_of_two {
    static constexpr const char* name = "exp2_scaled_sub_row";
    template <class G, class D, class A, class B>
    static TK_DEVICE void apply(D& d, const A& a, const B& b) {
        G::exp2_scaled_sub_row(d, a, b, softmax_scale);
    }
    // The exponent is an fp32 number: half a unit in its last place, and the product's.
    static wanted reference(float a, float b) {
        const float product = b == -infinity ? 0.0f : b * softmax_scale;
        const double exponent = double(std::fma(a, softmax_scale, -product));
        return within(std::exp2(exponent), special, true);
    }
};
struct fma_of_three {
    static constexpr const char* name = "fma";
    template <class G, class D, class A, class B, class C>
    static TK_DEVICE void apply(D& d, const A& a, const B& b, const C& c) {
        G::fma(d, a, b, c);
    }
    static wanted reference(float a, float b, float c) { return exactly(std::fma(a, b, c)); }
};
struct map_of_three {
    static constexpr const char* name = "map";
    template <class G, class D, class A, class B, class C>
    static TK_DEVICE void apply(D& d, const A& a, const B& b, const C& c) {
        G::map(d, a, b, c, where_positive{});
    }
    static wanted reference(float a, float b, float c) { return exactly(a > 0.0f ? b : c); }
};

// Numbers of the destination's own.
struct plus_place {
    TK_DEVICE float operator()(int row, int col, float x) const {
        return x + float(1000 * row + col);
    }
    TK_DEVICE float operator()(int place, float x) const { return x + float(place); }
};
#define CONSTANT(NAME, VALUE, ...)                                \
    struct NAME##_constant {                                      \
        static constexpr const char* name = #NAME;                \
        template <class G, class D, class A>                      \
        static TK_DEVICE void apply(D& d, const A&) {             \
            G::NAME(d __VA_OPT__(, ) __VA_ARGS__);                \
        }                                                         \
        static wanted reference(float) { return exactly(VALUE); } \
    };
CONSTANT(zero, 0.0f)
CONSTANT(one, 1.0f)
CONSTANT(pos_infty, infinity)
CONSTANT(neg_infty, -infinity)
CONSTANT(fill, 0.375f, 0.375f)
CONSTANT(copy, -2.5f, -2.5f)

}  // namespace tile_ops
