// Numbers of the checks of tile operations: how each dtype rounds, written down apart from the
// library; generated inputs with special values; and what a result may be.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tk/tile/types.hpp"

namespace tile_ops {

using namespace tk;

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float largest = std::numeric_limits<float>::max();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// A binary format: stored bits of the significand, the exponent of the smallest normal number, the
// largest finite number, and whether what is larger becomes that instead of infinity.
struct format {
    const char* name;
    int bits, min_exponent;
    double largest;
    bool saturates;
};
template <element T>
constexpr format format_of() {
    if constexpr (std::is_same_v<T, bf16>) return {"bf16", 7, -126, 0x1.FEp127, false};
    if constexpr (std::is_same_v<T, tk::half>) return {"half", 10, -14, 65504.0, false};
    if constexpr (std::is_same_v<T, e4m3>) return {"e4m3", 3, -6, 448.0, true};
    if constexpr (std::is_same_v<T, e5m2>) return {"e5m2", 2, -14, 57344.0, true};
    if constexpr (std::is_same_v<T, float>) return {"fp32", 23, -126, 0x1.FFFFFEp127, false};
}

// To nearest, ties to even.
inline float round_to(const format& f, double x) {
    if (std::isnan(x)) return not_a_number;
    if (x == 0.0) return float(x);
    double result = x;
    if (!std::isinf(x)) {
        const int exponent = std::max(std::ilogb(x), f.min_exponent) - f.bits;
        result = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
    }
    if (std::fabs(result) > f.largest) {
        result = std::copysign(f.saturates ? f.largest : double(infinity), x);
    }
    return float(std::copysign(result, x));
}

// The distance of neighbouring fp32 numbers at x.
inline double unit_in_last_place(double x) {
    if (x == 0.0 || !std::isfinite(x)) return 0x1p-149;
    return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23);
}

// What an operation should give before it is rounded to the destination's dtype: an fp32 number
// exactly, or anything within `error` of a value. With `anything`, it depends on the order of
// additions whether it overflows.
struct wanted {
    double value;
    double error = 0.0;
    bool denormals_may_be_zero = false;
    bool anything = false;
};
inline wanted exactly(float x) { return {double(x)}; }
// Within some units in the last place of fp32.
inline wanted within(double value, double units, bool denormals_may_be_zero = false) {
    return {value, units * unit_in_last_place(value), denormals_may_be_zero};
}

inline bool same_number(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}
inline bool is_right(float got, const wanted& want, const format& f) {
    if (want.anything) return true;
    const format& single = format_of<float>();
    const auto rounded = [&](double x) { return round_to(f, double(round_to(single, x))); };
    if (want.error == 0.0 || !std::isfinite(want.value)) {
        return same_number(got, rounded(want.value));
    }
    if (want.denormals_may_be_zero && std::fabs(want.value) < 0x1p-125 && got == 0.0f) return true;
    return got >= rounded(want.value - want.error) && got <= rounded(want.value + want.error);
}

// A generator of its own, so that both architectures see the same inputs.
class generator {
  public:
    explicit generator(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}
    uint32_t bits() {  // Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return uint32_t((z ^ (z >> 31)) >> 32);
    }
    int below(int limit) { return int(bits() % uint32_t(limit)); }
    double uniform() { return (bits() + 0.5) * 0x1p-32; }
    float normal() {  // Box and Muller
        return float(std::sqrt(-2.0 * std::log(uniform())) *
                     std::cos(6.283185307179586 * uniform()));
    }

  private:
    uint64_t state_;
};

// What inputs are: normally distributed, or products' factors near one; one in `special_every` is
// special (none for 0).
struct inputs {
    uint64_t seed = 1;
    int special_every = 0;
    bool near_one = false;
};

inline std::vector<float> generate(const format& f, size_t count, const inputs& how) {
    // In the dtype's own range: its largest, its smallest denormal and normal numbers.
    const float tiny = float(std::ldexp(1.0, f.min_exponent - f.bits));
    const float smallest = float(std::ldexp(1.0, f.min_exponent));
    const float specials[] = {not_a_number,     infinity,          -infinity, -0.0f, 0.0f,
                              float(f.largest), -float(f.largest), tiny,      -tiny, 3.0f * tiny,
                              smallest,         -smallest,         1.0f,      -1.0f};
    const float of_products[] = {not_a_number, infinity, -infinity, -0.0f, 0.0f, -1.0f};
    generator random(how.seed);
    std::vector<float> result(count);
    for (float& x : result) {
        if (how.near_one) {
            x = float((random.bits() % 2 == 0 ? 1.0 : -1.0) * (0.8 + 0.45 * random.uniform()));
        } else {
            // a few of a wider range
            x = random.normal() * (random.below(8) == 0 ? 20.0f : 1.0f);
        }
        if (how.special_every > 0 && random.below(how.special_every) == 0) {
            x = how.near_one ? of_products[random.below(6)] : specials[random.below(14)];
        }
        // Infinity is no number of a dtype that saturates; `round_to` makes it the largest.
        x = round_to(f, double(x));
    }
    return result;
}

}  // namespace tile_ops
