# SPDX-License-Identifier: Apache-2.0
"""Reads kernel settings (sysctl) that a job with large models or many files depends on."""

import re

from ci_doctor.checks.check import CheckResult, DoctorCheck, Problem, UndeterminedError, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.machine.kernel_files import number_of, numbers_of, text_of
from ci_doctor.checks.machine.rules import KERNEL_SETTING_LOW, PTRACE_FORBIDDEN, STRICT_OVERCOMMIT
from ci_doctor.model.finding import Evidence, Severity, ShellCommand
from ci_doctor.render.formatting import size

# name, its default (Linux sysctl/vm.rst, fs.rst), what needs it
_DEFAULTS = (
    ("vm.max_map_count", 65530, "each mapped file and each segment of memory takes one"),
    ("fs.inotify.max_user_instances", 128, "each watcher of files takes one"),
    ("fs.inotify.max_user_watches", 8192, "each watched directory takes one"),
)
_SETTINGS = (
    "vm.overcommit_memory",
    "vm.swappiness",
    "kernel.yama.ptrace_scope",
    "kernel.numa_balancing",
    "kernel.pid_max",
)
_CHOSEN = re.compile(r"\[(\w+)\]")


def _run(context: CheckContext) -> CheckResult:
    names = (*_SETTINGS, *(name for name, _, _ in _DEFAULTS))
    figures: dict[str, int | str] = {}
    for name in names:
        value = _setting(context, name)
        if value is not None:
            figures[name] = value
    if not figures:
        raise UndeterminedError(f"no setting can be read from {context.proc}/sys")
    huge_pages = _huge_pages(context)
    if huge_pages is not None:
        figures["transparent_hugepage"] = huge_pages
    problems = _too_low(context)
    for judge in (_overcommit, _ptrace):
        judged = judge(context)
        if judged is not None:
            problems.append(judged)
    summary = f"{len(figures)} settings of the kernel are known"
    if not problems:
        summary = f"none of {len(figures)} settings of the kernel stands in the way"
    return CheckResult(summary=summary, problems=tuple(problems), figures=figures)


def _setting(context: CheckContext, name: str) -> int | None:
    return number_of(context.proc.joinpath("sys", *name.split(".")))


def _huge_pages(context: CheckContext) -> str | None:
    """`always`, `madvise` or `never`: the chosen word stands in brackets."""
    text = text_of(context.sys / "kernel" / "mm" / "transparent_hugepage" / "enabled")
    match = _CHOSEN.search(text or "")
    return match[1] if match else None


def _too_low(context: CheckContext) -> list[Problem]:
    problems = []
    for name, default, reason in _DEFAULTS:
        value = _setting(context, name)
        if value is not None and value < default:
            summary = f"{name} is {value}, below its default of {default}: {reason}"
            remedy = ShellCommand(f"sysctl {name}={default}")
            place = context.proc.joinpath("sys", *name.split("."))
            evidence = (Evidence(file=str(place), excerpt=str(value)),)
            problems.append(problem(KERNEL_SETTING_LOW, summary, remedy=remedy, evidence=evidence))
    return problems


def _overcommit(context: CheckContext) -> Problem | None:
    if _setting(context, "vm.overcommit_memory") != 2:
        return None
    memory = numbers_of(context.proc / "meminfo")
    summary = "vm.overcommit_memory is 2"
    if "CommitLimit" in memory and "Committed_AS" in memory:
        left = max(0, memory["CommitLimit"] - memory["Committed_AS"]) * 1024
        summary += f", and {size(left)} more may be reserved"
    remedy = ShellCommand("sysctl vm.overcommit_memory=0")
    return problem(STRICT_OVERCOMMIT, summary, remedy=remedy)


def _ptrace(context: CheckContext) -> Problem | None:
    scope = _setting(context, "kernel.yama.ptrace_scope")
    if scope is None or scope < 2:
        return None
    summary = f"kernel.yama.ptrace_scope is {scope}: py-spy and gdb cannot look into a process"
    return problem(PTRACE_FORBIDDEN, summary, severity=Severity.NOTE)


CHECK = DoctorCheck(
    id="machine/kernel-settings",
    title="kernel settings (sysctl)",
    run=_run,
)
