// One instance of the rotation behind a plain function: what a generated translation unit expands a
// line of the instance table into.
#pragma once
#include "kernels/rotary/rotary.hpp"
#include "kernels/rotary/rotary_entry.hpp"
#include "tk/grid/launch.hpp"

TK_NAMESPACE_BEGIN

template <class K, class T>
struct rotary_runner {
    using globals = typename K::globals;
    static constexpr int width = K::width;

    // Slots of `units` units each over all rows, as 64-bit numbers: a problem may have too many.
    struct sizes {
        int64_t rotated, rest;  // slots of a row
        int64_t rotated_tiles, rest_tiles, groups, tasks;
    };
    static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
    static int64_t groups_of(const tk_rotary_problem& p, int64_t heads) {
        return ceil_div(heads, p.heads_per_task);
    }
    static sizes sizes_of(const tk_rotary_problem& p) {
        sizes result{};
        result.rotated = p.rotary_dim / (2 * width);
        result.rest = p.in_place ? 0 : ceil_div(p.head_dim - p.rotary_dim, 2 * width);
        result.rotated_tiles = ceil_div(p.batch * p.rows * result.rotated, 32);
        result.rest_tiles = ceil_div(p.batch * p.rows * result.rest, 32);
        result.groups = groups_of(p, p.q.heads) + groups_of(p, p.k.heads);
        result.tasks = (result.rotated_tiles + result.rest_tiles) * result.groups;
        return result;
    }
    static int64_t num_tasks(const tk_rotary_problem& p) { return sizes_of(p).tasks; }

    static rotary_tensor<T> tensor(const tk_rotary_problem& p, const tk_rotary_tensor& from,
                                   const void* in, void* out) {
        const auto strides = [](const int64_t (&by)[4]) {
            return typename rotary_tensor<T>::strides{by[0], by[1], by[2], by[3]};
        };
        return {static_cast<const T*>(in), static_cast<T*>(out), strides(from.in_strides),
                strides(from.out_strides), int(from.heads),      int(groups_of(p, from.heads))};
    }

    static void run(const tk_rotary_problem& p, const tk_rotary_pointers& at) {
        const device_scope scope(p.device);
        const sizes size = sizes_of(p);
        const int half = int(p.rotary_dim / 2);
        globals g{};
        g.q = tensor(p, p.q, at.q, at.q_out), g.k = tensor(p, p.k, at.k, at.k_out);
        g.cos = {at.cos, p.cos_strides[0], p.cos_strides[1]};
        g.sin = {at.sin, p.sin_strides[0], p.sin_strides[1]};
        g.table_rows = p.table_rows, g.wide_table = p.table_dtype == TK_FP32;
        g.positions = {at.positions,
                       p.position_bytes == 8,
                       p.position_strides[0],
                       p.position_strides[1],
                       p.offset,
                       at.cu_seqlens,
                       p.sequences};
        const bool neighbours = width == 1 && p.interleaved;  // partners are, not whole units
        g.rotated = {fast_divider(uint32_t(size.rotated)),
                     int(size.rotated_tiles),
                     0,
                     neighbours ? 2 : width,
                     neighbours ? 1 : half,
                     int(p.rotary_dim)};
        g.rest = {fast_divider(uint32_t(size.rest)),
                  int(size.rest_tiles),
                  int(p.rotary_dim),
                  width,
                  int(size.rest) * width,
                  int(p.head_dim)};
        const int64_t tiles = size.rotated_tiles + size.rest_tiles;
        g.tasks = {fast_divider(uint32_t(p.groups_first ? size.groups : tiles)),
                   p.groups_first != 0, int(size.tasks)};
        g.rows = fast_divider(uint32_t(p.rows));
        g.num_rows = int(p.batch * p.rows);
        g.heads_per_task = p.heads_per_task, g.half = half;
        g.interleaved = p.interleaved != 0, g.sign = p.inverse ? -1.0f : 1.0f;
        launch<K>(g, {p.grid, 1, 0, p.device, at.stream});
    }

    static rotary_entry entry(const char* name) {
        rotary_entry result{};
        for (int i = 0; name[i] != '\0' && i < 63; ++i) result.info.name[i] = name[i];
        result.info.dtype = int(tag_of<T>);
        result.info.width = width, result.info.heads_at_once = K::heads_at_once;
        result.num_tasks = &num_tasks, result.run = &run;
        return result;
    }
};

// The words of the instance table.
namespace rotary_words {
using fp16 = half;
using fp32 = float;
using tk::bf16;
}  // namespace rotary_words

TK_NAMESPACE_END

#define TK_DEFINE_ROTARY_INSTANCE(dtype, width)                              \
    TK_NAMESPACE_BEGIN                                                       \
    rotary_entry TK_ROTARY_ENTRY(dtype, width)() {                           \
        using T = rotary_words::dtype;                                       \
        return rotary_runner<rotary<T, width>, T>::entry(#dtype "_" #width); \
    }                                                                        \
    TK_NAMESPACE_END
