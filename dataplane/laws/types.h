/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Integer types of the laws. They are the same in a BPF object (next to vmlinux.h), in plain C and
 * in C++. This header includes nothing.
 */
#ifndef SLUICE_LAWS_TYPES_H
#define SLUICE_LAWS_TYPES_H

typedef unsigned char sl_u8;
typedef unsigned int sl_u32;
typedef int sl_s32;
typedef unsigned long long sl_u64;
typedef long long sl_s64;

#ifdef __cplusplus
#define SL_STATIC_ASSERT(what, why) static_assert(what, why)
#else
#define SL_STATIC_ASSERT(what, why) _Static_assert(what, why)
#endif

SL_STATIC_ASSERT(sizeof(sl_u32) == 4, "sl_u32 has 32 bits");
SL_STATIC_ASSERT(sizeof(sl_u64) == 8, "sl_u64 has 64 bits");

/* Always inlined: BPF allows no call while a spin lock is held, and no law may cost a call. */
#define SL_LAW static inline __attribute__((always_inline, unused))

/*
 * A law of numbers alone that only the end of a window calls. In BPF it is a global function: the kernel verifies that
 * once, and not again after each way that leads to it.
 */
#ifdef __bpf__
#define SL_LAW_CALLED __attribute__((noinline))
#else
#define SL_LAW_CALLED SL_LAW
#endif

/*
 * Return `at` if it is below `limit`, otherwise 0. The verifier of BPF refuses an index without a
 * bound, and it cannot follow a product. The compiler can, and would remove the comparison. The
 * empty assembler statement hides from the compiler where `at` comes from.
 */
SL_LAW sl_u32 sl_index(sl_u32 at, sl_u32 limit)
{
	__asm__("" : "+r"(at));
	return at < limit ? at : 0;
}

#endif
