// What the checks of a kernel on the host architecture share: cases in words, and a main program
// that runs them, or finds and drops the synchronisation that they pass.
//
//   PROGRAM CASE...          one line a case: "ok", "wrong ..." or "error ..."
//   PROGRAM sites CASE       one line for every synchronisation operation passed
//   PROGRAM drop SITE CASE   the case without the operations at that site
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "tk/tk.hpp"

// A case, "key=value,...".
struct problem {
    std::map<std::string, std::string> text;

    int number(const char* key, int otherwise) const {
        const auto found = text.find(key);
        return found == text.end() ? otherwise : std::atoi(found->second.c_str());
    }
    double real(const char* key, double otherwise) const {
        const auto found = text.find(key);
        return found == text.end() ? otherwise : std::atof(found->second.c_str());
    }
    std::string word(const char* key, const char* otherwise) const {
        const auto found = text.find(key);
        return found == text.end() ? otherwise : found->second;
    }
};

inline problem read_case(const std::string& text) {
    problem result;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const size_t equals = text.find('=', at);
        if (equals > end) throw std::invalid_argument("a case is key=value,...: " + text);
        result.text[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
        at = end + 1;
    }
    return result;
}

// `run` gives a case's line.
inline int run_cases(std::string (*run)(const problem&), int count, char** arguments) {
    if (count == 3 && std::strcmp(arguments[1], "sites") == 0) {
        tk::machine::sabotage::record();
        std::printf("%s\n", run(read_case(arguments[2])).c_str());
        for (const std::string& site : tk::machine::sabotage::sites()) {
            std::printf("%s\n", site.c_str());
        }
        return 0;
    }
    int first = 1;
    if (count == 4 && std::strcmp(arguments[1], "drop") == 0) {
        tk::machine::sabotage::drop(arguments[2]);
        first = 3;
    }
    for (int i = first; i < count; ++i) {
        std::printf("%s\n", run(read_case(arguments[i])).c_str());
        std::fflush(stdout);
    }
    return 0;
}
