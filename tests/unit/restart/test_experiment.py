# SPDX-License-Identifier: Apache-2.0
"""A restart check without a command line: a request in, an outcome out."""

import json
import os
import sys
from pathlib import Path

import pytest
from msgspec import to_builtins

from ci_doctor.model.verdict import Verdict
from ci_doctor.restart.experiment import make_plans, run, would_do
from ci_doctor.restart.settings import RestartRequest, RestartSettings
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor

WORKER = Path(__file__).parents[2] / "support" / "programs" / "serve_worker.py"


def request(directory: Path) -> RestartRequest:
    lines = [json.dumps({"id": f"r{number}", "body": {"prompt": "p"}}) for number in range(4)]
    (directory / "requests.jsonl").write_text("\n".join(lines))
    command = [sys.executable, str(WORKER), "{port}", str(directory)]
    return RestartRequest(
        settings=RestartSettings(
            concurrency=2, passes=1, outage=0, throughput=0, budget="60s", signal="term"
        ),
        specs={"worker": ServiceSpec(command=command)},
        requests=directory / "requests.jsonl",
        environment=dict(os.environ),
        directory=directory,
        services_directory=directory,
        started=clock.now(),
    )


@pytest.mark.integration
def test_a_worker_that_is_killed_and_comes_back_keeps_its_promises(tmp_path: Path) -> None:
    phases = []
    outcome = run(
        make_plans(request(tmp_path))[0],
        redactor=Redactor(()),
        on_progress=lambda progress: phases.append(progress.phase.value),
    )
    assert (outcome.verdict, outcome.error) == (Verdict.PASS, None), outcome
    facts = to_builtins(outcome.facts)
    assert facts["old"]["pid"] != facts["new"]["pid"]
    assert list(dict.fromkeys(phases))[-1] == "after"
    assert [each.name for each in outcome.attempts] == ["worker 1", "worker 2"]


def test_a_dry_run_judges_nothing(tmp_path: Path) -> None:
    outcome = would_do(make_plans(request(tmp_path)))
    assert (outcome.verdict, outcome.error, outcome.findings) == (None, None, ())
    assert outcome.summary.startswith(
        "would start everything 2 times as a control, then send SIGTERM to worker when 2 of 4 requests"
    )
    assert not (tmp_path / "logs").exists()
