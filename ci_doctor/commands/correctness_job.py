# SPDX-License-Identifier: Apache-2.0
"""Everything about a run of `ci-doctor correctness` that is known before its first start."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ci_doctor.commands.invocation import Invocation
from ci_doctor.config.decoding import path_in
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import Config, load_config
from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.archive.use import Shelf, identity_of
from ci_doctor.correctness.estimate import assumed, earlier
from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.record import earlier_durations
from ci_doctor.correctness.evidence.runs import Identity, identify
from ci_doctor.correctness.pace import Pace
from ci_doctor.correctness.planning import (
    budget_of,
    determinism_findings,
    parse_arm_variables,
    plan,
    read_settings,
)
from ci_doctor.correctness.report.findings import Context
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.sampling import sampling_findings
from ci_doctor.correctness.settings import Arm, CorrectnessSettings, Plan
from ci_doctor.errors import UsageError
from ci_doctor.identity.identity import Identity as Machine
from ci_doctor.load.requests import read_requests
from ci_doctor.model.finding import Finding
from ci_doctor.model.size import parse_size
from ci_doctor.system.repository import checkout
from ci_doctor.system.secrets.redaction import Redactor


class Job(Struct, frozen=True, kw_only=True):
    """What is to be done. `identities` are what each arm's servers are, `notes` what a person should know."""

    plan: Plan
    settings: CorrectnessSettings
    identity: Identity
    context: Context
    pace: Pace
    noticed: tuple[Finding, ...]
    codes: dict[str, int]
    redactor: Redactor
    identities: Mapping[Arm, Machine]
    shelf: Shelf | None
    notes: tuple[str, ...]

    def archived(self, outputs: Outputs) -> tuple[StartResult, ...]:
        """The baseline starts of earlier builds that may stand beside those of today."""
        return self.shelf.results(outputs) if self.shelf else ()


def prepare(
    invocation: Invocation,
    directory: Path,
    *,
    config_path: Path | None,
    variables: tuple[str, ...],
    only: tuple[str, ...],
    **flags: Any,
) -> Job:
    """Find everything that is wrong before anything is started. Raises UsageError."""
    loaded = load_config(config_path, Path.cwd())
    commands = {arm: flags.pop(arm.value) for arm in Arm}
    settings, origins = read_settings(
        loaded, os.environ, flags, commands, parse_arm_variables(variables)
    )
    codes, _ = read_exit_codes(loaded, os.environ)
    file = _requests_file(settings, loaded, origins)
    requests = read_requests(file, only)
    budget, note = budget_of(settings, os.environ, invocation.started)
    planned = plan(
        settings,
        loaded,
        requests,
        budget=budget,
        directory=directory.absolute(),
        environment=os.environ,
    )
    secrets = (spec.env for arm in planned.arms.values() for spec in arm.specs.values())
    redactor = Redactor.from_environment(os.environ, *secrets)
    identities = {arm: identity_of(planned, arm, redactor, settings.archive_ignore) for arm in Arm}
    shelf = _shelf(settings, loaded, origins, planned, identities[Arm.BASELINE])
    here = checkout(Path.cwd())
    run = identify(planned, {"commit": here.commit if here else None})
    return Job(
        plan=planned,
        settings=settings,
        identity=run,
        context=Context(
            requests_file=os.path.relpath(file),
            requests=requests,
            one_request=_one_request(invocation),
            run=str(directory),
        ),
        pace=_pace(planned, run, shelf),
        noticed=(
            *sampling_findings(requests, file),
            *determinism_findings(planned),
            *(shelf.findings() if shelf else ()),
        ),
        codes=codes,
        redactor=redactor,
        identities=identities,
        shelf=shelf,
        notes=(*((note,) if note else ()), *(shelf.notes() if shelf else ())),
    )


def _shelf(
    settings: CorrectnessSettings,
    loaded: Config,
    origins: Mapping[str, str],
    planned: Plan,
    identity: Machine,
) -> Shelf | None:
    if settings.archive is None:
        return None
    directory = path_in(loaded, origins["archive"], settings.archive)
    try:
        limit = parse_size(settings.archive_limit)
    except ValueError as error:
        raise UsageError(f"archive_limit: {error}", hint='write archive_limit = "1GiB"') from error
    archive = Archive(directory, days=settings.archive_days, limit=limit)
    found = archive.find(identity, [request.id for request in planned.requests], planned.passes)
    return Shelf(archive=archive, identity=identity, found=found, write=settings.archive_write)


def _pace(planned: Plan, identity: Identity, shelf: Shelf | None) -> Pace:
    prior = earlier(earlier_durations(planned.directory, identity))
    return Pace(
        prior=prior or assumed(len(planned.requests), planned.passes, planned.concurrency),
        rules=planned.rules,
        archived=len(shelf.found.starts) if shelf else 0,
        deadline=planned.deadline,
    )


def _requests_file(
    settings: CorrectnessSettings, loaded: Config, origins: Mapping[str, str]
) -> Path:
    if settings.requests is None:
        raise UsageError(
            "no requests file is named",
            hint='give --requests FILE, or requests = "…" in [correctness]',
        )
    return path_in(loaded, origins["requests"], settings.requests)


def _one_request(invocation: Invocation) -> str:
    """The command line that asks one request alone, but for its id."""
    return shlex.join(["ci-doctor", *invocation.argv, "--only"])
