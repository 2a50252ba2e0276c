# SPDX-License-Identifier: Apache-2.0
"""Reads what a start of an entry point shows: it starts, it fails for a cause, or nothing."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.checks.all_checks import has_gpu
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points.ending import (
    frames,
    hanging_stack,
    lacks_package,
    read_ending,
)
from ci_doctor.checks.entry_points.probing import ProbedEntry
from ci_doctor.checks.entry_points.remedy import remedy_of
from ci_doctor.checks.entry_points.rules import ENTRY_POINT_FAILS, ENTRY_POINT_MISSING
from ci_doctor.checks.result import Fault, Problem, problem
from ci_doctor.diagnosis.log_end import LogEnd
from ci_doctor.model.cause import Cause
from ci_doctor.model.finding import Evidence
from ci_doctor.render.formatting import duration, size
from ci_doctor.system.processes.limited_runs import SeparateRun
from ci_doctor.system.processes.process import describe_exit
from ci_doctor.system.secrets.redaction import Redactor

# Without a GPU these say nothing of the packages: vLLM looks for its device while it is imported.
_WITHOUT_GPU: Final = frozenset({"gpu/device-not-inferred", "gpu/none-available"})
_LONGEST_LINE: Final = 300


class JudgedEntry(Struct, frozen=True, kw_only=True):
    """What is known of one entry point: a clause, and its problem or why it is unknown."""

    summary: str
    problem: Problem | None = None
    unknown: str | None = None
    evidence: tuple[Evidence, ...] = ()


def judge_entry(probed: ProbedEntry, context: CheckContext) -> JudgedEntry:
    """What `probed` shows. `context` says whether there is a GPU, and what the checkout is."""
    name = probed.entry.name
    run = probed.run
    if run is None:
        return _unknown(f"{name} was not started: {probed.not_started}")
    if run.exit_code is None:
        return _hanging(name, run)
    if run.exit_code == 0:
        memory = f", {size(run.peak_rss)} of memory" if run.peak_rss else ""
        return JudgedEntry(summary=f"{name} starts in {duration(run.duration_s)}{memory}")
    return _failed(probed, run, context)


def _failed(probed: ProbedEntry, run: SeparateRun, context: CheckContext) -> JudgedEntry:
    entry = probed.entry
    end = read_ending(run)
    cause = end.cause
    line = run.last_words
    remedy = None
    if cause is not None:
        line = cause.place.text
        remedy = remedy_of(entry, cause, context)
    # Before it is cut: a half of a secret would not be known as one.
    redactor = Redactor.from_environment(context.environ, entry.env)
    line = redactor.text(line.strip())[:_LONGEST_LINE]
    if cause is not None and cause.rule in _WITHOUT_GPU and not has_gpu(context):
        return _unknown(f"{entry.name} asks for a GPU, and this machine has none: {line}")
    package = (entry.module or "").partition(".")[0]
    if package and lacks_package(run, package):
        summary = f"{entry.python} has no package `{package}`"
        missing = problem(ENTRY_POINT_MISSING, summary, evidence=_excerpt(end))
        return JudgedEntry(summary=summary, problem=missing)
    summary = f"{entry.name} ends with {describe_exit(run.exit_code or 0)}: {line}"
    fault = _fault(run, cause, context)
    failure = problem(
        ENTRY_POINT_FAILS, summary, evidence=_excerpt(end), remedy=remedy, fault=fault
    )
    return JudgedEntry(summary=summary, problem=failure)


def _hanging(name: str, run: SeparateRun) -> JudgedEntry:
    stack = hanging_stack(run)
    place = f", it was in {stack[0]}" if stack else ""
    evidence = (Evidence(excerpt="\n".join(stack)),) if stack else ()
    reason = f"{name} had not ended after {duration(run.duration_s)}{place}"
    return JudgedEntry(summary=reason, unknown=reason, evidence=evidence)


def _excerpt(end: LogEnd) -> tuple[Evidence, ...]:
    if not end.excerpt.lines:
        return ()
    return (Evidence(excerpt="\n".join(end.excerpt.lines)),)


def _fault(run: SeparateRun, cause: Cause | None, context: CheckContext) -> Fault:
    """The repository's, if a frame of the error lies in the checkout or the error has no frame."""
    if cause is not None and cause.may_be_retried:
        return Fault.ENVIRONMENT
    places = frames(run)
    # Without a frame nothing shows that a package of the environment failed.
    if not places or any(_is_own(file, context.cwd) for file in places):
        return Fault.REPOSITORY
    return Fault.ENVIRONMENT


def _is_own(file: Path, checkout: Path) -> bool:
    # A virtual environment often lies in the checkout.
    if {"site-packages", "dist-packages"} & set(file.parts):
        return False
    if any((folder / "pyvenv.cfg").is_file() for folder in file.parents):
        return False
    return file.is_relative_to(checkout)


def _unknown(reason: str) -> JudgedEntry:
    return JudgedEntry(summary=reason, unknown=reason)
