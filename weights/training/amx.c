// Tells this process that the CPU's matrix unit, AMX, has tiles, where a virtual machine forgot to say so: amx.py has the reason.
// From its loading on, `cpuid` faults, and the handler answers it as the CPU does but for the two leaves that describe the tiles.

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_CPUID = 0x1012, TILES = 0x1d, PRODUCT = 0x1e };

static void answer(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    if (at[0] != 0x0f || at[1] != 0xa2) { // not cpuid: a fault as any other
        signal(signal_number, SIG_DFL);
        return;
    }
    unsigned leaf = r[REG_RAX], part = r[REG_RCX], a, b, c, d;
    syscall(SYS_arch_prctl, ARCH_CPUID, 1);
    __cpuid_count(leaf, part, a, b, c, d);
    syscall(SYS_arch_prctl, ARCH_CPUID, 0);
    if (leaf == TILES && part == 0) a = 1;                                       // palettes
    if (leaf == TILES && part == 1) a = 1024 << 16 | 8192, b = 8 << 16 | 64, c = 16; // 8 tiles of 16 rows of 64 bytes
    if (leaf == PRODUCT && part == 0) b = 64 << 8 | 16;                          // 16 rows times 64 bytes
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

// Whether the CPU has AMX for bf16 and says nothing of the tiles.
int needed(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1)) return 0;
    return !__get_cpuid_count(TILES, 0, &a, &b, &c, &d) || a == 0;
}

// 0, or -1 where the kernel or the CPU cannot.
int enable(void) {
    struct sigaction action = {0};
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, 0)) return -1;
    if (syscall(SYS_arch_prctl, ARCH_CPUID, 0)) {
        signal(SIGSEGV, SIG_DFL);
        return -1;
    }
    return 0;
}
