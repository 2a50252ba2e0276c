# SPDX-License-Identifier: Apache-2.0
"""A launch without a command line: a request in, an outcome out."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from ci_doctor.errors import UsageError
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.launch.plan import LaunchRequest
from ci_doctor.services.launch.run import client_problem, make_plan, run
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.secrets.redaction import Redactor

PROGRAMS = Path(__file__).parents[3] / "support" / "programs"


def request(
    directory: Path, *client: str, program: str = "answers", **changes: Any
) -> LaunchRequest:
    command = [sys.executable, str(PROGRAMS / f"{program}.py"), "{port}"]
    return LaunchRequest(
        specs={"api": ServiceSpec(command=command)},
        names=("api",),
        environment=dict(os.environ),
        directory=directory,
        client=client,
        client_directory=directory,
        **changes,
    )


def test_a_client_runs_under_its_service(tmp_path: Path) -> None:
    events: list[ServiceEvent] = []
    plan = make_plan(request(tmp_path, "sh", "-c", "exit 3", events=tmp_path / "events.jsonl"))
    outcome = run(plan, redactor=Redactor(()), on_event=events.append)
    assert (outcome.verdict, outcome.command_status) == (Verdict.FAILED, 3)
    assert [finding.rule for finding in outcome.findings] == ["services/client-failed"]
    kinds = [event.kind for event in events]
    assert kinds == [EventKind.STARTED, EventKind.READY, EventKind.STOPPING, EventKind.STOPPED]
    assert [each.path for each in outcome.attachments] == [
        "logs/api-1.log",
        str(tmp_path / "events.jsonl"),
    ]
    assert to_builtins(outcome.facts)["services"]["api"]["ready_s"] is not None


def test_a_service_that_dies_is_the_cause_and_its_log_keeps_no_secret(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('it is hunter2'); raise SystemExit(3)", "{port}"]
    plan = make_plan(
        LaunchRequest(
            specs={"api": ServiceSpec(command=command)},
            names=("api",),
            environment=dict(os.environ),
            directory=tmp_path,
        )
    )
    outcome = run(plan, redactor=Redactor(("hunter2",)))
    assert (outcome.verdict, outcome.command_status) == (Verdict.FAILED, None)
    assert [finding.rule for finding in outcome.findings] == ["services/died"]
    assert "hunter2" not in (tmp_path / "logs" / "api-1.log").read_text()


def test_a_client_that_cannot_be_run_starts_nothing(tmp_path: Path) -> None:
    wanted = request(tmp_path, "no-such-command")
    assert client_problem(request(tmp_path)) is None
    outcome = run(make_plan(wanted), redactor=Redactor(()))
    assert (outcome.verdict, outcome.command_status) == (None, 127)
    assert not (tmp_path / "logs").exists()


def test_what_cannot_work_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no service is named `db`"):
        make_plan(request(tmp_path, "pytest", "{db.port}"))
    assert not (tmp_path / "logs").exists()
