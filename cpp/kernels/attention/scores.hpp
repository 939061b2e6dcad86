// What happens to a score between the two products: masks, and changes such as biases. A rule is a
// struct like those at the end; one of a user's own is derived from key_band, which knows of
// causality, windows and lengths, and says
//   factor            by which the changed scores go into base 2: log2(e) for natural ones
//   change(f)         calls f(at, score) -> score for one function of a score_place, or for several
//                     one after the other; -infinity is a key that is not seen
//   unchanged(...)    the keys whose scores need no call for some queries, as of key_band
//   keys(...)         the keys that some queries see: no others are loaded, as of key_band
#pragma once
#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

// Of a sequence. The last query is aligned with the last key.
struct attention_lengths {
    int queries, keys;
    TK_HOST_DEVICE int shift() const { return keys - queries; }
};

// From `first` to before `end`, of keys or of queries.
struct attention_range {
    int first, end;
};

struct score_place {
    int batch, head, query, key;
    attention_lengths lengths;
    TK_DEVICE int distance() const { return query + lengths.shift() - key; }
};

// Query i sees the keys from `left` before to `right` after the one that it is aligned with.
struct key_band {
    static constexpr int no_limit = 1 << 29;  // twice the longest sequence
    int left = no_limit, right = no_limit;

    TK_HOST_DEVICE attention_range keys(attention_range queries, attention_lengths lengths) const {
        const int first = queries.first + lengths.shift() - left;
        const int end = queries.end + lengths.shift() + right;
        return {first < 0 ? 0 : first, end > lengths.keys ? lengths.keys : end};
    }
    // Those that all of the queries see.
    TK_HOST_DEVICE attention_range unchanged(attention_range queries,
                                             attention_lengths lengths) const {
        const int first = queries.end - 1 + lengths.shift() - left;
        const int end = queries.first + lengths.shift() + right + 1;
        return {first, end > lengths.keys ? lengths.keys : end};
    }
    // Two comparisons with a row's bounds, and no branch.
    TK_DEVICE bool sees(const score_place& at) const {
        const int aligned = at.query + at.lengths.shift();
        const int last = aligned + right < at.lengths.keys ? aligned + right : at.lengths.keys - 1;
        return bool(int(at.key >= aligned - left) & int(at.key <= last));
    }
    TK_DEVICE float masked(const score_place& at, float score) const {
        return sees(at) ? score : -std::numeric_limits<float>::infinity();
    }
};

// Masks alone: the scores are what the product is, and the scale is in the factor.
struct plain_scores : key_band {
    float factor = 1.0f;

    template <class F>
    TK_DEVICE void change(F&& f) const {
        f([this](const score_place& at, float score) { return masked(at, score); });
    }
};

// All of the options, each of which costs nothing but a branch if it is not there.
template <element_16bit T>
struct general_scores : key_band {
    float factor = 1.4426950408889634f;
    float scale = 1.0f, softcap = 0.0f;
    const float* slopes = nullptr;     // ALiBi: Press et al., arXiv 2108.12409
    int64_t slope_strides[2] = {};     // batch, head
    const T* bias = nullptr;           // of that dtype,
    const float* wide_bias = nullptr;  // or in fp32
    int64_t bias_strides[4] = {};      // batch, head, query, key

    TK_HOST_DEVICE attention_range unchanged(attention_range, attention_lengths) const {
        return {0, 0};
    }
    template <class F>
    TK_DEVICE void change(F&& f) const {
        if (softcap > 0.0f) {
            // tanh(x) = 2 sigmoid(2 x) - 1
            const float steepness = 2.0f * scale / softcap;
            f([&](const score_place&, float score) {
                return fmaf(2.0f * softcap, functions::sigmoid(score * steepness), -softcap);
            });
        } else {
            f([&](const score_place&, float score) { return score * scale; });
        }
        if (slopes != nullptr) {
            f([&](const score_place& at, float score) {
                const float slope =
                    slopes[at.batch * slope_strides[0] + at.head * slope_strides[1]];
                return fmaf(-slope, fabsf(float(at.distance())), score);
            });
        }
        if (bias != nullptr) add_bias(f, bias);
        if (wide_bias != nullptr) add_bias(f, wide_bias);
        f([this](const score_place& at, float score) { return masked(at, score); });
    }

  private:
    template <class F, class B>
    TK_DEVICE void add_bias(F&& f, const B* of) const {
        f([&](const score_place& at, float score) {
            const B* const row = of + at.batch * bias_strides[0] + at.head * bias_strides[1] +
                                 at.query * bias_strides[2];
            const bool inside =
                bool(int(at.query < at.lengths.queries) & int(at.key < at.lengths.keys));
            return inside ? score + convert<float>(row[at.key * bias_strides[3]]) : score;
        });
    }
};

TK_NAMESPACE_END
