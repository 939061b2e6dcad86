// What every family's C interface shares: the version, dtypes, and the words of the last error.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TK_ABI_VERSION 5

enum tk_dtype { TK_BF16 = 0, TK_FP16 = 1, TK_FP32 = 2 };

int tk_abi_version(void);
// Of the calling thread, after a function of any family has said that it failed.
const char* tk_last_error(void);

#ifdef __cplusplus
}
#endif
