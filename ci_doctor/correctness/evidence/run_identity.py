# SPDX-License-Identifier: Apache-2.0
"""Acts on files: `run.json`, which says what a run is, so that another process does not go on with another one."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ci_doctor.correctness.evidence import former_keys
from ci_doctor.correctness.evidence.files import RUN, STARTS, is_ours
from ci_doctor.correctness.settings import Arm, ArmPlan, ExperimentPlan
from ci_doctor.environment.determinism_table import TABLE
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.services.check import start_order
from ci_doctor.system import clock
from ci_doctor.system.files.atomic import write_atomically
from ci_doctor.version import tool_version

SCHEMA = "ci-doctor/run/2"
Setting = str | int | float | bool | None
# Sixteen bits of a hash: enough to see a change, and too few to confirm a guess at a secret.
_MARK_DIGITS = 4


class RunIdentity(Struct, frozen=True, kw_only=True):
    """What makes two runs the same experiment.

    `requests` is their SHA-256. `hashes` holds, for a thing in words ("the command of the candidate"), a few digits of the
    hash of its value, which may hold a secret; `settings` are values by name, in clear.
    """

    requests: str
    hashes: Mapping[str, str]
    settings: Mapping[str, Setting]


class RunDescription(Struct, frozen=True, kw_only=True):
    """`run.json`; `started_at` is RFC 3339."""

    schema: Annotated[str, Meta(pattern=r"^ci-doctor/run/[12]$")] = SCHEMA
    version: str
    started_at: str
    identity: RunIdentity


def identify(
    plan: ExperimentPlan, more: Mapping[str, Setting] = MappingProxyType({})
) -> RunIdentity:
    """The identity of `plan`; `more` are further settings that change what its evidence means, as the commit. Pure.

    Neither the budget nor any timeout is in it: a run may go on under others.
    """
    asked = [[request.id, request.path, request.body] for request in plan.requests]
    marks = {
        what: mark
        for arm, made in plan.arms.items()
        for what, mark in _marks(arm, made, plan.environment)
    }
    settings: dict[str, Setting] = {
        "retries": plan.rules.retries,
        "alpha": plan.rules.alpha,
        "policy": plan.rules.policy.value,
        "least candidate starts": plan.rules.least_candidates,
        "passes": plan.passes,
        "concurrency": plan.concurrency,
        "caches": plan.caches.value,
        **more,
    }
    return RunIdentity(requests=digest(asked), hashes=marks, settings=settings)


def _marks(arm: Arm, made: ArmPlan, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield f"the services of the {arm}", _mark(made.names)
    yield f"the proof of the {arm}", _mark(msgspec.to_builtins(made.proof))
    yield f"the reset of the {arm}", _mark(made.reset)
    for name in start_order(made.specs, made.names):
        spec = made.specs[name]
        whose = f"the {arm}" if name == arm.value else f"the {arm}'s {name}"
        yield f"the command of {whose}", _mark(spec.words())
        yield f"the directory of {whose}", _mark(spec.cwd)
        # Of the environment that is merely inherited, only what is known to change answers.
        inherited = {row.name: environment[row.name] for row in TABLE if row.name in environment}
        for variable, value in sorted({**inherited, **spec.env}.items()):
            yield f"the variable {variable} of {whose}", _mark(value)


def _mark(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()[:_MARK_DIGITS]


def differences(before: RunIdentity, now: RunIdentity) -> tuple[str, ...]:
    """What differs between two runs, in words. Pure."""
    changed = ["the requests"] if before.requests != now.requests else []
    marks = {**before.hashes, **now.hashes}
    changed += [what for what in marks if before.hashes.get(what) != now.hashes.get(what)]
    names = {**before.settings, **now.settings}
    told = [
        f"{name} {_in_words(before.settings, name)} -> {_in_words(now.settings, name)}"
        for name in names
        if before.settings.get(name) != now.settings.get(name)
    ]
    return (*(f"{what} changed" for what in changed), *told)


def _in_words(settings: Mapping[str, Setting], name: str) -> str:
    value = settings.get(name)
    return (
        str(value)
        if isinstance(value, str)
        else json.dumps(value)
        if value is not None
        else "unset"
    )


def write_run(directory: Path, identity: RunIdentity) -> None:
    """Say in `run.json` what is run, before its first start. Raises UsageError, also where that file is somebody else's."""
    run = RunDescription(version=tool_version(), started_at=clock.timestamp(), identity=identity)
    for path in (directory / RUN, directory / STARTS):
        if path.exists() and not is_ours(path):
            raise UsageError(
                f"{path} is not a file that ci-doctor wrote",
                hint="choose another directory with --report-dir",
            )
    write_atomically(directory / RUN, json.dumps(msgspec.to_builtins(run)).encode("ascii") + b"\n")


def read_run(directory: Path) -> RunDescription:
    """What was run there. Raises UsageError where nothing says so."""
    path = directory / RUN
    try:
        value = former_keys.current(json.loads(path.read_bytes()), former_keys.RUN)
        if isinstance(value, dict):
            value["identity"] = former_keys.current(value.get("identity"), former_keys.RUN_IDENTITY)
        return msgspec.convert(value, RunDescription)
    except OSError as error:
        raise UsageError(
            f"no run to go on with in {directory}: {RUN}: {error.strerror}",
            hint="name the report directory of the run that was interrupted, or leave --resume out",
        ) from error
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a run of this ci-doctor: {error}", hint="leave --resume out"
        ) from error
