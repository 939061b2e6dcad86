// What a kernel of a block template leaves out, and what is taken then.
#pragma once
#include "tk/block/scheduler.hpp"

TK_NAMESPACE_BEGIN

namespace detail {

struct nothing {};

// The member types of K that it may leave out.
template <class K>
struct scratch_of {
    using type = nothing;
    static constexpr int64_t bytes = 0;
};
template <class K>
    requires requires { typename K::layout::scratch_block; }
struct scratch_of<K> {
    using type = typename K::layout::scratch_block;
    static constexpr int64_t bytes = sizeof(type);
};

template <class K>
struct finish_of {
    using type = nothing;
    static constexpr bool exists = false;
    static constexpr int64_t bytes = 0;
};
template <class K>
    requires requires { typename K::layout::finish_block; }
struct finish_of<K> {
    using type = typename K::layout::finish_block;
    static constexpr bool exists = true;
    static constexpr int64_t bytes = sizeof(type);
};

template <class K>
struct output_of {
    using type = nothing;
    static constexpr int64_t bytes = 0;
};
template <class K>
    requires requires { typename K::layout::output_block; }
struct output_of<K> {
    using type = typename K::layout::output_block;
    static constexpr int64_t bytes = sizeof(type);
};

template <class K>
struct common_of {
    using type = nothing;
    static constexpr bool exists = false;
};
template <class K>
    requires requires { typename K::common_state; }
struct common_of<K> {
    using type = typename K::common_state;
    static constexpr bool exists = true;
};

template <class K>
struct producer_state_of {
    using type = nothing;
};
template <class K>
    requires requires { typename K::producer::state; }
struct producer_state_of<K> {
    using type = typename K::producer::state;
};

// The numbers of K that it may leave out.
template <class K>
struct numbers_of {
    static constexpr int producer_warps = [] {
        if constexpr (requires { K::producer::warps; }) {
            return int(K::producer::warps);
        } else {
            return 1;
        }
    }();
    static constexpr int producer_arrivals = [] {
        if constexpr (requires { K::producer::arrivals; }) {
            return int(K::producer::arrivals);
        } else {
            return producer_warps;
        }
    }();
    static constexpr int max_stages = [] {
        if constexpr (requires { K::max_stages; }) {
            return int(K::max_stages);
        } else {
            return 16;
        }
    }();
    static constexpr int max_output_stages = [] {
        if constexpr (requires { K::max_output_stages; }) {
            return int(K::max_output_stages);
        } else {
            return 8;
        }
    }();
    static constexpr int producer_registers = [] {
        if constexpr (requires { K::producer_registers; }) {
            return int(K::producer_registers);
        } else {
            return 0;
        }
    }();
    static constexpr int consumer_registers = [] {
        if constexpr (requires { K::consumer_registers; }) {
            return int(K::consumer_registers);
        } else {
            return 0;
        }
    }();
    static_assert((producer_registers == 0) == (consumer_registers == 0),
                  "a kernel gives both producer_registers and consumer_registers, or neither");
};

// By default a static order or the host's queue; a producer of several warps has the static one.
template <class K>
struct scheduler_of {
    using type = std::conditional_t<numbers_of<K>::producer_warps == 1, static_or_queue_scheduler,
                                    static_scheduler>;
};
template <class K>
    requires requires { typename K::scheduler; }
struct scheduler_of<K> {
    using type = typename K::scheduler;
};

}  // namespace detail

TK_NAMESPACE_END
