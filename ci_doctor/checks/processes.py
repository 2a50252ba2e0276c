# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: the processes of this machine as several checks look at them."""

import os
from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.checks.check import UndeterminedError
from ci_doctor.checks.context import CheckContext
from ci_doctor.render.formatting import duration
from ci_doctor.system.processes.process_table import Kin, parse_stat

# Characters of a command line; the rest is of no use to a reader, and may hold anything.
_SHOWN = 60
_READ_BYTES = 1 << 16
JOB_ID = "BUILDKITE_JOB_ID"


class RunningProcess(Struct, frozen=True, kw_only=True):
    """One process. `words` is its command line, empty for a zombie and a thread of the kernel.

    `group` and `session` are the pids of the leaders of both (credentials(7)). `age_s` is seconds
    since its start.
    """

    kin: Kin
    group: int
    session: int
    uid: int
    words: tuple[str, ...]
    age_s: float

    @property
    def pid(self) -> int:
        """Its number."""
        return self.kin.pid

    @property
    def command(self) -> str:
        """Its first words; its name if it has none.

        No word is cut in two: half of a secret is not recognised as one.
        """
        shown: list[str] = []
        for word in self.words:
            if shown and sum(map(len, shown)) + len(word) > _SHOWN:
                return " ".join([*shown, "…"])
            shown.append(word)
        return " ".join(shown).strip() or self.kin.name

    def describe(self) -> str:
        """`pid 42 of root, 3 h 10 min old: vllm serve`."""
        return (
            f"pid {self.pid} of {user_name(self.uid)}, {duration(self.age_s)} old: {self.command}"
        )


def read_processes(context: CheckContext) -> Mapping[int, RunningProcess]:
    """Every process that /proc shows, by pid. Raises UndeterminedError if it shows none.

    For CheckContext.shared.
    """
    uptime_s = float((context.proc / "uptime").read_text().split()[0])
    ticks = os.sysconf("SC_CLK_TCK")
    processes = {}
    for name in os.listdir(context.proc):  # noqa: PTH208 - thousands of Path objects
        process = _read(f"{context.proc}/{name}", uptime_s, ticks) if name.isdigit() else None
        if process is not None:
            processes[process.pid] = process
    if not processes:
        raise UndeterminedError(f"{context.proc} shows no process")
    return processes


def job_of(context: CheckContext, pid: int) -> str | None:
    """The Buildkite job of a process by its environment; None if it has none or we may not look."""
    mark = f"{JOB_ID}=".encode()
    try:
        with open(f"{context.proc}/{pid}/environ", "rb") as file:  # noqa: PTH123
            content = file.read(_READ_BYTES)
    except OSError:
        return None
    found = [entry for entry in content.split(b"\0") if entry.startswith(mark)]
    return (found[0][len(mark) :].decode(errors="replace") or None) if found else None


def user_name(uid: int) -> str:
    """The name of a user, or `uid 1234`."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _read(folder: str, uptime_s: float, ticks: int) -> RunningProcess | None:
    """None if it ends just now, or if /proc hides it."""
    try:
        # Plain reads: a GPU host has thousands of processes.
        with open(f"{folder}/stat", "rb") as file:  # noqa: PTH123
            stat = file.read(4096).decode(errors="replace")
        with open(f"{folder}/cmdline", "rb") as file:  # noqa: PTH123
            line = file.read(4096).decode(errors="replace")
        uid = os.stat(folder).st_uid  # noqa: PTH116
    except OSError:
        return None
    kin = parse_stat(stat)
    return RunningProcess(
        kin=kin,
        group=kin.group,
        session=kin.session,
        uid=uid,
        words=tuple(line.rstrip("\0").split("\0") if line else []),
        age_s=max(0.0, uptime_s - kin.started / ticks),
    )
