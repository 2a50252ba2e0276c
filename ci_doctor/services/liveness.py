# SPDX-License-Identifier: Apache-2.0
"""Reads /proc and the kernel's sockets: tells a service that hangs from one that is busy."""

import asyncio
import contextlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.facts.launch import NamedProcess
from ci_doctor.services.busy_timeout import aside
from ci_doctor.services.probe import ProbeContext, attempt
from ci_doctor.services.spec import Liveness
from ci_doctor.system import clock
from ci_doctor.system.processes.cpu_wait import CpuWaits
from ci_doctor.system.processes.limited_runs import run_limited
from ci_doctor.system.processes.listeners import served_bytes
from ci_doctor.system.processes.process_table import look_up

# A server that hangs takes a connection all the same, and may beat its heart: that costs less.
_BUSY = 0.01
_LEAST_BUSY_S = 0.02
# The end of a connection takes a place in TCP's sequence (RFC 9293), as a byte does.
_OF_CLOSE = 1
# Of a period: whoever waits so long for a CPU could not have answered, or could not have read the answer.
_STARVED = 0.25
# By how much a period and its attempt grow, at most, if ci-doctor itself gets no CPU.
_MOST_PATIENCE = 16


class Sample(Struct, frozen=True, kw_only=True):
    """What a service had done until `at` (monotonic seconds).

    `cpu_s` is by process, its waited-for children included. `log` is the size and the time of its log, `served` what
    was sent by each connection to its port, None if the kernel does not tell. `stopped` are the processes in
    state T (SIGSTOP).
    """

    at: float
    cpu_s: Mapping[int, float] = {}
    log: tuple[int, int] = (0, 0)
    served: Mapping[object, int] | None = None
    stopped: frozenset[int] = frozenset()


def take_sample(pids: Iterable[int], log: Path, port: int) -> Sample:
    """What these processes have done so far; what cannot be read is left out."""
    stamp = (0, 0)
    with contextlib.suppress(OSError):
        status = log.stat()
        stamp = (status.st_size, status.st_mtime_ns)
    served = None
    with contextlib.suppress(OSError):
        served = served_bytes(port)
    pids = tuple(pids)
    stopped = frozenset(pid for pid in pids if (kin := look_up(pid)) and kin.state == "T")
    return Sample(
        at=clock.now(), cpu_s=dict(_cpu_times(pids)), log=stamp, served=served, stopped=stopped
    )


def progress(before: Sample, now: Sample, waited_s: float) -> str | None:
    """What shows that a service was busy between two samples; None if nothing does. Pure.

    `waited_s` is the longest time for which one of its threads had no CPU. What waits for a process that is
    stopped may do so in a loop, and log that it does: then answers alone count.
    """
    earlier = before.served or {}
    if any(count > earlier.get(key, 0) + _OF_CLOSE for key, count in (now.served or {}).items()):
        return "it answered other requests"
    if before.stopped & now.stopped:
        return None
    length_s = now.at - before.at
    used_s = sum(
        max(0.0, seconds - before.cpu_s.get(pid, 0.0)) for pid, seconds in now.cpu_s.items()
    )
    if used_s >= max(_LEAST_BUSY_S, _BUSY * length_s):
        return f"it used {used_s:.2f} s of CPU"
    if _is_starved(waited_s, length_s):
        return f"it waited {waited_s:.2f} s for a CPU"
    if now.log != before.log:
        return "it wrote to its log"
    return None


def _is_starved(waited_s: float, length_s: float) -> bool:
    return waited_s >= max(_LEAST_BUSY_S, _STARVED * length_s)


def _cpu_times(pids: Iterable[int]) -> Iterator[tuple[int, float]]:
    # Here, because most launches have no liveness probe.
    import psutil

    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            own, children = times.user + times.system, times.children_user + times.children_system
            yield pid, own + children


class Hang(Struct, frozen=True, kw_only=True):
    """A service that hangs: `answer` is the last of `failures` in a row, in `length_s` seconds.

    `processes` are lines about what each of its processes does, `is_traffic_known` tells whether its connections
    could be seen. `stopped` are those that SIGSTOP holds.
    """

    answer: str
    failures: int
    length_s: float
    processes: tuple[str, ...]
    is_traffic_known: bool = True
    stopped: tuple[NamedProcess, ...] = ()


