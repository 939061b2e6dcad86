// What the families' bindings share: the table of their instances, and a call whose problem is
// checked once.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>

#include "library.hpp"

namespace tk::binding {

/// A dict for each of a library's instances: `to_dict(instance, index)`.
template <class Instance, class ToDict>
pybind11::list instance_table(const Library& library, int (*count)(), int (*get)(int, Instance*),
                              ToDict&& to_dict) {
    pybind11::list table;
    for (int index = 0; index < count(); ++index) {
        Instance instance{};
        if (get(index, &instance) != 0) throw std::runtime_error(library.last_error());
        table.append(to_dict(instance, index));
    }
    return table;
}

/// A problem whose plan, sizes and strides are fixed; only addresses change from call to call.
/// `run` is the family's function of the library, the sizes are those it asks for.
template <class Problem, class Pointers>
class PreparedCall {
  public:
    using Size = int64_t (*)(const Problem*);
    using Run = int (*)(const Problem*, const Pointers*);

    PreparedCall(const Library& library, const Problem& problem, Size workspace_bytes,
                 Size num_counters, Run run)
        : library_(library),
          problem_(problem),
          run_(run),
          workspace_bytes_(checked(workspace_bytes(&problem_))),
          num_counters_(checked(num_counters(&problem_))) {}

    int64_t workspace_bytes() const { return workspace_bytes_; }
    int64_t num_counters() const { return num_counters_; }

  protected:
    void run(const Pointers& pointers) const {
        int status;
        if (library_.computes_in_call()) {
            pybind11::gil_scoped_release others_may_run;
            status = run_(&problem_, &pointers);
        } else {
            status = run_(&problem_, &pointers);
        }
        if (status != 0) throw std::runtime_error(library_.last_error());
    }

  private:
    int64_t checked(int64_t size) const {
        if (size < 0) throw pybind11::value_error(library_.last_error());
        return size;
    }

    const Library& library_;  // kept alive by py::keep_alive
    Problem problem_;
    Run run_;
    int64_t workspace_bytes_;
    int64_t num_counters_;
};

}  // namespace tk::binding
