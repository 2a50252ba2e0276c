# SPDX-License-Identifier: Apache-2.0
"""What a start has left behind, as values. Pure."""

import shlex

from ci_doctor.model.service import LeftKind

_IPCRM = {
    LeftKind.SYSV_SHARED_MEMORY: "-m",
    LeftKind.SYSV_SEMAPHORES: "-s",
    LeftKind.SYSV_QUEUE: "-q",
}


def removal(kind: LeftKind, name: str) -> str | None:
    """The command that removes it; None if only its owner can."""
    if kind in _IPCRM:
        return f"ipcrm {_IPCRM[kind]} {name}"
    if kind is LeftKind.PORT:
        return f"ss -ltnp 'sport = :{name}'"
    if kind is LeftKind.TEMPORARY_DIRECTORY:
        return f"rm -r {shlex.quote(name)}"
    return f"rm {shlex.quote(name)}"
