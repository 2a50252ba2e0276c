# SPDX-License-Identifier: Apache-2.0
"""Reads how the kernel is set up and how busy it is, the clock, and the locale. No network."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.check import (
    CheckResult,
    Cost,
    Findings,
    Problem,
    UndeterminedError,
    check,
    problem,
)
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.limits import LARGEST_PROCESSES
from ci_doctor.machine.host import (
    chosen_word,
    codeset_of,
    content_of,
    effective_locale,
    kernel_parameter_file,
    named_locales,
    number_of,
    numbers_of,
    python_encoding,
)
from ci_doctor.model.finding import Evidence, Rule, Severity, ShellCommand
from ci_doctor.render.formatting import duration, number, percent, size

BUSY: Final = Rule(
    id="doctor/machine-busy",
    severity=Severity.NOTE,
    meaning="Other work takes the CPUs of this machine: what is timed here is slower than usual.",
    remedy="Do not compare timings made here with those of an idle machine.",
)
PRESSURE: Final = Rule(
    id="doctor/memory-pressure",
    severity=Severity.NOTE,
    meaning="Processes of this machine wait for memory (the kernel's pressure stall information): it "
    "swaps, or reads evicted pages again.",
    remedy="See what holds the memory, and end what is left over from earlier jobs.",
)
# Runnable processes for each CPU, over the last minute.
_BUSY = 2.0
# Percent of the last ten seconds in which some process waited for memory.
_PRESSURE = 10.0
_AVERAGE = re.compile(r"^some avg10=(\d+\.\d+)", re.MULTILINE)


@check("machine/load", title="how busy the machine is")
def load(context: CheckContext) -> Findings:
    """Slow is not broken: this is never an error."""
    words = content_of(context.proc / "loadavg").split()
    try:
        average = float(words[0])
    except (IndexError, ValueError) as error:
        raise UndeterminedError(f"{context.proc}/loadavg does not say how busy it is") from error
    # The load counts the whole machine, and so must the CPUs.
    cpus = os.cpu_count() or 1
    summary = f"a load of {number(average)} on {cpus} CPUs"
    if average > _BUSY * cpus:
        yield problem(BUSY, summary)
    figures: dict[str, float] = {"load": average, "cpus": cpus}
    for name in ("cpu", "memory", "io"):
        # Percent of the last ten seconds in which some process stood still (Linux psi.rst).
        match = _AVERAGE.search(content_of(context.proc / "pressure" / name))
        if match is not None:
            figures[f"{name}_pressure"] = float(match[1])
    memory = figures.get("memory_pressure", 0.0)
    if memory > _PRESSURE:
        yield problem(
            PRESSURE,
            f"processes waited for memory in {percent(memory / 100)} of the last ten seconds",
            remedy=LARGEST_PROCESSES,
        )
    return CheckResult(summary=summary, figures=figures)


CLOCK_BEHIND: Final = Rule(
    id="doctor/clock-behind",
    severity=Severity.ERROR,
    meaning="The clock is earlier than the commit that is checked out, or than the times of files: "
    "it is wrong here, or was wrong where they were made. Certificates may not be valid yet, and "
    "tools such as make skip files that look older than their products.",
    remedy="Set the clock: `timedatectl set-ntp true`, on the host if this is a container.",
)
CLOCK_INEXACT: Final = Rule(
    id="doctor/clock-inexact",
    severity=Severity.WARNING,
    meaning="The program that keeps the clock says that it is off by more than a second (the "
    "estimated error of adjtimex(2)). Times of this machine and of others cannot be compared.",
    remedy="See why: `chronyc tracking` or `timedatectl timesync-status`, on the host if this is a "
    "container.",
)
# The clock of the machine that made the commit may be a little fast.
_TOLERATED_S = 300.0
_WRONG_S = 3600.0
_ESTIMATED_S = 1.0
# linux/timex.h
_STA_UNSYNC = 0x0040
_COMMITTER = re.compile(r"^committer .* (\d+) [+-]\d{4}$", re.MULTILINE)
# git writes them by the clock of this machine.
_WRITTEN_BY_GIT = ("HEAD", "index", "FETCH_HEAD", "ORIG_HEAD")
_MOST_FILES = 500


class Dated(Struct, frozen=True, kw_only=True):
    """Something with a date: seconds since the epoch. `name` completes "the clock is behind …".

    `is_sure` is false if anybody may have chosen the date, as an archive does for its files.
    """

    name: str
    at: float
    is_sure: bool = True


@check("machine/clock", title="the clock", cost=Cost.PROGRAM)
def clock(context: CheckContext) -> Findings:
    now = time.time()
    error_s: float | None = None
    reasons = []
    sentence = "it is unknown whether the clock is synchronised"
    try:
        error_s = clock_error_s()
        sentence = "no program tells the kernel that it keeps the clock right"
        if error_s is not None:
            sentence = "the clock is synchronised"
    except UndeterminedError as error:
        reasons.append(str(error))
    dated = list(file_dates(context.cwd))
    try:
        dated += commit_dates(context)
    except UndeterminedError as error:
        reasons.append(str(error))
    yield from wrong_clock(error_s, dated, now)
    zone = time_zone(context)
    return CheckResult(
        summary=f"{sentence}, time zone {zone}",
        unknown="; ".join(reasons) or None,
        figures={"time_zone": zone, "compared": len(dated)},
    )


def clock_error_s() -> float | None:
    """What the keeper of the clock says it is off by at most, in seconds; None if no program keeps it.

    adjtimex(2), which changes nothing this way. Raises UndeterminedError if there is no answer.
    """
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    # Of struct timex: modes, offset, freq, maxerror, esterror, status. The kernel fills 208 bytes on
    # 64 bits; there is room for more. Zeros: `modes` 0 reads only.
    buffer = ctypes.create_string_buffer(512)
    if not hasattr(libc, "adjtimex") or libc.adjtimex(buffer) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise UndeterminedError(
            f"the kernel does not say whether its clock is synchronised: {reason}"
        )
    _, _, _, _, error, status = struct.unpack_from("@Illlli", buffer.raw)
    return None if status & _STA_UNSYNC else error / 1e6


def wrong_clock(error_s: float | None, dated: Sequence[Dated], now: float) -> Iterator[Problem]:
    """What is wrong with a clock that shows `now`, if `dated` lies in the past.

    `error_s` as clock_error_s. No problem if no program keeps the clock: a hypervisor may, without
    the kernel's knowledge.
    """
    if error_s is not None and error_s > _ESTIMATED_S:
        yield problem(CLOCK_INEXACT, f"the clock may be off by {duration(error_s)}")
    future = [one for one in dated if one.at - now > _TOLERATED_S]
    if not future:
        return
    latest = max(future, key=lambda one: (one.is_sure, one.at))
    behind_s = latest.at - now
    summary = f"the clock is {duration(behind_s)} behind {latest.name}"
    # With a keeper, the date is wrong rather than the clock: git takes any date for a commit.
    if error_s is not None:
        summary += ", and a program keeps the clock right"
    is_wrong = behind_s > _WRONG_S and latest.is_sure and error_s is None
    yield problem(CLOCK_BEHIND, summary, severity=Severity.ERROR if is_wrong else Severity.WARNING)


def file_dates(directory: Path) -> Iterator[Dated]:
    """The times of what git writes, and of at most 500 files in the directory."""
    git = git_directory(directory)
    places = [(git / name, True) for name in _WRITTEN_BY_GIT] if git is not None else []
    try:
        # Lazily: a directory may have a million files.
        with os.scandir(directory) as entries:
            places += [(Path(entry.path), False) for entry in islice(entries, _MOST_FILES)]
    except OSError:
        pass
    for path, is_sure in places:
        try:
            at = path.lstat().st_mtime
        except OSError:
            continue
        yield Dated(name=f"the time of {path}", at=at, is_sure=is_sure)


def commit_dates(context: CheckContext) -> list[Dated]:
    """The committer's date of HEAD; nothing outside a git checkout, and before the first commit.

    Raises UndeterminedError if git does not say it.
    """
    if git_directory(context.cwd) is None:
        return []
    # Reading one object starts no hook and no program, so another owner's checkout is safe to read.
    git = ("git", "-c", "safe.directory=*")
    try:
        match = _COMMITTER.search(context.run([*git, "cat-file", "commit", "HEAD"]).stdout)
        if match is not None:
            return [Dated(name="the commit that is checked out", at=float(match[1]))]
        # `git init`: the branch is there, and no reference by its name.
        branch = context.run([*git, "symbolic-ref", "--quiet", "HEAD"])
        known = context.run([*git, "show-ref", "--verify", "--quiet", branch.stdout.strip()])
    except OSError as error:
        raise UndeterminedError(f"git cannot be started: {error.strerror}") from error
    if (branch.exit_code, known.exit_code) == (0, 1):
        return []
    raise UndeterminedError("git does not say the date of the commit")


def git_directory(directory: Path) -> Path | None:
    """The `.git` directory of the checkout around `directory`; None if there is none.

    In a worktree `.git` is a file that names it (gitrepository-layout(5)).
    """
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            return place / git.read_text(errors="replace").removeprefix("gitdir:").strip()
    return None


def time_zone(context: CheckContext) -> str:
    """TZ, or the name of the file that /etc/localtime stands for."""
    named = context.environ.get("TZ")
    if named:
        return named
    try:
        target = os.readlink(context.root / "etc" / "localtime")  # noqa: PTH115
    except OSError:
        return time.tzname[0]
    return target.partition("/zoneinfo/")[2] or time.tzname[0]


LOCALE_MISSING: Final = Rule(
    id="doctor/locale-missing",
    severity=Severity.WARNING,
    meaning="A locale is named that is not installed. `locale.setlocale(LC_ALL, '')` raises then, "
    "and programs such as perl and bash warn at each start.",
    remedy="export LC_ALL=C.UTF-8",
)
LOCALE_NOT_UTF8: Final = Rule(
    id="doctor/locale-not-utf8",
    severity=Severity.WARNING,
    meaning="Python reads and writes text in another encoding than UTF-8 here, if a program does not "
    "name one. Prompts and answers with other characters fail, or change.",
    remedy="export LC_ALL=C.UTF-8",
)
# Always there; with them Python takes UTF-8 by itself (PEP 538, PEP 540).
_PLAIN = frozenset({"", "C", "POSIX"})


@check("machine/locale", title="locale and text encoding")
def locale(context: CheckContext) -> Findings:
    # Old systems lack C.UTF-8. Python takes UTF-8 in the locale C, too.
    has_plain = codeset_of("C.UTF-8") is not None
    remedy = ShellCommand(f"export LC_ALL={'C.UTF-8' if has_plain else 'C PYTHONUTF8=1'}")
    for variable, name in named_locales(context.environ).items():
        if name not in _PLAIN and codeset_of(name) is None:
            yield problem(
                LOCALE_MISSING,
                f"{variable} names the locale {name}, which is not installed",
                remedy=remedy,
            )
    name = effective_locale(context.environ)
    encoding = python_encoding(context.environ, None if name in _PLAIN else codeset_of(name))
    summary = f"the locale is {name or 'C (none is set)'}, and Python takes {encoding}"
    if encoding != "UTF-8":
        yield problem(LOCALE_NOT_UTF8, summary, remedy=remedy)
    return CheckResult(summary=summary, figures={"locale": name, "encoding": encoding})


STRICT_OVERCOMMIT: Final = Rule(
    id="doctor/strict-overcommit",
    severity=Severity.WARNING,
    meaning="The kernel counts reserved memory as used (vm.overcommit_memory is 2). CUDA and torch "
    "reserve far more than they use, and fail with memory free.",
    remedy="sysctl vm.overcommit_memory=0",
)
KERNEL_SETTING_LOW: Final = Rule(
    id="doctor/kernel-setting-low",
    severity=Severity.WARNING,
    meaning="A limit of the kernel is below its default, and a server with large models or many "
    "files reaches it.",
    remedy="Set it to its default on the host, as root: `sysctl NAME=VALUE`.",
)
PTRACE_FORBIDDEN: Final = Rule(
    id="doctor/ptrace-forbidden",
    severity=Severity.NOTE,
    meaning="No process may look into another one (kernel.yama.ptrace_scope): py-spy and gdb cannot "
    "say where a server hangs.",
    remedy="sysctl kernel.yama.ptrace_scope=1",
)
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
    *(name for name, _, _ in _DEFAULTS),
)


@check("machine/kernel-settings", title="kernel settings (sysctl)")
def kernel_settings(context: CheckContext) -> Findings:
    values = {name: number_of(kernel_parameter_file(name, context.root)) for name in _SETTINGS}
    settings = {name: value for name, value in values.items() if value is not None}
    if not settings:
        raise UndeterminedError(f"no setting can be read from {context.proc}/sys")
    figures: dict[str, int | str] = {**settings}
    pages = content_of(context.sys / "kernel" / "mm" / "transparent_hugepage" / "enabled")
    if pages:
        figures["transparent_hugepage"] = chosen_word(pages)
    summary = f"none of {len(figures)} settings of the kernel stands in the way"
    problems = list(_bad_settings(settings, context))
    yield from problems
    if problems:
        summary = f"{len(figures)} settings of the kernel are known"
    return CheckResult(summary=summary, figures=figures)


def _bad_settings(settings: dict[str, int], context: CheckContext) -> Iterator[Problem]:
    for name, default, reason in _DEFAULTS:
        value = settings.get(name, default)
        if value < default:
            file = str(kernel_parameter_file(name, context.root))
            yield problem(
                KERNEL_SETTING_LOW,
                f"{name} is {value}, below its default of {default}: {reason}",
                remedy=ShellCommand(f"sysctl {name}={default}"),
                evidence=(Evidence(file=file, excerpt=str(value)),),
            )
    if settings.get("vm.overcommit_memory") == 2:
        memory = numbers_of(context.proc / "meminfo")
        words = "vm.overcommit_memory is 2"
        if "CommitLimit" in memory and "Committed_AS" in memory:
            left = max(0, memory["CommitLimit"] - memory["Committed_AS"]) * 1024
            words += f", and {size(left)} more may be reserved"
        yield problem(
            STRICT_OVERCOMMIT, words, remedy=ShellCommand("sysctl vm.overcommit_memory=0")
        )
    scope = settings.get("kernel.yama.ptrace_scope", 0)
    if scope >= 2:
        yield problem(
            PTRACE_FORBIDDEN,
            f"kernel.yama.ptrace_scope is {scope}: py-spy and gdb cannot look into a process",
        )
