// Leaving out one synchronisation operation, for tests that prove each of them is needed: every
// operation knows the line it was called from, and asks here whether to do nothing.
#pragma once
#include <atomic>
#include <mutex>
#include <set>
#include <source_location>
#include <string>

#include "tk/arch/host/sanitizer.hpp"

TK_NAMESPACE_BEGIN

namespace machine {

class sabotage {
  public:
    // A place in the source: "wait lcf.hpp:163 <function>". The function tells instances of a
    // template apart.
    static std::string site(const char* operation, const std::source_location& where) {
        std::string file = where.file_name();
        file = file.substr(file.find_last_of('/') + 1);
        return std::string(operation) + " " + file + ":" + std::to_string(where.line()) + " " +
               where.function_name();
    }

    // Whether the operation is to be left out. Records the site if sites are being recorded.
    static bool drops(const char* operation, const std::source_location& where) {
        if (!state().active.load(std::memory_order_relaxed)) return false;
        unseen hidden;
        const std::string here = site(operation, where);
        std::lock_guard lock(state().mutex);
        state().sites.insert(here);
        return here == state().dropped;
    }

    // Leaves out the operations at this site (as `site` writes it) from now on; "" for none.
    static void drop(const std::string& where) {
        std::lock_guard lock(state().mutex);
        state().dropped = where;
        state().sites.clear();
        state().active = !where.empty();
    }
    // Records the sites passed from now on.
    static void record() {
        std::lock_guard lock(state().mutex);
        state().sites.clear();
        state().active = true;
    }
    static std::set<std::string> sites() {
        std::lock_guard lock(state().mutex);
        return state().sites;
    }

  private:
    struct state_type {
        std::atomic<bool> active{false};
        std::mutex mutex;
        std::string dropped;
        std::set<std::string> sites;
    };
    static state_type& state() {
        static state_type instance;
        return instance;
    }
};

}  // namespace machine

TK_NAMESPACE_END
