# SPDX-License-Identifier: Apache-2.0
"""Pure. The instructions for which TorchInductor compiles CPU code, as its pick_vec_isa chooses.

From torch 2.13 _inductor/cpu_vec_isa.py and aten/src/ATen/cpu/Utils.cpp. torch also tries whether
the compiler can build the code and whether the kernel grants AMX; the compiler is a fact of its own.
"""

from collections.abc import Collection

_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
# Best first, each with the flags in /proc/cpuinfo that torch asks for.
_X86 = (
    ("avx512 avx512_vnni amx_tile", ("avx2", *_AVX512, "avx512_vnni", "amx_tile")),
    ("avx512 avx512_vnni", ("avx2", *_AVX512, "avx512_vnni")),
    ("avx512", ("avx2", *_AVX512)),
    ("avx2", ("avx2", "fma")),
)
# These change the options of the compiler, and no name.
_EXTRAS = {"avx512": ("avx512_bf16",), "amx_tile": ("amx_fp16",)}
NONE = "none"


class UnknownIsaError(Exception):
    """What torch would choose is uncertain; the text is the reason."""


def vector_isa(
    machine: str, flags: Collection[str], capability: str | None, sve_bytes: int | None = None
) -> str:
    """Such as `avx512 avx512_vnni amx_tile +avx512_bf16`, or `none`.

    machine: as uname -m. flags: of /proc/cpuinfo. capability: ATEN_CPU_CAPABILITY. sve_bytes: the
    length of an SVE register. Raises UnknownIsaError.
    """
    if not flags:
        raise UnknownIsaError("/proc/cpuinfo names no flags of the CPU")
    if machine == "x86_64":
        return _x86(flags, capability)
    if machine == "aarch64":
        return _arm(flags, capability, sve_bytes)
    raise UnknownIsaError(f"the choice on {machine} is not known")


def _x86(flags: Collection[str], capability: str | None) -> str:
    valid = [name for name, needs in _X86 if all(flag in flags for flag in needs)]
    if not valid or capability == "default":
        return NONE
    if capability in {"avx2", "avx512"}:
        # The first that contains the word: avx512 takes AMX too. Without one it is ignored.
        chosen = next((name for name in valid if capability in name), valid[0])
    else:
        chosen = valid[0]
    extras = [
        f"+{extra}" for part in chosen.split() for extra in _EXTRAS.get(part, ()) if extra in flags
    ]
    return " ".join([chosen, *extras])


def _arm(flags: Collection[str], capability: str | None, sve_bytes: int | None) -> str:
    if capability == "default":
        return NONE
    if "bf16" not in flags or not {"sve", "sve2"} & set(flags):
        return "asimd"
    if sve_bytes is None:
        raise UnknownIsaError("the length of an SVE register cannot be read")
    return f"sve {sve_bytes * 8} bits" + (" +sve2" if "sve2" in flags else "")
