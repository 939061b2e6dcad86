// Kernels that tests/test_extend_load.py loads: a real one for both architectures, and functions
// that report on the host what arrived or fail as they are told.
#include "tk/extend.hpp"

namespace {

// out = factor * x, a tile a block.
template <class T>
struct scale_kernel {
    static constexpr int num_threads = 128;
    using tile = tk::st<T, 64, 64>;
    struct globals {
        tk::gl_view<const T> x;
        tk::any_gl source, out;
        float factor;
    };
    struct shared {
        tk::st_fl<64, 64> widened;
    };
    static TK_DEVICE void run(const globals& g) {
        using namespace tk;
        const int across = int((g.x.cols() + 63) / 64), i = cluster::index();
        const int row_0 = i / across * 64, col_0 = i % across * 64;
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        rt_fl<16, 64> zeros;
        warp::zero(zeros);
        warpgroup::store(memory.widened, zeros);
        warpgroup::sync(1);
        warpgroup::for_each8(memory.widened, false, [&](int row, int col, float (&values)[8]) {
            if (row_0 + row >= g.x.rows() || col_0 + col >= g.x.cols()) return;
            const coord at{0, row_0 + row, col_0 + col};
            g.source.get8(values, at, int(g.x.cols()));
            for (float& value : values) value *= g.factor;
            g.out.set8(values, at, int(g.x.cols()));
        });
    }
};

template <class T>
void scale_matrix(const tk::launch_target& target, tk::tensor<T, 2> out, tk::tensor<const T, 2> x,
                  float factor) {
    tk::require(out.size(0) == x.size(0) && out.size(1) == x.size(1),
                out.text() + " must have the shape of " + x.text());
    if (x.elements() == 0) return;
    const int64_t blocks = (x.size(0) + 63) / 64 * ((x.size(1) + 63) / 64);
    target.launch<scale_kernel<T>>(
        {x.view(), x.any(), out.any(), factor},
        {.grid = int(blocks), .shared_bytes = sizeof(typename scale_kernel<T>::shared)});
}

// What came, as numbers: sizes and strides of x, then the scalars.
void report(const tk::launch_target& target, tk::tensor<double, 1> out,
            tk::tensor<const int32_t, 3> x, int small, int64_t large, float single, double number,
            bool flag) {
    const double facts[] = {double(x.size(0)),   double(x.size(1)),
                            double(x.size(2)),   double(x.stride(0)),
                            double(x.stride(1)), double(x.stride(-1)),
                            double(small),       double(large),
                            double(single),      number,
                            flag ? 1.0 : 0.0,    double(target.device)};
    for (int i = 0; i < 12; ++i) out.data[i * out.stride(0)] = facts[i];
}

void fail(const tk::launch_target&, int how) {
    if (how == 0) throw std::runtime_error("it went wrong");
    if (how == 1) tk::require(false, "how is 1; must be another");
    if (how == 2) throw 2;
}

// Only makes the descriptor of TMA copies.
void describe(const tk::launch_target&, tk::tensor<const tk::bf16, 2> x) {
    (void)tk::make_gl<tk::gl<tk::bf16, 1, 1, -1, -1, tk::st_bf<64, 64>>>(x);
}

void nothing(const tk::launch_target&) {}

}  // namespace

TK_EXPORT_AS(scale, scale_matrix<float>, out, x, factor = 2.5f);
TK_EXPORT_AS(scale, scale_matrix<tk::bf16>, out, x, factor = 2.5f);
TK_EXPORT(report, out, x, small = 3, large = 0x100000000, single = 0.5f, number = -1e300,
          flag = true);
TK_EXPORT(fail, how);
TK_EXPORT(describe, x);
TK_EXPORT(nothing);
