// Threads for the warps of the emulated machine. A task never waits for another task to end before
// it starts: every task that is submitted has a thread of its own at once, kept for the next.
#pragma once
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

class thread_pool {
  public:
    // Never destroyed: idle threads may outlive everything static. A forked child has none of the
    // threads and starts with a pool of its own.
    static thread_pool& instance() {
        static const bool registered = [] {
            current() = new thread_pool;
            pthread_atfork(nullptr, nullptr, [] { current() = new thread_pool; });
            return true;
        }();
        (void)registered;
        return *current();
    }

    // All of them, or none and std::system_error where there can be no more threads.
    void submit(std::vector<std::function<void()>> tasks) {
        std::lock_guard lock(mutex_);
        for (; idle_ < tasks_.size() + tasks.size(); ++idle_) {
            std::thread([this] { work(); }).detach();
        }
        for (auto& task : tasks) tasks_.push_back(std::move(task));
        changed_.notify_all();
    }

  private:
    static thread_pool*& current() {
        static thread_pool* pool = nullptr;
        return pool;
    }

    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            const auto until = std::chrono::system_clock::now() + std::chrono::seconds(10);
            if (!changed_.wait_until(lock, until, [&] { return !tasks_.empty(); })) {
                --idle_;
                return;
            }
            std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            --idle_;
            lock.unlock();
            task();
            task = nullptr;
            lock.lock();
            ++idle_;
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    size_t idle_ = 0;  // threads without a task, those of tasks not yet taken included
};

}  // namespace machine

TK_NAMESPACE_END
