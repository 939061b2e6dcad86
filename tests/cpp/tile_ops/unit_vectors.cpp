// Vectors of units: loaded, stored, reduced and computed with, against plain loops.
#include "harness.hpp"

namespace {

using namespace tile_ops;

struct unit_arguments {
    const void* from;  // of U
    void* to;          // of T
    int64_t step;      // between pieces
    int operation;
    float* sums;
};

// Where unit i lies, in units; every seventh is nowhere.
TK_HOST_DEVICE int place_of(int unit, int units) { return unit % 7 == 5 ? -1 : unit * 5 % units; }

// Operation 0 rounds what is loaded; 1 computes with it; 2 sums it.
template <int Warps, class T, class U, int Length, int Piece>
struct move_units {
    static constexpr int num_threads = 128;
    using globals = unit_arguments;
    using V = rv<T, 32 * Length, vector_layout::units>;
    static TK_DEVICE void run(const globals& g) {
        if (!takes_part<Warps>()) return;
        using G = group<Warps>;
        unit_array<int> number, place;
        G::index_units(number, [](int unit) { return unit; });
        G::index_units(
            place,
            [](int unit, int same) { return unit == same ? place_of(unit, Warps * 32) : -1; },
            number);
        V x, y;
        const auto* const from = static_cast<const U*>(g.from);
        G::template load_units<Piece>(
            x,
            [&](int at) {
                return unit_pieces<const U>{at < 0 ? nullptr : from + at * Length, g.step};
            },
            place, 0.5f);
        G::fill(y, 2.0f);
        if (g.operation == 1) {
            G::map_units(x, y, x, y, [](auto& a, auto& b, auto& c, auto& d) {
                TK_UNROLL
                for (int i = 0; i < Length; ++i) {
                    a[i] = c[Length - 1 - i] * d[i], b[i] = float(i);
                }
            });
            G::add(x, x, y);
        }
        if (g.operation == 2) {
            const float sum = warp::sum(x);
            if (is_first_thread()) g.sums[0] = sum;
        }
        auto* const to = static_cast<T*>(g.to);
        constexpr int together = std::min(Length, 16 / int(sizeof(T)));
        G::store_units(
            [&](int at) { return unit_pieces<T>{at < 0 ? nullptr : to + at * Length, together}; },
            x, place);
    }
};

template <int Warps, class T, class U, int Length, int Piece>
std::string check_units(int operation) {
    constexpr int units = Warps * 32, count = units * Length;
    constexpr int piece = Piece > 0 ? Piece : std::min(Length, 16 / int(sizeof(U)));
    // Pieces that follow on, or lie some elements further: the last ones beyond the units.
    const int64_t step = operation == 0 ? piece : 2 * piece;
    const int room = count + Length / piece * piece;
    const auto memory = generate(format_of<U>(), size_t(room), inputs{3, 0, true});
    std::vector<U> start;
    for (const float each : memory) start.push_back(U(each));
    device_memory<U> from(start);
    device_memory<T> to(size_t(count), T(-7.0f));
    device_memory<float> sums(1, 0.0f);
    unit_arguments g{from.data(), to.data(), step, operation, sums.data()};
    launch_and_wait<move_units<Warps, T, U, Length, Piece>>(g, 0);

    std::vector<float> want(size_t(count), -7.0f), got;
    double sum = 0;
    for (int unit = 0; unit < units; ++unit) {
        const int at = place_of(unit, units);
        float read[Length];
        for (int i = 0; i < Length; ++i) {
            const int64_t place = at * Length + i / piece * step + i % piece;
            read[i] = float(T(at < 0 ? U(0.5f) : start[size_t(place)]));
            sum += read[i];
        }
        for (int i = 0; i < Length && at >= 0; ++i) {
            float& element = want[size_t(at * Length + i)];
            element = read[i];
            if (operation == 1) element = float(T(read[Length - 1 - i] * 2.0f)) + float(i);
        }
    }
    for (const T each : to.get()) got.push_back(float(each));
    if (operation == 2 && std::abs(sums[0] - sum) > 1e-2) return "the sum is another";
    return compare(got, format_of<T>(), [&](size_t i) { return exactly(want[i]); });
}

template <int Warps, class T, class U, int Length, int Piece = 0>
void add_vector() {
    const auto add = [](const char* operation, int number) {
        add_case(operation,
                 scope_name<Warps>() + " of " + std::to_string(Length) + " " + format_of<T>().name +
                     " from " + format_of<U>().name,
                 [=] { return check_units<Warps, T, U, Length, Piece>(number); });
    };
    add("load_units", 0), add("store_units", 0), add("index_units", 0), add("map_units", 1);
    if (Warps == 1) add("sum", 2);
}

void fill_table() {
    add_vector<1, bf16, bf16, 8>();
    add_vector<1, tk::half, tk::half, 1>();
    add_vector<1, float, bf16, 8, 4>();
    add_vector<1, float, float, 8, 4>();
    add_vector<1, float, float, 1>();
    add_vector<4, float, tk::half, 4>();
    add_vector<4, bf16, bf16, 16>();
}

}  // namespace

int main(int count, char** arguments) {
    fill_table();
    return tile_ops::main_of_cases(count, arguments);
}
