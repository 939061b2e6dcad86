// Settings of the emulated machine: from the environment at the first use, or by a test.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

struct settings_type {
    // TK_HOST_WATCHDOG, seconds: a launch in which nothing happens for so long is an error, if all
    // of its warps wait; after six times as long in any case. 0: off.
    std::atomic<double> watchdog_seconds{10.0};
    // TK_HOST_SEED: the order in which loads complete.
    std::atomic<uint64_t> seed{1};
    // TK_HOST_DELAY, microseconds: loads and waits are held up by a random time up to this.
    std::atomic<int> max_delay_microseconds{0};

    // TK_HOST_CHECK=0: accesses to shared memory are not logged and compared.
    std::atomic<bool> check_accesses{true};

    settings_type() {
        if (const char* text = std::getenv("TK_HOST_CHECK")) check_accesses = std::atoi(text) != 0;
        if (const char* text = std::getenv("TK_HOST_WATCHDOG")) watchdog_seconds = std::atof(text);
        if (const char* text = std::getenv("TK_HOST_SEED")) {
            seed = std::strtoull(text, nullptr, 10);
        }
        if (const char* text = std::getenv("TK_HOST_DELAY")) {
            max_delay_microseconds = std::atoi(text);
        }
    }
};

inline settings_type& settings() {
    static settings_type instance;
    return instance;
}

}  // namespace machine

TK_NAMESPACE_END
