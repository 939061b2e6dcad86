// What the emulated machine tells the sanitizers. AddressSanitizer: where shared memory ends.
// ThreadSanitizer: the synchronisation that a kernel does, and not the locks that this machine is
// built of. Those, and what they guard, are hidden (`unseen`); each operation states the order that
// its counterpart in hardware gives (`publish`, `observe`).
#pragma once
#include <cstddef>
#include <cstring>

#include "tk/arch/select.hpp"

#if defined(__SANITIZE_THREAD__)
#define TK_HOST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TK_HOST_THREAD_SANITIZER 1
#endif
#endif

#if defined(TK_HOST_THREAD_SANITIZER)
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
// For arithmetic on a thread's own buffers.
#define TK_HOST_PRIVATE_DATA __attribute__((no_sanitize("thread")))
#else
#define TK_HOST_PRIVATE_DATA
#endif

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __asan_poison_memory_region(void const volatile* address, size_t bytes);
void __asan_unpoison_memory_region(void const volatile* address, size_t bytes);
}
#endif

TK_NAMESPACE_BEGIN

namespace machine {

// To AddressSanitizer: nobody may touch this memory, or anybody may again.
#if defined(__SANITIZE_ADDRESS__)
inline void forbid(const void* memory, size_t bytes) { __asan_poison_memory_region(memory, bytes); }
inline void allow(const void* memory, size_t bytes) {
    __asan_unpoison_memory_region(memory, bytes);
}
#else
inline void forbid(const void*, size_t) {}
inline void allow(const void*, size_t) {}
#endif

#if defined(TK_HOST_THREAD_SANITIZER)
struct unseen {
    unseen() {
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~unseen() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    }
    unseen(const unseen&) = delete;
    unseen& operator=(const unseen&) = delete;
};
// All that the caller did before is seen by whoever observes the same object later.
inline void publish(const void* object) { __tsan_release(const_cast<void*>(object)); }
inline void observe(const void* object) { __tsan_acquire(const_cast<void*>(object)); }
// The compiler expands memcpy and memset of a known size without telling TSan.
inline void note_read(const void* from, size_t bytes) {
    __tsan_read_range(const_cast<void*>(from), bytes);
}
inline void note_write(void* to, size_t bytes) { __tsan_write_range(to, bytes); }
#else
struct unseen {
    unseen() {}
    ~unseen() {}
    unseen(const unseen&) = delete;
    unseen& operator=(const unseen&) = delete;
};
inline void publish(const void*) {}
inline void observe(const void*) {}
inline void note_read(const void*, size_t) {}
inline void note_write(void*, size_t) {}
#endif

// For memory that warps share; 16 bytes and less may be copied as they are.
inline void copy_bytes(void* to, const void* from, size_t bytes) {
    note_read(from, bytes);
    note_write(to, bytes);
    std::memcpy(to, from, bytes);
}
// Every dtype's NaN.
inline void poison(void* to, size_t bytes) {
    note_write(to, bytes);
    std::memset(to, 0xff, bytes);
}

}  // namespace machine

TK_NAMESPACE_END
