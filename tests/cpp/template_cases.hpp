// Runs of the kernels of template_kernels.hpp, on the host or on a GPU, each held against sums of
// integers.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_memory.hpp"
#include "template_kernels.hpp"

namespace template_cases {

using namespace tk;
using namespace template_kernels;
using checks::device_memory;

// A case is "key=value,...".
struct settings {
    std::map<std::string, std::string> text;

    explicit settings(const std::string& from) {
        for (size_t at = 0; at < from.size();) {
            const size_t end = std::min(from.find(',', at), from.size());
            const size_t equals = from.find('=', at);
            if (equals > end) throw std::invalid_argument("a case is key=value,...: " + from);
            text[from.substr(at, equals - at)] = from.substr(equals + 1, end - equals - 1);
            at = end + 1;
        }
    }
    int number(const char* key, int otherwise) const {
        const auto found = text.find(key);
        return found == text.end() ? otherwise : std::atoi(found->second.c_str());
    }
    std::string word(const char* key) const {
        const auto found = text.find(key);
        return found == text.end() ? "" : found->second;
    }
};

// The operands: rows of a by task, iteration, block of the cluster and consumer; b by iteration.
struct operands {
    int tasks, iterations, blocks, consumers;
    device_memory<bf16> a, b;

    operands(int num_tasks, int num_iterations, int cluster_blocks, int num_consumers)
        : tasks(num_tasks),
          iterations(num_iterations),
          blocks(cluster_blocks),
          consumers(num_consumers),
          a(size_t(rows()) * 64),
          b(size_t(b_rows()) * 64) {
        for (size_t i = 0; i < a.size(); ++i) a[i] = bf16(float(int(i * 7 + i / 64 * 3) % 5 - 2));
        for (size_t i = 0; i < b.size(); ++i) b[i] = bf16(float(int(i * 5 + i / 64) % 3 - 1));
    }
    // At least one, for TMA.
    int rows() const { return std::max(1, tasks * iterations * blocks * consumers) * 64; }
    int b_rows() const { return std::max(1, iterations) * 64; }
    int result_rows() const { return std::max(1, tasks * blocks * consumers) * 64; }

