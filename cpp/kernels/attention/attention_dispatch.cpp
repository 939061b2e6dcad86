// The C interface of attention, over the table of instances. Compiled once for each architecture;
// needs none of CuTe.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/attention/attention_entry.hpp"
#include "kernels/last_error.hpp"
#include "tk/grid/order.hpp"

TK_NAMESPACE_BEGIN

// The generated translation units define an entry for each line of the table.
#define TK_ATTENTION_INSTANCE(...) attention_entry TK_ATTENTION_ENTRY(__VA_ARGS__)();
#include "kernels/attention/instances.inc"
#undef TK_ATTENTION_INSTANCE

namespace attention_dispatch {

using problem = tk_attention_problem;

const std::vector<attention_entry>& entries() {
    static const std::vector<attention_entry> table = {
#define TK_ATTENTION_INSTANCE(...) TK_ATTENTION_ENTRY(__VA_ARGS__)(),
#include "kernels/attention/instances.inc"
#undef TK_ATTENTION_INSTANCE
    };
    return table;
}

const attention_entry& entry_of(int index) {
    if (index < 0 || size_t(index) >= entries().size()) {
        throw std::out_of_range("instance " + std::to_string(index) + " is not one of " +
                                std::to_string(entries().size()));
    }
    return entries()[size_t(index)];
}

void check(bool legal, const char* what) {
    if (!legal) throw std::invalid_argument(what);
}

// Query tiles of all sequences and heads.
int64_t query_tiles(const problem& p) {
    const auto [rows, columns] = attention_grid(p, entry_of(p.instance).info.tile_q);
    return rows * columns;
}

void check_plan(const problem& p) {
    const tk_attention_instance& info = entry_of(p.instance).info;
    check(p.batch >= 1 && p.heads >= 1 && p.kv_heads >= 1 && p.queries >= 1 && p.keys >= 0,
          "batch, heads, kv_heads and queries must be positive");
    check(p.heads % p.kv_heads == 0, "heads must be a multiple of kv_heads");
    const int64_t largest = int64_t(1) << 28;  // rows and their differences are an int
    const int64_t sharers = p.heads / p.kv_heads;
    check(p.queries * (p.pack_heads ? sharers : 1) < largest && p.keys < largest,
          "queries (with pack_heads queries x heads) and keys must be below 2^28");
    check(p.head_dim >= 8 && p.head_dim % 8 == 0 && p.head_dim <= info.head_dim,
          "head_dim must be a multiple of 8 and no larger than the instance's");
    check(p.value_dim >= 8 && p.value_dim % 8 == 0 && p.value_dim <= info.value_dim,
          "value_dim must be a multiple of 8 and no larger than the instance's");
    check(p.num_stages >= info.min_stages && p.num_stages <= info.max_stages,
          "num_stages is out of range");
    check(p.grid >= 1, "grid must be positive");
    check(p.splits >= 1, "splits must be positive");
    check(p.order_kind >= 0 && p.order_kind <= 5, "order_kind is not one of 0 to 5");
    check(query_tiles(p) * p.splits < (int64_t(1) << 31), "more than 2^31 tasks");
}

void check_call(const problem& p, const tk_attention_pointers& at) {
    check_plan(p);
    const bool plain = entry_of(p.instance).info.scores == TK_SCORES_PLAIN;
    check(std::isfinite(p.scale) && (!plain || p.scale > 0.0f),
          "scale must be finite, and positive for an instance of plain scores");
    check(std::isfinite(p.softcap) && p.softcap >= 0.0f, "softcap must be finite and 0 or more");
    check(!plain || (p.softcap == 0.0f && at.alibi_slopes == nullptr && at.bias == nullptr),
          "softcap, slopes and a bias need an instance of general scores");
    check(at.bias == nullptr || p.bias_dtype == TK_FP32 ||
              p.bias_dtype == entry_of(p.instance).info.dtype,
          "the bias must have the dtype of q, or fp32");
    check((at.cu_seqlens_q != nullptr) == (p.packed != 0) &&
              (at.cu_seqlens_k != nullptr) == (p.packed != 0),
          "cu_seqlens_q and cu_seqlens_k come together, and with packed");
    check(p.order_kind != order_table || at.order_table != nullptr,
          "order_kind 5 needs an order_table");
    check(p.splits == 1 || at.workspace != nullptr, "split keys need a workspace");
    check((p.splits == 1 && !p.dynamic) || at.counters != nullptr,
          "a split or dynamic plan needs counters");
}

int64_t owners(const problem& p) {
    return query_tiles(p) * entry_of(p.instance).info.consumer_warpgroups;
}

}  // namespace attention_dispatch

TK_NAMESPACE_END

extern "C" {

int tk_num_attention_instances(void) { return int(tk::attention_dispatch::entries().size()); }

int tk_get_attention_instance(int index, tk_attention_instance* out) {
    return tk::or_failure(1, [&] {
        *out = tk::attention_dispatch::entry_of(index).info;
        return 0;
    });
}

int64_t tk_attention_workspace_bytes(const tk_attention_problem* p) {
    return tk::or_failure(int64_t(-1), [&]() -> int64_t {
        if (p->splits == 1) return 0;
        tk::attention_dispatch::check_plan(*p);
        const auto& entry = tk::attention_dispatch::entry_of(p->instance);
        return tk::attention_dispatch::owners(*p) * p->splits * entry.floats_per_part *
               int64_t(sizeof(float));
    });
}

int64_t tk_attention_num_counters(const tk_attention_problem* p) {
    return tk::or_failure(int64_t(-1), [&]() -> int64_t {
        if (p->splits == 1 && !p->dynamic) return 0;
        tk::attention_dispatch::check_plan(*p);
        return (p->dynamic ? 1 : 0) + (p->splits > 1 ? tk::attention_dispatch::owners(*p) : 0);
    });
}

int tk_attention(const tk_attention_problem* p, const tk_attention_pointers* at) {
    return tk::or_failure(1, [&] {
        if (p->batch == 0 || p->heads == 0 || p->queries == 0) return 0;
        tk::attention_dispatch::check_call(*p, *at);
        tk::attention_dispatch::entry_of(p->instance).run(*p, *at);
        return 0;
    });
}
}
