// The block templates on the host architecture: the cases of template_cases.hpp, and the faults of
// a launch that are refused.
//
//   host_templates_check list                the names of the kernels
//   host_templates_check all KERNEL          its cases, a line each: "CASE: ok", "CASE: wrong ..."
//   host_templates_check CASE...             those cases
//   host_templates_check sites CASE          "ok", and the synchronisation operations passed
//   host_templates_check drop SITE CASE      the verdict without the operations at that site
#include <cstring>

#include "template_cases.hpp"

int main(int count, char** arguments) {
    using namespace template_cases;
    const auto is = [&](int i, const char* word) { return std::strcmp(arguments[i], word) == 0; };
    if (count == 2 && is(1, "list")) {
        for (const auto& [name, run] : kernels()) std::printf("%s\n", name.c_str());
        return 0;
    }
    if (count == 3 && is(1, "sites")) {
        tk::machine::sabotage::record();
        std::printf("%s\n", verdict(arguments[2]).c_str());
        for (const std::string& site : tk::machine::sabotage::sites()) {
            std::printf("%s\n", site.c_str());
        }
        return 0;
    }
    if (count == 4 && is(1, "drop")) {
        tk::machine::settings().watchdog_seconds = 3;
        tk::machine::sabotage::drop(arguments[2]);
        std::printf("%s\n", verdict(arguments[3]).c_str());
        return 0;
    }
    return run_named(count, arguments, 1);
}
