// What the emulated machine tells ThreadSanitizer, so that it sees the synchronisation that a
// kernel does and not the locks that this machine is built of: those, and what they guard, are
// hidden
// (`unseen`); each operation states the order that its counterpart in hardware gives (`publish`,
// `observe`).
#pragma once
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
}
// For arithmetic on a thread's own buffers.
#define TK_HOST_PRIVATE_DATA __attribute__((no_sanitize("thread")))
#else
#define TK_HOST_PRIVATE_DATA
#endif

TK_NAMESPACE_BEGIN

namespace machine {

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
#else
struct unseen {
    unseen() {}
    ~unseen() {}
    unseen(const unseen&) = delete;
    unseen& operator=(const unseen&) = delete;
};
inline void publish(const void*) {}
inline void observe(const void*) {}
#endif

}  // namespace machine

TK_NAMESPACE_END
