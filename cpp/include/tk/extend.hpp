// What a kernel needs to be called from Python by tk.load: tensors as they arrive, where to launch,
// and TK_EXPORT, which makes a C++ function callable. No torch and no pybind11: what crosses the
// border is a C function that takes an array of 64-bit words.
//
//     void scale(const tk::launch_target& target, tk::tensor<float, 2> out,
//                tk::tensor<const float, 2> x, double factor);
//     TK_EXPORT(scale, out, x, factor = 1.0)
//
// A tensor of const elements is read, any other is written. After the target come tensors, integers
// (int, int64_t), numbers (float, double) and bool, in any order.
#pragma once
#include <bit>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tk/tk.hpp"

TK_NAMESPACE_BEGIN

// Says that an argument does not fit: ValueError in Python, with the exported name before it.
inline void require(bool condition, const std::string& message) {
    if (!condition) throw std::invalid_argument(message);
}

// A tensor as it comes from Python: any sizes and strides (in elements), on the target's device.
template <class T, int Rank>
struct tensor {
    static_assert(Rank >= 0 && Rank <= 8, "tensor: the rank must be 0 to 8");
    using dtype = std::remove_const_t<T>;
    static constexpr int rank = Rank;

    T* data = nullptr;
    int64_t sizes[Rank == 0 ? 1 : Rank] = {};
    int64_t strides[Rank == 0 ? 1 : Rank] = {};
    const char* name = "";  // the argument's, for messages

    // An axis below 0 counts from the last.
    int64_t size(int axis) const { return sizes[axis < 0 ? axis + Rank : axis]; }
    int64_t stride(int axis) const { return strides[axis < 0 ? axis + Rank : axis]; }
    int64_t elements() const {
        int64_t product = 1;
        for (int axis = 0; axis < Rank; ++axis) product *= sizes[axis];
        return product;
    }
    // The tensor's name and sizes, for messages: "x (3, 4)".
    std::string text() const {
        std::string result = std::string(name) + " (";
        for (int axis = 0; axis < Rank; ++axis) {
            result += (axis == 0 ? "" : ", ") + std::to_string(sizes[axis]);
        }
        return result + ")";
    }
    // Sizes and strides as global tensors have them: (cols), (rows, cols), (depth, rows, cols) or
    // all four.
    gl_shape shape() const {
        static_assert(Rank >= 1 && Rank <= 4, "tensor: the rank must be 1 to 4");
        gl_shape result(1, size(-1));
        if constexpr (Rank >= 2) result.rows = size(-2);
        if constexpr (Rank >= 3) result.depth = size(-3);
        if constexpr (Rank == 4) result.batch = size(0);
        return result;
    }
    gl_strides steps() const {
        gl_strides result(0, 0, 0, stride(-1));
        if constexpr (Rank >= 2) result.row = stride(-2);
        if constexpr (Rank >= 3) result.depth = stride(-3);
        if constexpr (Rank == 4) result.batch = stride(0);
        return result;
    }
    // As what copies without TMA take.
    gl_view<T> view() const { return {data, shape(), steps()}; }
    // As what is read and written 8 columns at a time, as fp32; for bf16, fp16 and fp32.
    any_gl any() const;
};

// Whether TMA takes the tensor: its last axis is contiguous, and its address and the strides of its
// other axes are multiples of 16 bytes.
template <class T, int Rank>
bool fits_tma(const tensor<T, Rank>& t) {
    if (reinterpret_cast<uintptr_t>(t.data) % 16 != 0) return false;
    for (int axis = 0; axis + 1 < Rank; ++axis) {
        if (t.sizes[axis] != 1 && t.strides[axis] * int64_t(sizeof(T)) % 16 != 0) return false;
    }
    return Rank == 0 || t.size(-1) == 1 || t.stride(-1) == 1;
}

