# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the settings of a restart check is known before there is a plan, so nothing is started."""

import json
import os
import sys
from pathlib import Path

import pytest
from msgspec import to_builtins

from ci_doctor.config.decoding import decode_section
from ci_doctor.config.loading import load_config
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Verdict
from ci_doctor.restart.experiment import make_plans, run, would_do
from ci_doctor.restart.settings import RestartPlan, RestartRequest, RestartSettings
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system import clock
from ci_doctor.system.secrets.redaction import Redactor


def plan(directory: Path, line: str) -> RestartPlan:
    """The plan of a section with this line, for a router in front of a worker."""
    return all_plans(directory, line)[0]


def all_plans(directory: Path, line: str) -> tuple[RestartPlan, ...]:
    (directory / "requests.jsonl").write_text('{"id": "r0", "body": {"prompt": "p"}}\n')
    (directory / "ci-doctor.toml").write_text(f"[restart-check]\n{line}\n")
    settings, _ = decode_section(
        load_config(None, directory), "restart-check", RestartSettings, environ={}, flags={}
    )
    service = ServiceSpec(command=["true", "{port}"])
    router = ServiceSpec(command=["true", "{port}", "{router.admin.port}"], ports=["admin"])
    request = RestartRequest(
        settings=settings,
        specs={"worker": service, "router": router},
        requests=None if settings.client else directory / (settings.requests or "requests.jsonl"),
        environment=dict(os.environ),
        directory=directory,
        services_directory=directory,
        started=clock.now(),
    )
    return make_plans(request)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('kill = "wroker"', "did you mean `worker`?"),
        ('services = ["worker", "nobody"]', 'service "nobody" is not defined'),
        ('signal = "SIGKIL"', "did you mean `SIGKILL`?"),
        ('signal = "SIGSTOP"', "does not end a process"),
        ("at = 1.5", "at:"),
        ('outage = "soon"', "outage: not a duration"),
        ('requests = "nothing.jsonl"', "cannot be read"),
        ("request_timeout = 0", "request_timeout must be more than 0"),
        ('recovered = [{ metric = "x", service = "wroker" }]', "did you mean `worker`?"),
        ('recovered = [{ metric = "x", http = "/" }]', "write two entries"),
        ("recovered = [{ at_least = 3 }]", "`at_least` without a `metric`"),
        ('recovered = ["ftp://x"]', "is none of"),
        ('outrage = "5s"', "did you mean `outage`?"),
        ('moment = "savin"', "did you mean `saving`?"),
        ('moment = "saving"', "nothing tells when the service saves"),
        ('moment = "saving"\nsaving = "ftp://x"', "saving: "),
        ("moment = []", "names nothing, or one twice"),
        ('signal = ["term", "SIGTERM"]', "names nothing, or one twice"),
        ('stop_signal = "SIGSTOP"', "stop_signal: SIGSTOP does not end"),
        ('client = "nobody-has-this"', "client: command not found: nobody-has-this"),
        (
            'client = "python3 wrogn.py {run}"',
            "client: python3 is to run wrogn.py, and there is no",
        ),
        ('load = "true"\nverify = "python3 wrogn.py {port}"', "/wrong.py`?"),
        ('load = "./nowhere"\nverify = "true"', "load: there is no "),
        ('setup = "sh wrogn.py"\nclient = "true"', "setup: sh is to run wrogn.py"),
        ('client = "true"\nrequests = "r.jsonl"', "`client` stands beside `requests`"),
    ],
)
def test_a_wrong_setting_gives_no_plan(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "wrong.py").touch()
    with pytest.raises(UsageError) as caught:
        plan(tmp_path, line)
    assert said in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "line",
    [
        'setup = "true"\nclient = "python3 made-by-setup.py"',
        'client = "python3 ask-{run}.py"',
        'client = "{python} x"',
    ],
)
def test_a_command_that_may_be_there_in_time_is_no_error(tmp_path: Path, line: str) -> None:
    plan(tmp_path, line)


def test_the_settings_around_it_are_right(tmp_path: Path) -> None:
    terms = plan(tmp_path, 'kill = "worker"').terms
    assert (terms.kill, terms.throughput) == ("worker", 0.8)


def test_a_sweep_has_a_plan_for_each_moment_and_signal_with_a_folder_of_its_own(
    tmp_path: Path,
) -> None:
    line = 'moment = ["stopping", "before-ready"]\nsignal = ["KILL", "term"]\nclient = "true {run}"\nruns = 3'
    plans = all_plans(tmp_path, line)

    assert [each.title for each in plans] == [
        "stopping SIGKILL",
        "stopping SIGTERM",
        "before-ready SIGKILL",
        "before-ready SIGTERM",
    ]
    assert len({each.directory for each in plans}) == 4
    # Their rate is how fast the machine starts processes.
    assert plans[0].terms.throughput == 0.0
    # Each run asks something else, because it has a number.
    assert [each.body["prompt"] for each in plans[0].requests] == ["true 1", "true 2", "true 3"]


def test_a_condition_may_be_a_probe_of_a_further_port(tmp_path: Path) -> None:
    made = plan(tmp_path, 'recovered = ["http://127.0.0.1:{router.admin.port}/ready"]')

    assert [each.ready for each in made.conditions] == [
        "http://127.0.0.1:{router.admin.port}/ready"
    ]


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
