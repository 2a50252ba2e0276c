# SPDX-License-Identifier: Apache-2.0
"""Decides what a determinism profile sets, and says what of it will be effective. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from ci_doctor.environment.determinism_table import BY_NAME, TABLE, Row
from ci_doctor.model.action import SetVariable
from ci_doctor.model.finding import Evidence, Finding, Severity

# No more can be known from outside the process: /proc/PID/environ does not show what it set itself.
AS_REQUESTED = "as requested, where the library reads it"


class Profile(StrEnum):
    """`default` sets what costs nothing; `strict` changes the product under test, and says so."""

    OFF = "off"
    DEFAULT = "default"
    STRICT = "strict"


class Requested(Struct, frozen=True, kw_only=True):
    """One variable as it will stand in the job: `value` is requested, `effective` what is known of its use."""

    name: str
    value: str
    set_by: str
    effective: str


class Determinism(Struct, frozen=True, kw_only=True):
    """What a profile sets (`variables`), how each will stand (`requested`), and what is wrong with it (`findings`)."""

    variables: tuple[SetVariable, ...] = ()
    requested: tuple[Requested, ...] = ()
    findings: tuple[Finding, ...] = ()


def decide(profile: Profile, environ: Mapping[str, str], ours: Mapping[str, str]) -> Determinism:
    """The profile over an environment. A value that is set, and not `ours` from an earlier run, is kept."""
    variables = tuple(
        SetVariable(name=row.name, value=value, why=f"{profile} profile: {row.effect}")
        for row in TABLE
        if (value := _profile_value(row, profile)) is not None
        and (row.name not in environ or row.name in ours)
    )
    after = {**environ, **{variable.name: variable.value for variable in variables}}
    by_us = {variable.name for variable in variables}
    requested = tuple(
        Requested(
            name=row.name,
            value=after[row.name],
            set_by=f"{profile} profile" if row.name in by_us else "the environment",
            effective=effective(row, after),
        )
        for row in TABLE
        if row.name in after
    )
    findings = (*problems(after, by_us), *_left_over(profile, ours), *_strict_note(profile))
    return Determinism(variables=variables, requested=requested, findings=findings)


def _profile_value(row: Row, profile: Profile) -> str | None:
    match profile:
        case Profile.OFF:
            return None
        case Profile.DEFAULT:
            return row.default
        case Profile.STRICT:
            return row.strict
        case _ as never:
            assert_never(never)


def effective(row: Row, environ: Mapping[str, str]) -> str:
    """What is known of a variable's effect in `environ`: never more than can be known from outside the process."""
    if row.no_effect:
        return f"no effect: {row.no_effect}"
    if row.overwritten and _batch_invariant(environ):
        return f"overwritten: {row.overwritten}"
    return AS_REQUESTED


def _batch_invariant(environ: Mapping[str, str]) -> bool:
    return environ.get("VLLM_BATCH_INVARIANT", "0") not in {"", "0"}


def problems(environ: Mapping[str, str], by_us: Collection[str]) -> Iterator[Finding]:
    """Conflicts and vain settings among the determinism variables of `environ`; `by_us` are those we set ourselves."""
    in_vain = []
    for row in TABLE:
        if row.name in by_us and row.overwritten and _batch_invariant(environ):
            in_vain.append(row)
        elif row.name in environ:
            yield from _problem(row, environ)
    if in_vain:
        yield _overwritten_by_vllm(in_vain, environ)
    yield from _conflicts(environ)


def _overwritten_by_vllm(rows: Sequence[Row], environ: Mapping[str, str]) -> Finding:
    """One note for all that we set ourselves: nobody relied on these values."""
    return Finding(
        rule="determinism/overwritten",
        severity=Severity.NOTE,
        summary=f"requested, but not effective in vLLM: {', '.join(row.name for row in rows)}",
        evidence=tuple(
            Evidence(excerpt=f"{row.name}={environ[row.name]}: {row.overwritten}") for row in rows
        ),
    )


def _problem(row: Row, environ: Mapping[str, str]) -> Iterator[Finding]:
    name, value = row.name, environ[row.name]
    if row.no_effect:
        yield _finding(
            "no-effect", name, value, f"{name} does nothing: {row.no_effect}", f"unset {name}"
        )
    elif row.allowed and not re.fullmatch(row.allowed, value):
        wrong = f"{name}={value} is not a value that {row.library} accepts"
        yield _finding("invalid-value", name, value, wrong, f"unset {name}")
    elif row.overwritten and _batch_invariant(environ):
        yield _finding(
            "overwritten", name, value, f"{name}={value} will not last: {row.overwritten}", None
        )


def _conflicts(environ: Mapping[str, str]) -> Iterator[Finding]:
    if environ.get("PYTHONHASHSEED") == "random":
        yield _finding(
            "conflict",
            "PYTHONHASHSEED",
            "random",
            "PYTHONHASHSEED=random makes hash(str) differ from process to process",
            "export PYTHONHASHSEED=0",
        )
    if (
        environ.get("VLLM_TRITON_FORCE_FIRST_CONFIG") == "1"
        and environ.get("TRITON_CACHE_AUTOTUNING") == "1"
    ):
        yield _finding(
            "conflict",
            "VLLM_TRITON_FORCE_FIRST_CONFIG",
            "1",
            "VLLM_TRITON_FORCE_FIRST_CONFIG and a kept autotune cache (TRITON_CACHE_AUTOTUNING=1) contradict each other",
            "unset TRITON_CACHE_AUTOTUNING",
        )
    if environ.get("TORCHINDUCTOR_DETERMINISTIC") == "1":
        yield _finding(
            "conflict",
            "TORCHINDUCTOR_DETERMINISTIC",
            "1",
            "TORCHINDUCTOR_DETERMINISTIC=1 has failed to compile with vLLM's default combo kernels (seen with torch 2.13)",
            "pass --compilation-config with benchmark_combo_kernel false, or unset TORCHINDUCTOR_DETERMINISTIC",
        )


def _left_over(profile: Profile, ours: Mapping[str, str]) -> Iterator[Finding]:
    """What an earlier run under another profile has set: exports can set a variable, not take it away."""
    for row in TABLE:
        if row.name in ours and _profile_value(row, profile) is None:
            summary = f"{row.name} stays as an earlier run with another profile has set it; {profile} would not set it"
            yield _finding("left-over", row.name, ours[row.name], summary, f"unset {row.name}")


def _strict_note(profile: Profile) -> tuple[Finding, ...]:
    if profile is not Profile.STRICT:
        return ()
    return (
        Finding(
            rule="determinism/strict",
            severity=Severity.NOTE,
            summary="the strict profile changes the product under test: it is not the shipped configuration that is compared",
            remedy="use --determinism default to test what is shipped",
        ),
    )


def _finding(what: str, name: str, value: str, summary: str, remedy: str | None) -> Finding:
    return Finding(
        rule=f"determinism/{what}",
        severity=Severity.WARNING,
        summary=summary,
        evidence=(
            Evidence(excerpt=f"{name}={value}"),
            Evidence(excerpt=f"source: {BY_NAME[name].source}"),
        ),
        remedy=remedy,
    )


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[str, ...]:
    """The determinism variables that two environments hold different values for."""
    return tuple(row.name for row in TABLE if first.get(row.name) != second.get(row.name))
