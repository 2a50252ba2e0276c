# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a wheel's tags fit an interpreter (PEP 425, 600, 656), and the endings of its modules."""

import re
from collections.abc import Sequence

from ci_doctor.checks.python.python_state import PythonState

# Such as `.cpython-310-x86_64-linux-gnu.so`.
_TAGGED = re.compile(r"\.(cpython|pypy)[-0-9a-z_]*\.so$")
_CPYTHON = re.compile(r"cp(\d)(\d+)(t?)")
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")


def misfit(tags: Sequence[str], state: PythonState) -> str | None:
    """Why none of `tags` fits, as a clause; None if one fits, or none can be judged."""
    reasons = []
    for tag in tags:
        parts = tag.split("-")
        if len(parts) != 3:
            return None
        python, abi, platform = parts
        reason = _of_python(python, abi, state) or _of_platform(platform, state)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0] if reasons else None


def _of_python(python: str, abi: str, state: PythonState) -> str | None:
    match = _CPYTHON.fullmatch(python)
    if match is None or state.implementation != "cpython":
        return None
    major, minor = (int(part) for part in state.version.split(".")[:2])
    wanted = (int(match[1]), int(match[2]))
    if wanted == (major, minor):
        return _of_threading(abi, state)
    # A stable interface serves later versions, and so does pure Python.
    if abi in {"abi3", "none"} and wanted <= (major, minor):
        return None
    return f"it was built for Python {wanted[0]}.{wanted[1]}"


def _of_threading(abi: str, state: PythonState) -> str | None:
    """An interpreter without the global lock has an interface of its own (PEP 703)."""
    match = _CPYTHON.fullmatch(abi)
    if match is None:
        return None
    is_free = any(f"cpython-{match[1]}{match[2]}t" in suffix for suffix in state.suffixes)
    if bool(match[3]) == is_free:
        return None
    return f"it was built for the interface {abi}"


def _of_platform(platform: str, state: PythonState) -> str | None:
    if platform == "any" or state.platform != "linux":
        return None
    if not platform.startswith(("linux_", "manylinux", "musllinux_")):
        return f"it was built for {platform}"
    if not platform.endswith(f"_{state.machine}"):
        return f"it was built for {platform}, and this machine is {state.machine}"
    if platform.startswith("musllinux_") and state.glibc:
        return f"it was built for musl, and this interpreter has {state.glibc}"
    if platform.startswith("manylinux") and not state.glibc:
        return "it was built for glibc, and this interpreter has another C library"
    return _of_glibc(platform, state)


def _of_glibc(platform: str, state: PythonState) -> str | None:
    match = _GLIBC.match(platform)
    numbers = state.glibc.rpartition(" ")[2].split(".")
    if match is None or len(numbers) < 2 or not all(part.isdigit() for part in numbers[:2]):
        return None
    needed = (int(match[1]), int(match[2]))
    if needed <= (int(numbers[0]), int(numbers[1])):
        return None
    return f"it needs glibc {needed[0]}.{needed[1]}, and this machine has {state.glibc}"


def misnamed(paths: Sequence[str], state: PythonState) -> list[str]:
    """Of extension modules those that this interpreter does not look for, and finds no other for."""
    served = set()
    strange = []
    for path in paths:
        match = _TAGGED.search(path)
        # `.abi3.so` and a bare `.so` have no such tag.
        if match is None:
            served.add(path.removesuffix(".so").removesuffix(".abi3"))
        elif match[0] in state.suffixes:
            served.add(path[: match.start()])
        else:
            strange.append((path[: match.start()], path))
    return [path for stem, path in strange if stem not in served]
