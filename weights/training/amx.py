"""The CPU's matrix unit, where a virtual machine hides it: import this before torch.

Some hypervisors pass AMX through and leave the two leaves of `cpuid` that describe its tiles empty. oneDNN then convolves with AVX-512
instead (8 times slower), and PyTorch's bf16 matrix product ends in an illegal instruction. amx.c fills the leaves in for this
process; elsewhere this module does nothing.
"""

import platform

from native import compiled


def enable():
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return
    library = compiled("amx.c", ("cc", "gcc"), "-O2")
    if library and library.needed() and library.enable() == 0:
        print("AMX: told oneDNN of the tiles that cpuid does not mention", flush=True)


enable()
