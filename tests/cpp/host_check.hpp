// What the checks of the emulated machine share: kernels that are functions, and a main program.
//
//   PROGRAM list      the names of its tests
//   PROGRAM NAME...   runs them; one line for each that fails, exit status 1
#pragma once
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tk/tk.hpp"

namespace host_check {

using namespace tk;
using bf_tile = st_bf<64, 64>;
using fl_tile = st_fl<64, 32>;
using fl_gl = gl<float, 1, -1, -1, -1, fl_tile>;

inline void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

// A kernel that is a function, of two warpgroups.
struct script {
    static constexpr int num_threads = 256;
    using globals = std::function<void()>;
    static void run(const globals& body) { body(); }
};
struct place {
    int grid = 1, cluster = 1;
    int64_t bytes = 65536;
};
inline void run(const script::globals& body, place at = {}) {
    launch<script>(body, {at.grid, at.cluster, at.bytes, 0, nullptr});
}
// The launch must fail with a message in which all the words occur, and the machine must work on.
inline void fails(const std::vector<std::string>& words, const script::globals& body,
                  place at = {}) {
    std::string message;
    try {
        run(body, at);
    } catch (const std::runtime_error& error) {
        message = error.what();
    }
    for (const std::string& word : words) {
        require(message.find(word) != std::string::npos,
                "\"" + word + "\" is not in the message: " + message);
    }
    machine::settings().watchdog_seconds = 10;
    run([] {});
}

// Shared memory of the scripts.
struct memory_block {
    bf_tile tiles[4];
    fl_tile numbers;
    semaphore ready[4];
    int vote;
};
inline memory_block& memory() { return *reinterpret_cast<memory_block*>(shared_memory()); }
inline void init(int arrivals) {
    if (warp::groupid() == 0) {
        init_semaphores(memory().ready, 4, arrivals, "ready");
        fence_semaphore_init();
    }
    cluster::sync();
}
inline bool first_warp() { return warp::groupid() == 0; }

using test_table = std::map<std::string, void (*)()>;

inline int run_tests(const test_table& tests, int count, char** arguments) {
    if (count == 2 && std::strcmp(arguments[1], "list") == 0) {
        for (const auto& [name, test] : tests) std::printf("%s\n", name.c_str());
        return 0;
    }
    int failures = 0;
    for (int i = 1; i < count; ++i) {
        try {
            tests.at(arguments[i])();
        } catch (const std::exception& error) {
            std::printf("%s: %s\n", arguments[i], error.what());
            ++failures;
        }
    }
    return failures == 0 ? 0 : 1;
}

}  // namespace host_check
