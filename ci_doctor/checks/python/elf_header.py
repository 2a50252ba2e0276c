# SPDX-License-Identifier: Apache-2.0
"""Reads the head of ELF files: for which processor a compiled module was built (elf(5))."""

from collections.abc import Mapping
from typing import Final

# e_machine, as uname(2) names the processor.
_MACHINES: Final[Mapping[int, str]] = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
_HEAD_BYTES = 20


def defect(path: str, machine: str) -> str | None:
    """Why a shared library does not load on `machine`, as a clause; None if its head is as it should be.

    Raises OSError.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - hundreds of files are read
        head = file.read(_HEAD_BYTES)
    if not head:
        return "it is empty"
    if head.startswith((b"INPUT", b"/* GNU ld", b"GROUP")):
        return None  # a script of the linker
    if not head.startswith(b"\x7fELF") or len(head) < _HEAD_BYTES:
        return "it is no shared library"
    order = "big" if head[5] == 2 else "little"
    built_for = _MACHINES.get(int.from_bytes(head[18:20], order))  # type: ignore[arg-type]
    if built_for is None or built_for == machine:
        return None
    return f"it was built for {built_for}, and this machine is {machine}"
