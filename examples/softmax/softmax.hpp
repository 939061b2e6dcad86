// The softmax of each row: out[r, c] = exp(x[r, c] - max_r) / sum over c of exp(x[r, c] - max_r).
//
// A warp takes 16 rows and goes along them twice: once for the maximum and the sum, which is scaled
// down whenever the maximum grows (Milakov & Gimelshein, arXiv 1805.02867, algorithm 3), once to
// write. No shared memory; rows of any length, any strides.
#include "tk/extend.hpp"

namespace {

using namespace tk;

template <class T>
struct softmax_kernel {
    static constexpr int num_threads = 128;
    static constexpr int rows = 64, cols = 64;  // of a block's tile; a warp has 16 of the rows

    struct globals {
        gl_view<const T> x;  // (ROWS,COLS)
        gl_view<T> out;      // (ROWS,COLS)
        int row_tiles;
    };
    using tile = rt_fl<rows / 4, cols>;
    using row_values = tile::col_vec;  // one for each row

    static TK_DEVICE void run(const globals& g) {
        for (int i = cluster::index(); i < g.row_tiles; i += cluster::count()) {
            row_values maximum, sum;
            statistics(g, i * rows, maximum, sum);
            write(g, i * rows, maximum, sum);
        }
    }

  private:
    // What lies outside of the matrix is loaded as 0, so the columns past the last are filled.
    static TK_DEVICE void load(tile& x, const globals& g, int row, int col) {
        warpgroup::load(x, g.x, {row, col});
        if (col + cols > g.x.cols()) {
            warpgroup::right_fill(x, x, int(g.x.cols()) - col, -INFINITY);
        }
    }

    static TK_DEVICE void statistics(const globals& g, int row, row_values& maximum,
                                     row_values& sum) {
        // Below every number but -infinity, from which nothing could be subtracted.
        warp::fill(maximum, -3.402823466e38f);
        warp::zero(sum);
        for (int col = 0; col < g.x.cols(); col += cols) {
            tile x;
            load(x, g, row, col);
            const row_values before = maximum;
            warp::row_max(maximum, x, before);
            // sum = sum * exp(before - maximum) + the tile's own
            row_values scale;
            warp::sub(scale, before, maximum);
            warp::exp(scale, scale);
            warp::mul(sum, sum, scale);
            exponentials(x, maximum);
            warp::row_sum(sum, x, sum);
        }
    }

    static TK_DEVICE void write(const globals& g, int row, const row_values& maximum,
                                const row_values& sum) {
        for (int col = 0; col < g.x.cols(); col += cols) {
            tile x;
            load(x, g, row, col);
            exponentials(x, maximum);
            warp::div_row(x, x, sum);
            warpgroup::store(g.out, x, {row, col});
        }
    }

    static TK_DEVICE void exponentials(tile& x, const row_values& maximum) {
        warp::sub_row(x, x, maximum);
        warp::exp(x, x);
    }
};

template <class T>
void softmax(const launch_target& target, tensor<T, 2> out, tensor<const T, 2> x) {
    using kernel = softmax_kernel<T>;
    require(out.size(0) == x.size(0) && out.size(1) == x.size(1),
            out.text() + " must have the shape of " + x.text());
    if (x.elements() == 0) return;
    const int64_t tiles = (x.size(0) + kernel::rows - 1) / kernel::rows;
    target.launch<kernel>({x.view(), out.view(), int(tiles)}, {.grid = int(tiles)});
}

}  // namespace

TK_EXPORT_AS(softmax, softmax<float>, out, x);
TK_EXPORT_AS(softmax, softmax<bf16>, out, x);
