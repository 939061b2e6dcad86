// The words of the calling thread's last error, which all families of a library share.
#pragma once
#include <exception>
#include <string>

#include "tk/arch/select.hpp"

TK_NAMESPACE_BEGIN

inline thread_local std::string last_error;

// A function of the C interface: what f returns, or `failure` with the words of what it threw.
template <class F, class R>
R or_failure(R failure, F&& f) {
    try {
        return f();
    } catch (const std::exception& error) {
        last_error = error.what();
        return failure;
    }
}

TK_NAMESPACE_END
