# SPDX-License-Identifier: Apache-2.0
"""Reads /proc: servers and workers of earlier jobs that still run."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.leftovers.held_things import held_things
from ci_doctor.checks.leftovers.rules import OTHER_JOB, STALE_PROCESSES
from ci_doctor.checks.leftovers.server_names import is_server
from ci_doctor.checks.leftovers.standing import AGENT, ProcessStanding, Surroundings, standing_of
from ci_doctor.checks.processes import JOB_ID, RunningProcess, job_of, read_processes
from ci_doctor.checks.settings import SERVING
from ci_doctor.model.finding import Evidence, ShellCommand

# A service of systemd and a container stand in groups of their own (systemd.unit(5), cgroups(7)).
# The service of an agent is where jobs leave things.
_MANAGED = re.compile(
    r"/(?!user@|buildkite)[^/\n]+\.service(?:/|$)|docker|kubepods|containerd|libpod|lxc",
    re.MULTILINE,
)
_SHOWN = 10


def _run(context: CheckContext) -> CheckResult:
    table = context.shared(read_processes)
    jobs = {pid: job_of(context, pid) for pid in table}
    around = _surroundings(context, table, jobs)
    by_standing: dict[ProcessStanding, list[RunningProcess]] = {}
    for pid, process in sorted(table.items()):
        if not process.words:
            continue
        # Of another job every process counts, otherwise those that look like a server.
        is_another = around.job is not None and jobs[pid] not in {None, around.job}
        if is_another or is_server(process.words):
            standing = standing_of(process, jobs[pid], around, table)
            by_standing.setdefault(standing, []).append(process)
    stale = by_standing.get(ProcessStanding.STALE, [])
    others = by_standing.get(ProcessStanding.OTHERS, [])
    problems: list[Problem] = []
    if stale:
        problems.append(_stale(context, stale, jobs))
    if others:
        summary = f"another job runs here: {others[0].describe()}"
        problems.append(problem(OTHER_JOB, summary, evidence=_evidence(context, others, jobs)))
    summary = f"{len(stale)} of earlier jobs among {len(table)} processes"
    unknown = by_standing.get(ProcessStanding.UNKNOWN, [])
    return CheckResult(
        summary=summary,
        problems=tuple(problems),
        unknown=_unknown(unknown) if unknown else None,
        evidence=_evidence(context, unknown, jobs) if unknown else (),
        figures={"stale": len(stale), "unknown": len(unknown)},
    )


def _unknown(processes: Sequence[RunningProcess]) -> str:
    first = processes[0].describe()
    if len(processes) == 1:
        return f"whether a running job owns {first}"
    return f"whether running jobs own {len(processes)} servers, the first is {first}"


def _surroundings(
    context: CheckContext, table: Mapping[int, RunningProcess], jobs: Mapping[int, str | None]
) -> Surroundings:
    agents = [pid for pid, process in table.items() if process.kin.name == AGENT]
    own_group = _group(context, os.getpid())

    def is_managed(pid: int) -> bool:
        group = _group(context, pid)
        return group != own_group and _MANAGED.search(group) is not None

    return Surroundings(
        pid=os.getpid(),
        job=context.environ.get(JOB_ID) or None,
        running_jobs=frozenset(job for pid in agents if (job := jobs[pid]) is not None),
        sees_agents=bool(agents),
        jobs=jobs,
        is_managed=is_managed,
    )


def _group(context: CheckContext, pid: int) -> str:
    """Its control groups as /proc shows them; empty if it does not."""
    try:
        return Path(f"{context.proc}/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _stale(
    context: CheckContext, stale: Sequence[RunningProcess], jobs: Mapping[int, str | None]
) -> Problem:
    words = ["kill", *(str(process.pid) for process in stale)]
    if any(process.uid != os.geteuid() for process in stale):
        words.insert(0, "sudo")
    first = stale[0].describe()
    summary = f"left by an earlier job: {first}"
    if len(stale) > 1:
        summary = f"{len(stale)} processes are left by earlier jobs, the first is {first}"
    return problem(
        STALE_PROCESSES,
        summary,
        evidence=_evidence(context, stale, jobs),
        remedy=ShellCommand(" ".join(words)),
    )


def _evidence(
    context: CheckContext, processes: Sequence[RunningProcess], jobs: Mapping[int, str | None]
) -> tuple[Evidence, ...]:
    lines = []
    for process in processes[:_SHOWN]:
        line = process.describe()
        job = jobs[process.pid]
        if job is not None:
            line += f", job {job}"
        things = held_things(context, process.pid)
        if things:
            line += f", holds {', '.join(things)}"
        lines.append(line)
    if len(processes) > _SHOWN:
        lines.append(f"and {len(processes) - _SHOWN} more")
    return (Evidence(excerpt="\n".join(lines)),)


CHECK = DoctorCheck(
    id="leftovers/processes",
    title="servers of earlier jobs that still run",
    needed_for=SERVING,
    run=_run,
)
