# SPDX-License-Identifier: Apache-2.0
"""Pure. The `[setup-env]` section: what a determinism profile sets, and what of it will be effective."""

import re
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from ci_doctor.environment import rules
from ci_doctor.environment.determinism_table import INTEGER, TABLE, VariableRow
from ci_doctor.model.facts.diagnose import DeterminismFact, SetVariable
from ci_doctor.model.outcome import Evidence, Finding, Rule, Severity
from ci_doctor.model.words import parse_duration

# No more can be known from outside the process: /proc/PID/environ does not show what it set itself.
AS_REQUESTED = "as requested, where the library reads it"


class Profile(StrEnum):
    """`default` sets what costs nothing; `strict` changes the product under test."""

    OFF = "off"
    DEFAULT = "default"
    STRICT = "strict"


class Determinism(Struct, frozen=True, kw_only=True):
    """What a profile sets (`variables`), each variable of the job, and what is wrong with them."""

    variables: tuple[SetVariable, ...] = ()
    requested: tuple[DeterminismFact, ...] = ()
    findings: tuple[Finding, ...] = ()


def decide(profile: Profile, environ: Mapping[str, str], ours: Mapping[str, str]) -> Determinism:
    """The profile over an environment. A value that is set, and not `ours`, is kept.

    `ours` are the values of an earlier run.
    """
    variables = tuple(
        SetVariable(name=row.name, value=value, why=f"{profile} profile: {row.effect}")
        for row in TABLE
        if (value := _profile_value(row, profile)) is not None
        and (row.name not in environ or row.name in ours)
    )
    by_us = {variable.name for variable in variables}
    after = {**environ, **{each.name: each.value for each in variables}}
    requested = [
        DeterminismFact(
            name=row.name,
            requested=after[row.name],
            set_by=f"{profile} profile" if row.name in by_us else "the environment",
            effective=effective(row, after),
        )
        for row in TABLE
        if row.name in after
    ]
    findings = [*problems(after, by_us)]
    for row in TABLE:
        # What an earlier run set under another profile: exports can set a variable, not remove it.
        if row.name in ours and _profile_value(row, profile) is None:
            summary = (
                f"{row.name} stays as an earlier run with another profile has set it; "
                f"{profile} would not set it"
            )
            findings.append(
                _finding(rules.LEFT_OVER, row, ours[row.name], summary, f"unset {row.name}")
            )
    if profile is Profile.STRICT:
        summary = (
            "the strict profile changes the product under test: "
            "what is compared is not the shipped configuration"
        )
        findings.append(rules.STRICT.finding(summary, remedy=rules.STRICT.remedy))
    return Determinism(variables=variables, requested=tuple(requested), findings=tuple(findings))


def _profile_value(row: VariableRow, profile: Profile) -> str | None:
    if profile is Profile.OFF:
        return None
    return row.strict if profile is Profile.STRICT else row.default


def effective(row: VariableRow, environ: Mapping[str, str]) -> str:
    """What is known from outside the process of a variable's effect in `environ`."""
    if row.no_effect:
        return f"no effect: {row.no_effect}"
    if not _is_allowed(row, environ[row.name]):
        return f"not a value that {row.library} accepts"
    if row.overwritten and _batch_invariant(environ):
        return f"overwritten: {row.overwritten}"
    return AS_REQUESTED


def _batch_invariant(environ: Mapping[str, str]) -> bool:
    """As vllm/envs.py reads it: `bool(int(value))`; with `true` vLLM does not start at all."""
    value = environ.get("VLLM_BATCH_INVARIANT", "0")
    return re.fullmatch(INTEGER, value) is not None and int(value) != 0


def _is_allowed(row: VariableRow, value: str) -> bool:
    return row.allowed is None or re.fullmatch(row.allowed, value) is not None


def problems(environ: Mapping[str, str], by_us: Collection[str]) -> Iterator[Finding]:
    """Contradictions and vain settings in `environ`; `by_us` are the variables we set ourselves."""
    is_replaced = _batch_invariant(environ)
    in_vain = [row for row in TABLE if row.name in by_us and row.overwritten and is_replaced]
    for row in TABLE:
        if row.name in environ and row not in in_vain:
            yield from _problem(row, environ)
    if in_vain:
        # One note for all that we set ourselves: nobody relied on these values.
        names = ", ".join(row.name for row in in_vain)
        yield rules.OVERWRITTEN.finding(
            severity=Severity.NOTE,
            summary=f"requested, but not effective in vLLM: {names}",
            evidence=tuple(
                Evidence(excerpt=f"{row.name}={environ[row.name]}: {row.overwritten}")
                for row in in_vain
            ),
        )
    for row in TABLE:
        known = row.contradiction
        if known is None or not _holds(row.name, known.value, environ):
            continue
        if known.beside is None or _holds(*known.beside, environ):
            yield _finding(rules.CONFLICT, row, environ[row.name], known.summary, known.remedy)


def _problem(row: VariableRow, environ: Mapping[str, str]) -> Iterator[Finding]:
    name = row.name
    value = environ[name]
    unset = f"unset {name}"
    if row.no_effect:
        summary = f"{name} does nothing: {row.no_effect}"
        yield _finding(rules.NO_EFFECT, row, value, summary, unset)
    elif not _is_allowed(row, value):
        summary = f"{name}={value} is not a value that {row.library} accepts"
        yield _finding(rules.INVALID_VALUE, row, value, summary, unset)
    elif row.overwritten and _batch_invariant(environ):
        summary = f"{name}={value} will not last: {row.overwritten}"
        yield _finding(rules.OVERWRITTEN, row, value, summary, None)


def _holds(name: str, pattern: str, environ: Mapping[str, str]) -> bool:
    return name in environ and re.fullmatch(pattern, environ[name]) is not None


def _finding(rule: Rule, row: VariableRow, value: str, summary: str, remedy: str | None) -> Finding:
    return rule.finding(
        summary,
        evidence=(
            Evidence(excerpt=f"{row.name}={value}"),
            Evidence(excerpt=f"source: {row.source} ({row.read_in})"),
        ),
        remedy=remedy,
    )


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[str, ...]:
    """The determinism variables that two environments hold different values for."""
    return tuple(row.name for row in TABLE if first.get(row.name) != second.get(row.name))


# --- the `[setup-env]` section ---


class Verify(StrEnum):
    """Whether a pin is proven by a build of the project's metadata."""

    # Where that is cheap, or where the version cannot be known otherwise.
    AUTO = "auto"
    # In every case; the build requirements are installed if need be.
    ALWAYS = "always"
    NEVER = "never"


class IfMissing(StrEnum):
    """What later commands of a job say if `setup-env` did not run for it."""

    OFF = "off"
    WARNING = "warning"
    ERROR = "error"


class SetupEnvSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to prepare. Paths are relative to the file naming them, or to the working directory."""

    projects: tuple[str, ...] = (".",)
    pythons: tuple[str, ...] = ()
    venvs: tuple[str, ...] = ()
    determinism: Profile = Profile.DEFAULT
    preload: tuple[str, ...] = ()
    allow_fallback: bool = False
    if_missing: IfMissing = IfMissing.WARNING
    verify: Verify = Verify.AUTO
    verify_timeout: str | int | float = "120s"

    @property
    def verify_timeout_s(self) -> float:
        """The time for all builds of one project, in seconds. Raises UsageError."""
        return parse_duration(self.verify_timeout)
