// The C interface of the rotation, over the table of instances. Compiled once for each
// architecture; needs none of CuTe.
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/last_error.hpp"
#include "kernels/rotary/rotary_entry.hpp"

TK_NAMESPACE_BEGIN

// The generated translation units define an entry for each line of the table.
#define TK_ROTARY_INSTANCE(...) rotary_entry TK_ROTARY_ENTRY(__VA_ARGS__)();
#include "kernels/rotary/instances.inc"
#undef TK_ROTARY_INSTANCE

namespace {

const std::vector<rotary_entry>& entries() {
    static const std::vector<rotary_entry> table = {
#define TK_ROTARY_INSTANCE(...) TK_ROTARY_ENTRY(__VA_ARGS__)(),
#include "kernels/rotary/instances.inc"
#undef TK_ROTARY_INSTANCE
    };
    return table;
}

const rotary_entry& entry_of(const tk_rotary_problem& p) {
    if (p.instance < 0 || size_t(p.instance) >= entries().size()) {
        throw std::out_of_range("instance " + std::to_string(p.instance) + " is not one of " +
                                std::to_string(entries().size()));
    }
    return entries()[size_t(p.instance)];
}

void check(bool legal, const char* what) {
    if (!legal) throw std::invalid_argument(what);
}

// What a vector of `width` elements needs of a tensor's strides.
bool by_vectors(const int64_t (&strides)[4], int width) {
    return strides[3] == 1 && strides[0] % width == 0 && strides[1] % width == 0 &&
           strides[2] % width == 0;
}

void check_problem(const tk_rotary_problem& p) {
    const tk_rotary_instance& info = entry_of(p).info;
    const int64_t largest = (int64_t(1) << 31) - 128;  // numbers of slots and tasks are ints
    check(p.batch >= 1 && p.rows >= 1 && p.q.heads + p.k.heads >= 1 && p.q.heads >= 0 &&
              p.k.heads >= 0,
          "batch, rows and heads must be positive");
    check(p.rotary_dim >= 2 && p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim,
          "rotary_dim must be even, and between 2 and head_dim");
    check(p.table_dtype == TK_FP32 || p.table_dtype == info.dtype,
          "table_dtype must be fp32 or that of q");
    check(p.position_bytes == 0 || p.position_bytes == 4 || p.position_bytes == 8,
          "position_bytes must be 0, 4 or 8");
    check(p.sequences >= 0 && (p.sequences == 0 || p.batch == 1), "packed sequences are one batch");
    check(p.heads_per_task >= 1 && p.heads_per_task % info.heads_at_once == 0,
          "heads_per_task must be a positive multiple of the instance's heads_at_once");
    check(p.grid >= 1, "grid must be positive");
    if (info.width > 1) {
        check(p.rotary_dim % (2 * info.width) == 0 && p.head_dim % info.width == 0,
              "rotary_dim and head_dim must be made of the instance's vectors");
        for (const tk_rotary_tensor* each : {&p.q, &p.k}) {
            check(each->heads == 0 || (by_vectors(each->in_strides, info.width) &&
                                       by_vectors(each->out_strides, info.width)),
                  "strides must be multiples of the instance's vectors");
        }
        const int piece = info.width / 2;
        check(p.cos_strides[1] == 1 && p.sin_strides[1] == 1 && p.cos_strides[0] % piece == 0 &&
                  p.sin_strides[0] % piece == 0,
              "cos and sin must have rows of half the instance's vectors");
    }
    check(p.head_dim <= 65536 && p.q.heads <= 65536 && p.k.heads <= 65536,
          "head_dim and heads must be at most 65536");
    check(p.batch <= largest && p.rows <= largest / p.batch,
          "batch * rows must be below 2^31 - 128");
    check(p.batch * p.rows <= largest / p.head_dim * info.width,
          "more than 2^31 vectors of a head");
    check(entry_of(p).num_tasks(p) <= largest, "more than 2^31 tasks");
}

}  // namespace

TK_NAMESPACE_END

extern "C" {

int tk_num_rotary_instances(void) { return int(tk::entries().size()); }

int tk_get_rotary_instance(int index, tk_rotary_instance* out) {
    if (index < 0 || size_t(index) >= tk::entries().size()) {
        tk::last_error = "there is no instance " + std::to_string(index);
        return 1;
    }
    *out = tk::entries()[size_t(index)].info;
    return 0;
}

int64_t tk_rotary_num_tasks(const tk_rotary_problem* p) {
    return tk::or_failure(int64_t(-1), [&] {
        tk::check_problem(*p);
        return tk::entry_of(*p).num_tasks(*p);
    });
}

int tk_rotary(const tk_rotary_problem* p, const tk_rotary_pointers* at) {
    return tk::or_failure(1, [&] {
        tk::check_problem(*p);
        tk::check(p->position_bytes == 0 || at->positions != nullptr,
                  "position_bytes needs positions");
        tk::check(p->sequences == 0 || at->cu_seqlens != nullptr, "sequences need cu_seqlens");
        tk::entry_of(*p).run(*p, *at);
        return 0;
    });
}
}