template <class T, int Rank>
any_gl tensor<T, Rank>::any() const {
    const gl_view<T> from = view();
    any_gl result;
    result.data = const_cast<dtype*>(from.data);
    result.tag = tag_of<dtype>;
    result.batch_stride = from.batch_stride, result.depth_stride = from.depth_stride;
    result.row_stride = from.row_stride, result.col_stride = from.col_stride;
    result.by_vectors = fits_tma(*this);
    return result;
}

// The global tensor of type G for TMA copies of the tiles that G lists: of a matrix, of a depth or
// of a batch of them. Raises ValueError in Python, naming the argument, for one that TMA does not
// take, or whose sizes are not what G says.
template <global_tensor G, class T, int Rank>
G make_gl(const tensor<T, Rank>& t) {
    using element_type = typename G::dtype;
    static_assert(std::is_same_v<std::remove_const_t<T>, std::remove_const_t<element_type>>,
                  "make_gl: the tensor and the global tensor must have one dtype");
    require(fits_tma(t), t.text() +
                             " cannot be copied by TMA; must be contiguous along its last axis, "
                             "with an address and strides that are multiples of 16 bytes");
    require(std::is_const_v<T> || t.size(-1) * int64_t(sizeof(T)) % 16 == 0,
            t.text() +
                " is written, and TMA writes 16 bytes at a time: its last axis must be a "
                "multiple of " +
                std::to_string(16 / sizeof(T)));
    try {
        // Only what is written is a target of TMA stores: a descriptor knows no const.
        return make_gl<G>(const_cast<element_type*>(t.data), t.shape(), t.steps());
    } catch (const refused_tensor& error) {
        throw std::invalid_argument(t.text() + ": " + error.what());
    }
}

// Where a call runs: the device (current, and 0 on the host) and the caller's stream on it.
struct launch_target {
    int device = 0;
    void* stream = nullptr;

    // Launches Kernel::run there; the config's own device and stream are not read.
    template <class Kernel>
    void launch(const typename Kernel::globals& g, launch_config config) const {
        config.device = device, config.stream = stream;
        tk::launch<Kernel>(g, config);
    }
    // Blocks that a persistent kernel with one block a multiprocessor starts for so many tasks.
    int grid(int64_t tasks) const {
        const int64_t most = multiprocessors(device);
        return int(tasks < 1 ? 1 : tasks < most ? tasks : most);
    }
};

// --- What TK_EXPORT makes of a function; tk/extension/library.py is the other side. ---

