# SPDX-License-Identifier: Apache-2.0
"""Acts on files: the evidence in a report directory, and `run.json`: what a run is, so that no other is resumed."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ci_doctor.correctness.results import LOCALISE, SAMPLES
from ci_doctor.correctness.settings import Arm, ArmPlan, ExperimentPlan, Policy, Rules
from ci_doctor.decodable import decodable
from ci_doctor.environment.determinism_table import TABLE
from ci_doctor.errors import UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.services.spec import start_order
from ci_doctor.system import clock
from ci_doctor.system.files.access import write_atomically
from ci_doctor.system.secrets.redaction import Redactor, redact_files
from ci_doctor.version import tool_version

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

    schema: Annotated[str, Meta(pattern=f"^{SCHEMA}$")] = SCHEMA
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
    rules, limit = plan.rules, plan.comparison.limit
    hashes: dict[str, str] = {}
    for arm, arm_plan in plan.arms.items():
        hashes.update(_hashes(arm, arm_plan, plan.environment))
    settings: dict[str, Setting] = {
        "retries": rules.retries,
        _ALPHA: rules.alpha,
        _POLICY: rules.policy.value,
        _CANDIDATES: rules.least_candidates,
        _BASELINES: rules.least_baselines,
        SEED: rules.seed,
        _ORDER: _DRAWN,
        "passes": plan.passes,
        "concurrency": plan.concurrency,
        "caches": plan.caches.value,
        "compare": plan.comparison.level.value,
        "limit": str(limit) if limit else None,
        "control": plan.control,
        "evidence": rules.evidence.value,
        "devices": " ".join(plan.places),
        **more,
    }
    requests = [[each.id, each.path, each.body, each.method] for each in plan.requests]
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
    return msgspec.convert(values, decodable(Rules))


def _hashes(arm: Arm, plan: ArmPlan, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield f"the services of the {arm}", _hash(plan.names)
    proof = msgspec.to_builtins(plan.proof)
    yield f"the proof of the {arm}", _hash(proof)
    yield f"the reset of the {arm}", _hash(plan.reset)
    # The inherited variables that are known to change answers; all others may differ.
    inherited = {each.name: environment[each.name] for each in TABLE if each.name in environment}
    for name in start_order(plan.specs, plan.names):
        spec = plan.specs[name]
        # An arm that is one command has a service of its own name.
        whose = f"the {arm}" if name == arm.value else f"the {arm}'s {name}"
        yield f"the command of {whose}", _hash(spec.words())
        yield f"the directory of {whose}", _hash(spec.cwd)
        for variable, value in sorted({**inherited, **spec.env}.items()):
            yield f"the variable {variable} of {whose}", _hash(value)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()[:_HASH_DIGITS]


def differences(before: RunIdentity, now: RunIdentity) -> Iterator[str]:
    """What differs between two runs, a few words each. Pure."""
    if before.requests != now.requests:
        yield "the requests changed"
    # The hashes themselves are not shown: a few digits tell a person nothing.
    for what in {**before.hashes, **now.hashes}:
        if before.hashes.get(what) != now.hashes.get(what):
            yield f"{what} changed"
    for name in {**before.settings, **now.settings}:
        old, new = before.settings.get(name), now.settings.get(name)
        if old != new:
            yield f"{name} {_in_words(old)} -> {_in_words(new)}"


def _in_words(value: Setting) -> str:
    if value is None:
        return "unset"
    # As JSON: `true` and not `True`, as the person wrote it in the configuration.
    return value if isinstance(value, str) else json.dumps(value)


def read_run(directory: Path) -> RunDescription:
    """The run in `directory`. Raises UsageError if nothing there describes one."""
    path = directory / RUN
    try:
        return msgspec.convert(json.loads(path.read_bytes()), decodable(RunDescription))
    except OSError as error:
        raise UsageError(
            f"no run to resume in {directory}: {RUN}: {error.strerror}",
            hint="name the report directory of the interrupted run, or leave --resume out",
        ) from error
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a run of this ci-doctor: {error}", hint="leave --resume out"
        ) from error


def write_run(directory: Path, identity: RunIdentity, max_starts: tuple[int, ...] = ()) -> None:
    """Describe the run and its limit in `run.json`, before its first start.

    Raises UsageError, also if `run.json` or `starts.jsonl` belongs to somebody else.
    """
    for path in (directory / RUN, directory / STARTS):
        # Other tools write files of these names, and a directory of theirs is not ours to clear.
        if path.exists() and not is_ours(path):
            raise UsageError(
                f"{path} is not a file that ci-doctor wrote",
                hint="choose another directory with --report-dir",
            )
    run = RunDescription(
        version=tool_version(),
        started_at=clock.timestamp(),
        identity=identity,
        max_starts=max_starts,
    )
    _write(directory, run)


def write_limits(directory: Path, max_starts: tuple[int, ...]) -> None:
    """Note the limits under which the run in `directory` was made, and goes on. Raises UsageError."""
    run = read_run(directory)
    if run.max_starts != max_starts:
        _write(directory, msgspec.structs.replace(run, max_starts=max_starts))


def _write(directory: Path, run: RunDescription) -> None:
    content = json.dumps(msgspec.to_builtins(run)).encode("ascii")
    write_atomically(directory / RUN, content + b"\n")


# Short enough to type, and far more orders than a run can have.
_BYTES = 4


def with_order(rules: Rules, seed: int | None, resumed: Path | None) -> Rules:
    """`rules` with the seed of the order, and with the limits under which the run was begun.

    A run that is `resumed` in that directory keeps its seed: the order goes on. A new run without a
    `seed` gets one from the kernel, because the test uses that the order is chance. Raises
    UsageError if a resumed run had a larger `max_starts`.
    """
    run = None
    if resumed is not None:
        # Without one, whoever resumes this run gets the reason then.
        with contextlib.suppress(UsageError):
            run = read_run(resumed)
    if seed is None:
        kept = run.identity.settings.get(SEED) if run else None
        seed = kept if isinstance(kept, int) else int.from_bytes(os.urandom(_BYTES), "big")
    before = () if run is None else run.max_starts
    if before and max(before) > rules.max_starts:
        raise UsageError(
            f"max_starts {max(before)} -> {rules.max_starts}: a run is resumed with as many starts "
            "or more, because its looks are planned for all of them",
            hint=f"write --max-starts {max(before)} or more, or leave --resume out",
        )
    earlier = tuple(most for most in before if most != rules.max_starts)
    return replace(rules, seed=seed, earlier_max_starts=earlier)


# The name under which samples.jsonl is rewritten. Only a kill meanwhile leaves it behind.
PARTIAL = ".samples.jsonl.partial"
RUN = "run.json"
STARTS = "starts.jsonl"
PAGE = "report.html"
# The request of the smallest condition under which the arms still differ.
SMALLEST = "smallest-request.jsonl"
# How each of ours begins: other tools write files of these names too.
_BEGINNINGS = {
    RUN: re.compile(rb'\{"schema": "ci-doctor/run/'),
    STARTS: re.compile(rb'\{"schema": "ci-doctor/start/'),
    PAGE: re.compile(rb'(?s).*<meta name="?generator"? content="?ci-doctor'),
}
_BEGINNING_BYTES = 4096
# logs/A1/vllm-1.log
_LOG = re.compile(r"([AB][0-9]+|warm-up)/.+-[0-9]+\.log")


def clear(directory: Path) -> None:
    """Remove what an earlier run left, so that nobody takes it for the evidence of this one.

    Raises UsageError.
    """
    clear_localisation(directory)
    with _removing():
        for name in (SAMPLES, PARTIAL):
            (directory / name).unlink(missing_ok=True)
        for log in _logs(directory):
            log.unlink()
        # run.json last: without it nobody resumes from what is left after a kill.
        for name in (PAGE, STARTS, RUN):
            _unlink_ours(directory / name)


def clear_localisation(directory: Path) -> None:
    """Remove what localising a difference left in a report directory. Raises UsageError."""
    below = directory / LOCALISE
    # A link could lead to a directory of somebody else.
    if below.is_symlink():
        return
    with _removing():
        for name in (SAMPLES, SMALLEST):
            (below / name).unlink(missing_ok=True)
        for log in _logs(below):
            log.unlink()


def clear_unfinished(directory: Path, finished: Collection[str]) -> None:
    """Before a run resumes: remove its page, and the logs of all starts but `finished` ("A1").

    So no log holds lines of two starts, and none belongs to a start that never finished. Raises
    UsageError.
    """
    with _removing():
        _unlink_ours(directory / PAGE)
        for log in _logs(directory):
            if log.parent.name not in finished:
                log.unlink()


def is_ours(path: Path) -> bool:
    """Whether ci-doctor wrote this file, by its name and its beginning. Raises OSError.

    An empty file counts as ours: a kill before the first byte leaves one.
    """
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    return not beginning or _BEGINNINGS[path.name].match(beginning) is not None


def redact_logs(directory: Path, redactor: Redactor) -> tuple[str, ...]:
    """Remove secrets from every log. Returns a warning for each log that had to be removed."""
    return redact_files(_logs(directory), redactor)


@contextlib.contextmanager
def _removing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot remove what an earlier run left: {error}",
            hint="choose another directory with --report-dir",
        ) from error


def _unlink_ours(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if is_ours(path):
            path.unlink()


def _logs(directory: Path) -> Iterator[Path]:
    for log in sorted(directory.glob("logs/*/*.log")):
        name = f"{log.parent.name}/{log.name}"
        # A link could lead to a directory of somebody else.
        if _LOG.fullmatch(name) and not log.parent.is_symlink():
            yield log
