/* SPDX-License-Identifier: MIT
 *
 * cpu.c - the instruction-set level that this processor supports.
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process must request the tile registers once, before it starts threads (arch_prctl, ARCH_REQ_XCOMP_PERM, 18). */
static bool amx_granted(void)
{
#if defined(WEFT_EMULATE_AMX)
    return true;
#endif
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    bool tile = d & (1u << 24), bf16 = d & (1u << 22);
    return tile && bf16 && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static enum weft_isa detect(void)
{
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    if (v4 && amx_granted())
        return WEFT_ISA_AMX;
    return v4 ? WEFT_ISA_V4 : v3 ? WEFT_ISA_V3 : WEFT_ISA_BASE;
}
#else
static enum weft_isa detect(void) { return WEFT_ISA_BASE; }
#endif

static const char *const names[] = {"base", "v3", "v4", "amx"};

const char *weft_isa_name(enum weft_isa isa) { return names[isa]; }

enum weft_status weft_isa_check(void)
{
    const char *name = getenv("WEFT_ISA");
    bool known = !name || !*name;
    for (size_t i = 0; !known && i < sizeof names / sizeof *names; i++)
        known = strcmp(name, names[i]) == 0;
    return known ? WEFT_OK : FAIL(WEFT_INVALID, "WEFT_ISA=%s is not a level: use base, v3, v4 or amx", name);
}

static int choose(void)
{
    int isa = (int)detect();
    const char *name = getenv("WEFT_ISA");
    for (int i = 0; name && i < isa; i++)
        if (strcmp(name, names[i]) == 0)
            isa = i;
    return isa;
}

enum weft_isa weft_isa(void)
{
    static _Atomic int chosen = -1; /* set by the first caller; every caller would choose the same value */
    if (chosen < 0)
        chosen = choose();
    return (enum weft_isa)weft_max(WEFT_ISA_BASE, chosen - weft_isa_lowered());
}
