// What the synchronisation operations must order, on both architectures (host_sync_check.cpp,
// gpu_tma_check.cu): words of shared and global memory that warps and blocks tell each other.
#pragma once
#include "tma_values.hpp"

namespace checks {

// Two blocks of a cluster, four warps each. Every warp notes what it was told.
struct sync_kernel {
    static constexpr int num_threads = 128, results = 12;  // of a block
    struct globals {
        int* told;  // (block, results)
        int* mail;  // a word for each block
    };
    struct shared {
        semaphore counted, polled, remote;
        int by_arrive, by_group, by_count, by_poll, by_cluster, by_new;
    };

    static TK_DEVICE void run(const globals& g) {
        auto& memory = *reinterpret_cast<shared*>(shared_memory());
        const int rank = cluster::rank(), warp_id = warpgroup::warpid();
        const auto note = [&](int place, int value) {
            if (warp::elect()) g.told[rank * results + place] = value;
        };
        const auto hear = [&](int place, const int& word) {
            note(place, warp::broadcast(warp::get(word)));
        };
        if (warp_id == 0) {
            init_semaphore(memory.counted, 5, "counted");
            init_semaphore(memory.polled, 4, "polled");
            init_semaphore(memory.remote, 14, "remote");
            fence_semaphore_init();
        }
        cluster::sync();

        // Three warps of the block, of which one does not wait.
        if (warp_id == 0) {
            warp::put(memory.by_arrive, 11);
            named_barrier::arrive(1, 3);
        } else if (warp_id != 1) {
            named_barrier::sync(1, 3);
            hear(warp_id, memory.by_arrive);  // 2, 3
        }
        // All warps of a group, of which one does not wait.
        if (warp_id == 1) {
            warp::put(memory.by_group, 12);
            warpgroup::arrive(2);
        } else {
            warpgroup::sync(2);
            hear(warp_id == 3 ? 5 : 4 + warp_id, memory.by_group);  // 4, 6, 5
        }
        // Five arrivals at once, and a warp that asks now and then.
        if (warp_id == 3) {
            warp::put(memory.by_count, 13);
            warp::arrive(memory.counted, 5);
        } else if (warp_id == 0) {
            while (!try_wait(memory.counted, 0)) {
            }
            hear(7, memory.by_count);
        }
        if (warp_id == 2) {
            warp::put(memory.by_poll, 14);
            warp::arrive(memory.polled, 3);
            warp::arrive(memory.polled);
        } else if (warp_id == 1) {
            while (!test_wait(memory.polled, 0)) {
            }
            hear(8, memory.by_poll);
        }
        // Seven arrivals, in two goes, from a warp of each block.
        if (warp_id == 2) {
            warp::put(memory.by_cluster, 15);
            warp::sync();
            cluster::arrive(memory.remote, 3, 3);
            cluster::arrive(memory.remote, 3, 4);
        } else if (warp_id == 1) {
            wait(memory.remote, 0);
            hear(9, memory.by_cluster);
        }
        // A word of global memory for the other block, and work of one's own in between.
        if (warp_id == 3 && warp::laneid() == 0) g.mail[rank] = 16 + rank;
        cluster::arrive_all();
        if (warp_id == 0) note(0, 10);
        cluster::wait_all();
        if (warp_id == 1) note(10, *const_cast<const volatile int*>(&g.mail[1 - rank]) + rank);
        // A semaphore's memory, used again: all warps are past its first use.
        if (warp_id == 0) {
            invalidate_semaphore(memory.counted);
            init_semaphore(memory.counted, 1, "counted anew");
        }
        warpgroup::sync(3);
        if (warp_id == 1) {
            warp::put(memory.by_new, 18);
            warp::arrive(memory.counted);
        } else if (warp_id == 2) {
            wait(memory.counted, 0);
            hear(11, memory.by_new);
        }
        cluster::arrive_all_relaxed();  // a block stays while the other may still arrive in it
        cluster::wait_all();
    }
};
inline void check_synchronisation() {
    using K = sync_kernel;
    device_memory<int> told(std::vector<int>(2 * K::results, -1)), mail(std::vector<int>(2, -1));
    launch<K>({told.data(), mail.data()}, {2, 2, sizeof(K::shared), 0, nullptr});
    finish_kernels();
    const std::vector<int> got = told.get(0, 2 * K::results);
    const int right[K::results] = {10, -1, 11, 11, 12, 12, 12, 13, 14, 15, 17, 18};
    for (int i = 0; i < 2 * K::results; ++i) {
        require(got[size_t(i)] == right[i % K::results],
                "result " + std::to_string(i) + " is " + std::to_string(got[size_t(i)]) + ", not " +
                    std::to_string(right[i % K::results]));
    }
}

// A kernel that doubles a number and adds one, and says early that the next may start.
struct chain_kernel {
    static constexpr int num_threads = 128;
    struct globals {
        int* number;
    };
    static TK_DEVICE void run(const globals& g) {
        launch_dependents();
        wait_dependency();
        if (cluster::index() != 0 || warpgroup::warpid() != 0) return;
        const int before = *const_cast<const volatile int*>(g.number);
        warp::sync();
        if (warp::elect()) *g.number = before * 2 % 10007 + 1;
    }
};
inline void check_dependent_launches() {
    device_memory<int> number(std::vector<int>{1});
    int right = 1;
    for (int i = 0; i < 100; ++i) {
        launch_config config{4, 1, 1024, 0, nullptr};
        config.programmatic = i > 0;
        launch<chain_kernel>({number.data()}, config);
        right = right * 2 % 10007 + 1;
    }
    finish_kernels();
    const int got = number.get(0, 1)[0];
    require(got == right, std::to_string(got) + ", not " + std::to_string(right));
}

// Where each of 128 places lies in parts of the sizes given.
struct locate_kernel {
    static constexpr int num_threads = 128, places = 128;
    struct globals {
        const int* sizes;
        int count, step;  // from one place to the next
        int* found;       // (place, (index, before))
    };
    static TK_DEVICE void run(const globals& g) {
        for (int i = warpgroup::warpid(); i < places; i += 4) {
            const auto [index, before] =
                warp::locate(g.count, [&](int part) { return g.sizes[part]; }, i * g.step);
            if (warp::elect()) g.found[2 * i] = index, g.found[2 * i + 1] = before;
        }
    }
};
inline void check_locate() {
    using K = locate_kernel;
    for (const int count : {0, 1, 2, 31, 32, 33, 100, 1024, 1025, 5000}) {
        std::vector<int> sizes(size_t(count) + 1, 0);
        int all = 0;
        for (int i = 0; i < count; ++i) all += sizes[size_t(i)] = i * 7 % 5 == 2 ? 0 : i * 13 % 11;
        const int step = all / (K::places - 3) + 1;  // the last places lie beyond
        device_memory<int> held(sizes), found(std::vector<int>(2 * K::places, -1));
        launch<K>({held.data(), count, step, found.data()}, {1, 1, 1024, 0, nullptr});
        finish_kernels();
        const std::vector<int> got = found.get(0, 2 * K::places);
        for (int i = 0; i < K::places; ++i) {
            int index = 0, before = 0;
            while (index < count && before + sizes[size_t(index)] <= i * step) {
                before += sizes[size_t(index)], ++index;
            }
            require(got[size_t(2 * i)] == index && got[size_t(2 * i) + 1] == before,
                    "place " + std::to_string(i * step) + " of " + std::to_string(count) +
                        " parts is in " + std::to_string(got[size_t(2 * i)]) + " after " +
                        std::to_string(got[size_t(2 * i) + 1]) + ", not in " +
                        std::to_string(index) + " after " + std::to_string(before));
        }
    }
}

inline const test_list sync_value_checks = {
    {"a_place_is_located_in_any_number_of_parts", [] { check_locate(); }},
    {"every_operation_orders_what_it_says", [] { check_synchronisation(); }},
    {"dependent_launches_follow_one_another", [] { check_dependent_launches(); }},
};

}  // namespace checks
