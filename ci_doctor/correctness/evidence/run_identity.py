# SPDX-License-Identifier: Apache-2.0
"""Reads `run.json`, which identifies a run, so that no process resumes another run."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ci_doctor.correctness.evidence.files import RUN
from ci_doctor.correctness.settings import Arm, ArmPlan, ExperimentPlan, Policy, Rules
from ci_doctor.environment.determinism_table import TABLE
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.load.requests import POST, Request
from ci_doctor.services.spec import start_order

SCHEMA = "ci-doctor/run/2"
Setting = str | int | float | bool | None
# The setting that holds the seed of the order.
SEED = "seed"
# How the order is drawn. A run with starts that were pulled forward cannot go on in this one.
_ORDER, _DRAWN = "order of the starts", "drawn in blocks, none pulled forward"
_ALPHA, _POLICY = "alpha", "policy"
_CANDIDATES, _BASELINES = "least candidate starts", "least baseline starts"
# Sixteen bits of a hash: enough to see a change, and too few to confirm a guess at a secret.
_HASH_DIGITS = 4


class RunIdentity(Struct, frozen=True, kw_only=True):
    """What makes two runs the same experiment.

    `requests` is their SHA-256. `hashes` maps a thing in words ("the command of the candidate") to
    a few digits of the hash of its value, because the value may hold a secret. `settings` are
    values by name, in clear.
    """

    requests: str
    hashes: Mapping[str, str]
    settings: Mapping[str, Setting]


class RunDescription(Struct, frozen=True, kw_only=True):
    """`run.json`; `started_at` is RFC 3339.

    `max_starts` are the limits of the run: the one that it was begun with, then each larger one
    under which it was resumed.
    """

    schema: Annotated[str, Meta(pattern=r"^ci-doctor/run/[12]$")] = SCHEMA
    version: str
    started_at: str
    identity: RunIdentity
    max_starts: tuple[int, ...] = ()


def identify(
    plan: ExperimentPlan, more: Mapping[str, Setting] = MappingProxyType({})
) -> RunIdentity:
    """The identity of `plan`. Pure.

    `more` are further settings that change what the evidence means, such as the commit. Neither the
    budget nor any timeout nor `max_starts` is part of it: a run may resume under others.
    """
    requests = [_identified(request) for request in plan.requests]
    hashes: dict[str, str] = {}
    for arm, arm_plan in plan.arms.items():
        hashes.update(_hashes(arm, arm_plan, plan.environment))
    settings: dict[str, Setting] = {
        "retries": plan.rules.retries,
        _ALPHA: plan.rules.alpha,
        _POLICY: plan.rules.policy.value,
        _CANDIDATES: plan.rules.least_candidates,
        _BASELINES: plan.rules.least_baselines,
        SEED: plan.rules.seed,
        _ORDER: _DRAWN,
        "passes": plan.passes,
        "concurrency": plan.concurrency,
        "caches": plan.caches.value,
        "compare": plan.comparison.level.value,
        "limit": str(plan.comparison.limit) if plan.comparison.limit else None,
        "control": plan.control,
        "evidence": plan.rules.evidence.value,
        # Only if there are any: the identity of a run without them stays the same.
        **({"devices": " ".join(plan.places)} if plan.places else {}),
        **more,
    }
    return RunIdentity(requests=digest(requests), hashes=hashes, settings=settings)


def drawn_in(run: RunDescription) -> Rules | None:
    """The rules by which the order of that run's starts was drawn; None if it was not. Pure.

    Raises msgspec.ValidationError if a setting has another type.
    """
    settings = run.identity.settings
    if (
        settings.get(_ORDER) != _DRAWN
        or settings.get(_POLICY) != Policy.CONTROL
        or not run.max_starts
    ):
        return None
    *earlier, most = run.max_starts
    values = {
        "alpha": settings.get(_ALPHA),
        "least_candidates": settings.get(_CANDIDATES),
        "least_baselines": settings.get(_BASELINES),
        "seed": settings.get(SEED),
        "max_starts": most,
        "earlier_max_starts": earlier,
    }
    return msgspec.convert(values, Rules)


def _identified(request: Request) -> list[object]:
    parts: list[object] = [request.id, request.path, request.body]
    # Only if it is another one: the identity of an earlier version's run stays the same.
    if request.method != POST:
        parts.append(request.method)
    return parts


def _hashes(arm: Arm, plan: ArmPlan, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield f"the services of the {arm}", _hash(plan.names)
    proof = msgspec.to_builtins(plan.proof)
    yield f"the proof of the {arm}", _hash(proof)
    yield f"the reset of the {arm}", _hash(plan.reset)
    inherited = _inherited(environment)
    for name in start_order(plan.specs, plan.names):
        spec = plan.specs[name]
        whose = f"the {arm}'s {name}"
        # An arm that is one command has a service of its own name.
        if name == arm.value:
            whose = f"the {arm}"
        yield f"the command of {whose}", _hash(spec.words())
        yield f"the directory of {whose}", _hash(spec.cwd)
        variables = {**inherited, **spec.env}
        for variable, value in sorted(variables.items()):
            yield f"the variable {variable} of {whose}", _hash(value)


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The inherited variables that are known to change answers; all others may differ."""
    inherited = {}
    for row in TABLE:
        value = environment.get(row.name)
        if value is not None:
            inherited[row.name] = value
    return inherited


def _hash(value: object) -> str:
    content = json.dumps(value).encode("ascii")
    digits = hashlib.sha256(content).hexdigest()
    return digits[:_HASH_DIGITS]


def differences(before: RunIdentity, now: RunIdentity) -> tuple[str, ...]:
    """What differs between two runs, a few words each. Pure."""
    return tuple(_differences(before, now))


def _differences(before: RunIdentity, now: RunIdentity) -> Iterator[str]:
    if before.requests != now.requests:
        yield "the requests changed"
    # The hashes themselves are not shown: a few digits tell a person nothing.
    for what in {**before.hashes, **now.hashes}:
        if before.hashes.get(what) != now.hashes.get(what):
            yield f"{what} changed"
    for name in {**before.settings, **now.settings}:
        old = before.settings.get(name)
        new = now.settings.get(name)
        if old != new:
            yield f"{name} {_in_words(old)} -> {_in_words(new)}"


def _in_words(value: Setting) -> str:
    if value is None:
        return "unset"
    if isinstance(value, str):
        return value
    # As JSON: `true` and not `True`, as the person wrote it in the configuration.
    return json.dumps(value)


def read_run(directory: Path) -> RunDescription:
    """The run in `directory`. Raises UsageError if nothing there describes one."""
    path = directory / RUN
    try:
        return msgspec.convert(json.loads(path.read_bytes()), RunDescription)
    except OSError as error:
        raise UsageError(
            f"no run to resume in {directory}: {RUN}: {error.strerror}",
            hint="name the report directory of the interrupted run, or leave --resume out",
        ) from error
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a run of this ci-doctor: {error}", hint="leave --resume out"
        ) from error