    // Element (row, col) of a_i b_i^T, by the row of a.
    int product(int row, int iteration, int col) {
        int sum = 0;
        for (int k = 0; k < 64; ++k) {
            sum += int(float(a[size_t(row) * 64 + size_t(k)])) *
                   int(float(b[size_t(iteration * 64 + col) * 64 + size_t(k)]));
        }
        return sum;
    }
};

inline std::string wrong(const char* what, int row, int col, float got, float right) {
    return "wrong: " + std::string(what) + " (" + std::to_string(row) + ", " + std::to_string(col) +
           ") is " + std::to_string(got) + ", not " + std::to_string(right);
}

constexpr float untouched = -77.0f;

// A run of Template<K>; `launches` of them in turn, since a queue must be as it was.
template <class Template, class K, bool Maps>
std::string run(const settings& s) {
    constexpr bool least =
        std::is_same_v<K, least_sum> || std::is_same_v<K, least_map>;  // no result by tasks
    constexpr bool in_numbers = [] {  // the result goes out in fp32
        if constexpr (least) {
            return true;
        } else {
            return K::ordinary;
        }
    }();
    constexpr int consumers = K::num_consumer_warpgroups;
    const int cluster = s.number("cluster", 1), tasks = s.number("tasks", 5);
    const int iterations = s.number("iterations", 4);
    const bool some_empty = s.number("some_empty", 0) != 0;
    operands in(tasks, iterations, cluster, consumers);
    const float missing = std::numeric_limits<float>::quiet_NaN();
    device_memory<bf16> out(size_t(in.rows()) * 64, bf16(untouched));
    device_memory<bf16> result(size_t(in.result_rows()) * 64, bf16(untouched));
    device_memory<float> numbers(size_t(in.result_rows()) * 64, untouched);
    device_memory<int> queue(1, 0);
    // Tasks in reverse, and entries that are none at the end of some clusters' lists.
    device_memory<int> table(size_t(tasks) + 3, -1);
    for (int i = 0; i < tasks; ++i) table[size_t(i)] = tasks - 1 - i;
    const int missed_tasks = s.number("table_lacks", 0);
    for (int i = tasks - missed_tasks; i < tasks; ++i) table[size_t(i)] = tasks;

    typename K::globals g{};
    g.config.num_stages = s.number("stages", 2);
    g.config.num_tasks = tasks;
    g.config.cluster = {cluster, 1};
    if (s.number("queue", 0)) g.config.queue = queue.data();
    if (s.number("table", 0)) {
        g.config.table = table.data();
        g.config.table_length = tasks + (missed_tasks ? 0 : s.number("padding", 0));
    }
    if constexpr (Maps) g.config.num_output_stages = s.number("outputs", 2);
    g.iterations = iterations;
    if constexpr (std::is_same_v<decltype(g.a), gl_view<const bf16>>) {
        g.a = {in.a.data(), {in.rows(), 64}};
        g.b = {in.b.data(), {in.b_rows(), 64}};
    } else {
        g.a = make_gl<decltype(g.a)>(in.a.data(), gl_shape(in.rows(), 64),
                                     gl_strides(gl_shape(in.rows(), 64)));
        g.b = make_gl<decltype(g.b)>(in.b.data(), gl_shape(in.b_rows(), 64),
                                     gl_strides(gl_shape(in.b_rows(), 64)), cluster);
    }
    if constexpr (Maps)
        g.out = make_gl<decltype(g.out)>(out.data(), gl_shape(in.rows(), 64),
                                         gl_strides(gl_shape(in.rows(), 64)));
    if constexpr (!least) {
        g.result = make_gl<decltype(g.result)>(result.data(), gl_shape(in.result_rows(), 64),
                                               gl_strides(gl_shape(in.result_rows(), 64)));
        g.numbers = numbers.data();
        g.some_empty = some_empty;
    } else if constexpr (!Maps) {
        g.out = numbers.data();
    }

    for (int launch = 0; launch < s.number("launches", 1); ++launch) {
        launch_tasks<Template>(g, s.number("grid", 2 * cluster));
        checks::finish_kernels();
        if (queue[0] != 0) return "wrong: the queue is not 0 again";
        for (int task = 0; task < tasks; ++task) {
            const bool missed = task < missed_tasks;
            const bool empty = some_empty && task % 3 == 1;
            for (int r = 0; r < cluster * consumers * 64; ++r) {
                const int result_row = task * cluster * consumers * 64 + r;
                for (int col = 0; col < 64; ++col) {
                    int sum = 0;
                    for (int i = 0; i < iterations; ++i) {
                        const int row = (task * iterations + i) * cluster * consumers * 64 + r;
                        const int product = missed || empty ? 0 : in.product(row, i, col);
                        sum += product;
                        if constexpr (Maps) {
                            bf16& at = out[size_t(row) * 64 + size_t(col)];
                            const float factor = least ? 1.0f : 2.0f;
                            const float right =
                                missed || empty ? untouched : factor * float(product);
                            const float got = float(at);
                            if (got != float(bf16(right))) {
                                return wrong("output", row, col, got, right);
                            }
                            if (!missed && !empty) at = bf16(missing);
                        }
                    }
                    const float right = missed ? untouched : float(sum);
                    if constexpr (least && Maps) {
                        continue;
                    } else if constexpr (in_numbers) {
                        const int place =
                            least ? task * 4096 + fragment_place(r, col) : result_row * 64 + col;
                        float& at = numbers[size_t(place)];
                        if (at != right) return wrong("result", result_row, col, at, right);
                        if (!missed) at = missing;
                    } else {
                        bf16& at = result[size_t(result_row) * 64 + size_t(col)];
                        const float got = float(at);
                        if (got != float(bf16(right))) {
                            return wrong("result", result_row, col, got, right);
                        }
                        if (!missed) at = bf16(missing);
                    }
                }
            }
        }
    }
    return "ok";
}

template <options Options, class Scheduler>
std::string run_sum(const settings& s) {
    using kernel = sum<Options, Scheduler>;
    return run<lcf<kernel>, kernel, false>(s);
}
template <options Options, class Scheduler>
std::string run_map(const settings& s) {
    using kernel = map<Options, Scheduler>;
    return run<lcsf<kernel>, kernel, true>(s);
}

using kernel_table = std::map<std::string, std::string (*)(const settings&)>;

// The instances, and what each is there for.
inline const kernel_table& kernels() {
    using any = static_or_queue_scheduler;
    static const kernel_table table = {
        {"least_sum", run<lcf<least_sum>, least_sum, false>},
        {"least_map", run<lcsf<least_map>, least_map, true>},
        // turns, the finish block, registers moved
        {"sum_turns",
         run_sum<options{.consumers = 2, .lead = 2, .finish_block = true, .moves_registers = true},
                 any>},
        // three consumers, scratch memory, a table
        {"sum_table", run_sum<options{.consumers = 3}, table_scheduler>},
        // a queue for clusters, with the finish block
        {"sum_cluster_queue", run_sum<options{.finish_block = true}, queue_scheduler<true>>},
        // a producer of four warps that hear of tasks, and the finish block
        {"sum_gather", run_sum<options{.consumers = 2, .finish_block = true, .producer_warps = 4},
                               queue_scheduler<false>>},
        // the finish block for ordinary loads and stores, larger than the ring
        {"sum_ordinary", run_sum<options{.finish_block = true, .ordinary = true}, any>},
        // one-shot
        {"sum_once", run_sum<options{.consumers = 2, .finish_block = true}, one_task_scheduler>},
        {"map_turns", run_map<options{.consumers = 2, .lead = 1, .finish_block = true}, any>},
        {"map_table", run_map<options{.consumers = 3, .finish_block = true}, table_scheduler>},
        {"map_cluster_queue", run_map<options{.consumers = 2}, queue_scheduler<true>>},
        {"map_once", run_map<options{}, one_task_scheduler>},
    };
    return table;
}

// The cases of every kernel: ring depths, tasks fewer than clusters, tasks of no iterations.
inline std::vector<std::string> cases() {
    std::vector<std::string> result;
    const auto add = [&](const std::string& kernel, const std::vector<std::string>& more) {
        for (const std::string& each : more) result.push_back("kernel=" + kernel + "," + each);
    };
    const std::string deepest = "stages=5,outputs=5,grid=4";
    const std::vector<std::string> depths = {
        "stages=1,outputs=1",
        "stages=2,outputs=1,tasks=3",
        "stages=3,outputs=4,tasks=6",
        "stages=4,outputs=2,iterations=1,tasks=7",
        deepest,
        "tasks=1,grid=4",
        "iterations=0,tasks=3",
    };
    const std::vector<std::string> clusters = {
        "cluster=2,stages=2,tasks=5",
        "cluster=2,stages=3,outputs=3,tasks=1,grid=4",
        "cluster=2,stages=4,outputs=1,tasks=7,iterations=1",
    };
    add("least_sum", depths), add("least_map", depths);
    add("least_sum", {"queue=1,tasks=7,launches=2"});
    add("least_map", {"queue=1,tasks=7,launches=2", "queue=1,tasks=7,stages=4,iterations=1"});
    for (const std::string kernel : {"sum_turns", "map_turns"}) {
        add(kernel, depths), add(kernel, clusters);
        add(kernel, {"some_empty=1,tasks=8", "some_empty=1,tasks=8,queue=1,stages=3,launches=2",
                     "queue=1,tasks=9,iterations=1,stages=4,grid=3",
                     "cluster=2,some_empty=1,tasks=8,stages=3"});
    }
    for (const std::string kernel : {"sum_table", "map_table"}) {
        for (const std::string& each : depths) {
            // Five stages each way are more than a block has memory for.
            if (each != deepest) add(kernel, {each + ",table=1"});
        }
        for (const std::string& each : clusters) add(kernel, {each + ",table=1"});
        add(kernel, {"table=1,stages=5,outputs=2", "table=1,padding=3,tasks=6",
                     "table=1,table_lacks=2,tasks=6", "table=1,table_lacks=2,tasks=6,cluster=2",
                     "table=1,some_empty=1,tasks=8,stages=3"});
    }
    for (const std::string kernel : {"sum_cluster_queue", "map_cluster_queue"}) {
        for (const std::string& each : depths) add(kernel, {each + ",queue=1"});
        for (const std::string& each : clusters) add(kernel, {each + ",queue=1,launches=2"});
        add(kernel, {"queue=1,cluster=2,some_empty=1,tasks=9,stages=3",
                     "queue=1,cluster=4,grid=8,tasks=5"});
    }
    add("sum_ordinary", depths), add("sum_ordinary", clusters);
    for (const std::string& each : depths) add("sum_gather", {each + ",queue=1"});
    add("sum_gather", {"queue=1,tasks=8,some_empty=1,stages=3"});
    for (const std::string kernel : {"sum_once", "map_once"}) {
        add(kernel, {"tasks=3,grid=3", "tasks=2,grid=4,cluster=2,stages=3,outputs=1",
                     "tasks=4,grid=4,some_empty=1", "tasks=1,grid=1,iterations=7,stages=3",
                     "tasks=0,grid=1", "tasks=0,grid=2,cluster=2"});
    }
    return result;
}

inline std::string verdict(const std::string& text) {
    try {
        const settings s(text);
        const auto found = kernels().find(s.word("kernel"));
        if (found == kernels().end()) return "error: no kernel " + s.word("kernel");
        return found->second(s);
    } catch (const std::exception& error) {
        return std::string("error: ") + error.what();
    }
}

// Runs the named cases, or all of a kernel ("all KERNEL"), or all: one line each.
inline int run_named(int count, char** arguments, int first) {
    std::vector<std::string> wanted(arguments + first, arguments + count);
    if (wanted.empty()) wanted = cases();
    if (wanted[0] == "all") {
        const std::string prefix = "kernel=" + wanted.at(1) + ",";
        wanted = cases();
        std::erase_if(wanted, [&](const std::string& each) { return !each.starts_with(prefix); });
    }
    int failures = 0;
    for (const std::string& each : wanted) {
        const std::string got = verdict(each);
        std::printf("%s: %s\n", each.c_str(), got.c_str());
        std::fflush(stdout);
        failures += got == "ok" ? 0 : 1;
    }
    return failures == 0 ? 0 : 1;
}

}  // namespace template_cases