namespace extend {

inline constexpr int abi_version = 1;
enum status : int { ok = 0, failed = 1, wrong_argument = 2 };

template <class T>
constexpr const char* dtype_name() {
    if constexpr (std::is_same_v<T, bf16>) return "bfloat16";
    if constexpr (std::is_same_v<T, half>) return "float16";
    if constexpr (std::is_same_v<T, float>) return "float32";
    if constexpr (std::is_same_v<T, double>) return "float64";
    if constexpr (std::is_same_v<T, bool>) return "bool";
    if constexpr (std::is_same_v<T, uint8_t>) return "uint8";
    if constexpr (std::is_same_v<T, int8_t>) return "int8";
    if constexpr (std::is_same_v<T, int16_t>) return "int16";
    if constexpr (std::is_same_v<T, int32_t>) return "int32";
    if constexpr (std::is_same_v<T, int64_t>) return "int64";
    if constexpr (std::is_same_v<T, cutlass::float_e4m3_t>) return "float8_e4m3fn";
    if constexpr (std::is_same_v<T, cutlass::float_e5m2_t>) return "float8_e5m2";
    return nullptr;
}

// Takes the words of an argument; `reads` words are gone after it.
template <class T>
struct argument {
    static_assert(std::is_arithmetic_v<T>,
                  "TK_EXPORT: a parameter must be a tk::tensor, an integer, a number or a bool, by "
                  "value");
    static std::string kind() {
        if (std::is_same_v<T, bool>) return "bool";
        return std::is_integral_v<T> ? "int" : "float";
    }
    static T take(const int64_t*& words, std::string_view name) {
        const int64_t word = *words++;
        if constexpr (std::is_floating_point_v<T>) {
            const double number = std::bit_cast<double>(word);
            if (std::isfinite(number) && !std::isfinite(T(number))) {
                throw std::invalid_argument(std::string(name) + " is " + std::to_string(number) +
                                            ", a number beyond its C++ type, float");
            }
            return T(number);
        } else {
            if (int64_t(T(word)) != word || (std::is_unsigned_v<T> && word < 0)) {
                throw std::invalid_argument(
                    std::string(name) + " is " + std::to_string(word) +
                    ", an integer that does not fit its C++ type, of " +
                    std::to_string(sizeof(T) * 8) +
                    (std::is_signed_v<T> ? " bits" : " bits without a sign"));
            }
            return T(word);
        }
    }
};

template <class T, int Rank>
struct argument<tensor<T, Rank>> {
    static_assert(dtype_name<std::remove_const_t<T>>() != nullptr,
                  "TK_EXPORT: a tensor's elements must be of a type that torch has");
    static std::string kind() {
        return std::string("tensor ") + dtype_name<std::remove_const_t<T>>() + " " +
               std::to_string(Rank) + (std::is_const_v<T> ? " read" : " write");
    }
    static tensor<T, Rank> take(const int64_t*& words, std::string_view name) {
        tensor<T, Rank> result;
        result.data = reinterpret_cast<T*>(*words++);
        for (int axis = 0; axis < Rank; ++axis) result.sizes[axis] = *words++;
        for (int axis = 0; axis < Rank; ++axis) result.strides[axis] = *words++;
        result.name = name.data();
        return result;
    }
};

// The names in TK_EXPORT's text, "out, x, factor = 1.0": how many, and each without its default.
constexpr int count_names(std::string_view text) {
    if (text.empty()) return 0;
    int count = 1;
    for (const char c : text) count += c == ',';
    return count;
}
inline std::vector<std::string> split_names(std::string_view text) {
    std::vector<std::string> names;
    for (size_t from = 0; from < text.size();) {
        const size_t to = std::min(text.find(',', from), text.size());
        const std::string_view one = text.substr(from, to - from);
        const size_t first = one.find_first_not_of(' ');
        const size_t last = one.find_first_of(" =", first);
        names.emplace_back(one.substr(first, last - first));
        from = to + 1;
    }
    return names;
}

// Whether Python can call something by this name.
constexpr bool is_identifier(std::string_view text) {
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(c >= '0' && c <= '9')) return false;
    }
    return !text.empty();
}

// A function that Python can call: its signature in words, and how to call it.
struct exported {
    std::string signature;  // the name, TK_EXPORT's names, and a line for each argument
    std::vector<std::string> names;
    void (*call)(const exported&, const launch_target&, const int64_t* words);
};

// Of one library; the exported functions stand in the order of their sources.
inline std::vector<exported>& table() {
    static std::vector<exported> entries;
    return entries;
}
inline std::string& last_error() {
    static thread_local std::string text;
    return text;
}

template <class Function>
struct function_traits {
    static constexpr bool valid = false;
    static constexpr int arguments = 0;
};
template <class... Arguments>
struct function_traits<void (*)(const launch_target&, Arguments...)> {
    static constexpr bool valid = true;
    static constexpr int arguments = sizeof...(Arguments);

    template <auto Function>
    static void call(const exported& self, const launch_target& target, const int64_t* words) {
        call<Function>(self, target, words, std::index_sequence_for<Arguments...>{});
    }
    template <auto Function, size_t... Indices>
    static void call(const exported& self, const launch_target& target, const int64_t* words,
                     std::index_sequence<Indices...>) {
        // Braces: arguments are taken from left to right.
        std::tuple<std::remove_cvref_t<Arguments>...> values{
            argument<std::remove_cvref_t<Arguments>>::take(words, self.names[Indices])...};
        std::apply([&](auto&... each) { Function(target, each...); }, values);
    }
    static std::string kinds() {
        return (std::string() + ... + ("\n" + argument<std::remove_cvref_t<Arguments>>::kind()));
    }
};