async def until_hung(liveness: Liveness, context: ProbeContext, log: Path, port: int) -> Hang:
    """Return once `context.pids` hang: no answer and no progress, period after period.

    A failed attempt counts at the end of its period, and only if nothing was done in all of that. If
    ci-doctor itself had no CPU, it may have missed the answer: the next period and its attempt are
    longer, until the service shows that it lives.
    """
    failed, patience = 0, 1
    began = clock.now()
    while True:
        before = take_sample(context.pids(), log, port)
        waits, own_waits = CpuWaits(context.pids), CpuWaits(lambda: (os.getpid(),))
        waited, own_waited = waits.now(), own_waits.now()
        answer = await attempt(liveness.probe, context, patience)
        await asyncio.sleep(max(0.0, before.at + patience * liveness.period_s - clock.now()))
        now = take_sample(context.pids(), log, port)
        if answer is None or progress(before, now, waits.since(waited)) is not None:
            failed, patience = 0, 1
            continue
        is_late = _is_starved(own_waits.since(own_waited), now.at - before.at)
        if is_late and patience < _MOST_PATIENCE:
            patience *= 2
            continue
        began = before.at if failed == 0 else began
        failed += 1
        if failed >= liveness.failures:
            pids = tuple(context.pids())
            return Hang(
                answer=f"{liveness.probe.describe()}: {answer}",
                failures=failed,
                length_s=clock.now() - began,
                # What goes over a unix socket is nowhere counted.
                is_traffic_known=now.served is not None
                and all(part.socket is None for part in liveness.probe.leaves()),
                stopped=_named(before.stopped & now.stopped),
                processes=await aside(partial(describe_processes, pids, context.environment)),
            )


def _named(pids: Iterable[int]) -> tuple[NamedProcess, ...]:
    kins = (look_up(pid) for pid in sorted(pids))
    return tuple(NamedProcess(pid=kin.pid, name=kin.name) for kin in kins if kin is not None)


_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in the kernel, not to be interrupted",
    "T": "stopped (SIGSTOP)",
    "t": "stopped by a debugger",
    "Z": "ended, and its parent has not waited for it",
}
_MOST_PROCESSES = 8
_MOST_FRAMES = 6
_STACKS_S = 5.0


def describe_processes(pids: Sequence[int], environment: Mapping[str, str]) -> tuple[str, ...]:
    """A line for each process: its state and where its threads wait; and stacks, where py-spy is."""
    return tuple(_descriptions(pids, environment))


def _descriptions(pids: Sequence[int], environment: Mapping[str, str]) -> Iterator[str]:
    for pid in pids[:_MOST_PROCESSES]:
        kin = look_up(pid)
        if kin is None:
            continue
        waits = Counter(_waits(pid))
        places = ", ".join(f"{count} in {place}" for place, count in waits.most_common(3))
        state = _STATES.get(kin.state, kin.state)
        where = f"; threads: {places}" if places else ""
        yield f"{kin.name} (pid {pid}) {state}{where}"
        yield from _stack(pid, environment)
    if len(pids) > _MOST_PROCESSES:
        yield f"and {len(pids) - _MOST_PROCESSES} more"


def _waits(pid: int) -> Iterator[str]:
    """Where in the kernel each thread waits (proc_pid_wchan(5))."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - only names are needed
            with contextlib.suppress(OSError):
                place = Path(f"/proc/{pid}/task/{thread}/wchan").read_text().strip()
                if place not in {"", "0"}:
                    yield place


def _stack(pid: int, environment: Mapping[str, str]) -> Iterator[str]:
    """The innermost calls of each Python thread; none without py-spy, or without its rights."""
    program = shutil.which("py-spy", path=environment.get("PATH"))
    if program is None:
        return
    words = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        run = run_limited(words, timeout_s=_STACKS_S, cwd=Path("/"), environ=environment)
    except OSError:
        return
    for part in re.split(r"\n(?=Thread )", run.stdout)[1:]:
        yield from (f"  {line}" for line in part.splitlines()[: _MOST_FRAMES + 1])
