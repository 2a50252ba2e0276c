# SPDX-License-Identifier: Apache-2.0
"""Reads the head of ELF files: for which processor a compiled module was built (elf(5))."""

import os
from collections.abc import Mapping
from typing import Final, Literal

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
# The whole header of a 64-bit file.
_HEAD_BYTES = 64
_SHORTEST = 20
_CLASS_64 = 2


def defect(path: str, machine: str) -> str | None:
    """Why a shared library does not load on `machine`, as a clause; None if its head is as it should be.

    Raises OSError.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - hundreds of files are read
        head = file.read(_HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
    if not head:
        return "it is empty"
    if head.startswith((b"INPUT", b"/* GNU ld", b"GROUP")):
        return None  # a script of the linker
    if not head.startswith(b"\x7fELF") or len(head) < _SHORTEST:
        return "it is no shared library"
    order = "big" if head[5] == 2 else "little"
    built_for = _MACHINES.get(int.from_bytes(head[18:20], order))  # type: ignore[arg-type]
    if built_for is not None and built_for != machine:
        return f"it was built for {built_for}, and this machine is {machine}"
    if size < _end_of_sections(head):
        return "it is cut off: its end is missing"
    return None


def _end_of_sections(head: bytes) -> int:
    """Where the table of sections ends, in bytes: the last thing in a file that a linker writes.

    0 for a file without one, and for one of 32 bits.
    """
    if len(head) < _HEAD_BYTES or head[4] != _CLASS_64:
        return 0
    order: Literal["big", "little"] = "big" if head[5] == 2 else "little"
    offset = int.from_bytes(head[40:48], order)  # e_shoff
    size = int.from_bytes(head[58:60], order)  # e_shentsize
    count = int.from_bytes(head[60:62], order)  # e_shnum
    if offset == 0:
        return 0
    return offset + size * count