struct registration {
    template <class Traits>
    registration(Traits, const char* name, const char* names,
                 void (*call)(const exported&, const launch_target&, const int64_t*)) {
        table().push_back(
            {std::string(name) + "\n" + names + Traits::kinds(), split_names(names), call});
    }
};

inline int call(int index, const int64_t* words, int device, void* stream) {
    const exported& function = table()[size_t(index)];
    try {
        device_scope current(device);
        function.call(function, launch_target{device, stream}, words);
        return ok;
    } catch (const std::invalid_argument& error) {
        last_error() = error.what();
        return wrong_argument;
    } catch (const std::exception& error) {
        last_error() = error.what();
    } catch (...) {
        last_error() = "an exception that is no std::exception";
    }
    return failed;
}

}  // namespace extend

TK_NAMESPACE_END

// The library's C interface: once in it, however many of its sources include this.
#define TK_EXTEND_C extern "C" __attribute__((weak, used, visibility("default")))
TK_EXTEND_C int tk_extension_abi_version() { return tk::extend::abi_version; }
TK_EXTEND_C const char* tk_extension_architecture() {
#if defined(TK_ARCH_SM90)
    return "sm90";
#else
    return "host";
#endif
}
TK_EXTEND_C int tk_extension_count() { return int(tk::extend::table().size()); }
TK_EXTEND_C const char* tk_extension_signature(int index) {
    return tk::extend::table()[size_t(index)].signature.c_str();
}
TK_EXTEND_C const char* tk_extension_last_error() { return tk::extend::last_error().c_str(); }
TK_EXTEND_C int tk_extension_call(int index, const int64_t* words, int device, void* stream) {
    return tk::extend::call(index, words, device, stream);
}
#undef TK_EXTEND_C

#define TK_EXTEND_JOIN_(a, b) a##b
#define TK_EXTEND_JOIN(a, b) TK_EXTEND_JOIN_(a, b)

// Makes `function` callable from Python as `name`. Several functions may have one name: the first
// whose tensors have the dtypes and ranks of the call is taken.
#define TK_EXPORT_AS(name, function, ...)                                                      \
    static_assert(::tk::extend::is_identifier(#name),                                          \
                  "TK_EXPORT(" #name                                                           \
                  "): Python cannot call this name; TK_EXPORT_AS gives another");              \
    static_assert(::tk::extend::function_traits<decltype(&function)>::valid,                   \
                  "TK_EXPORT(" #name                                                           \
                  "): the function must return void and take const tk::launch_target& first"); \
    static_assert(::tk::extend::count_names(#__VA_ARGS__) ==                                   \
                      ::tk::extend::function_traits<decltype(&function)>::arguments,           \
                  "TK_EXPORT(" #name                                                           \
                  "): needs a name for each of the function's parameters but "                 \
                  "the first, got: " #__VA_ARGS__);                                            \
    [[maybe_unused]] static const ::tk::extend::registration TK_EXTEND_JOIN(tk_registration_,  \
                                                                            __COUNTER__)(      \
        ::tk::extend::function_traits<decltype(&function)>{}, #name, #__VA_ARGS__,             \
        &::tk::extend::function_traits<decltype(&function)>::template call<&function>)

// Makes a function callable from Python under its own name; the names of its arguments follow, some
// perhaps with a default: TK_EXPORT(scale, out, x, factor = 1.0).
#define TK_EXPORT(function, ...) TK_EXPORT_AS(function, function __VA_OPT__(, ) __VA_ARGS__)
