# SPDX-License-Identifier: Apache-2.0
"""A failed command explains itself through the real hooks: its diagnosis, its status, the job's record."""

import json
import shlex
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.model.facts.build import JOB_FILE
from tests.support.cli import begin
from tests.support.plugin_workplace import JOB_ID, Workplace, phases

pytestmark = pytest.mark.integration

OUTAGE = "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out."
ASSERTION = "E       assert 41 == 42\\ntests/test_a.py:3: AssertionError"
OPTIONS: dict[str, object] = {"setup-env": False, "diagnose": ["build_*.log"], "exit-codes": True}
TO_LOG = f"echo {shlex.quote(OUTAGE)} > build_1.log; exit 1"


def outage(workplace: Workplace) -> str:
    """A file that holds it: the agent prints the command itself."""
    path = workplace.folder / "outage"
    path.write_text(f"{OUTAGE}\n")
    return shlex.quote(str(path))


def reports(workplace: Workplace, job_id: str = JOB_ID) -> Path:
    return workplace.checkout / "ci-doctor-report" / job_id


def record(workplace: Workplace) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((reports(workplace) / JOB_FILE).read_bytes())
    return content


def with_log_file(workplace: Workplace, output: str) -> str:
    """The agent's own file of the job's log, as it is when post-command runs; its path."""
    path = workplace.folder / "buildkite_job_log"
    path.write_text(
        "~~~ Running plugin ci-doctor pre-command hook\nAssertionError: of a hook\n"
        f"~~~ Running commands\n$ bash x\n{output}\n"
        "^^^ +++\n🚨 Error: The command exited with status 1\n"
        "~~~ Running plugin ci-doctor post-command hook\n"
    )
    return str(path)


def test_an_outage_in_a_named_log_becomes_75_and_the_job_says_why(real: Workplace) -> None:
    job = real.job(f"cat {outage(real)} > build_1.log; exit 1", OPTIONS)
    job.keeps_log_file = True

    assert job.run() == 75, job.log
    assert "+++" in job.log.partition("looking for the cause")[2]
    assert "hub/unreachable" in job.log
    assert "build_1.log:1" in job.log
    assert "the command's status 1 becomes 75" in job.log
    report = json.loads((reports(real) / "diagnose" / "report.json").read_bytes())
    assert report["facts"]["root_cause"]["class"] == "network"
    kept = record(real)
    assert (kept["command_status"], kept["exit_status"]) == (1, 75)
    assert kept["verdict"] == "infra"
    assert kept["cause"]["may_be_retried"]
    assert kept["reports"] == ["diagnose"]
    assert kept["began_at"] < kept["ended_at"]
    assert set(real.uploaded()) >= {f"{JOB_ID}/{JOB_FILE}", f"{JOB_ID}/diagnose/report.json"}


@pytest.mark.nightly
def test_the_status_of_the_command_is_known_where_no_file_can_keep_it(real: Workplace) -> None:
    kept = f"ci-doctor-report/{JOB_ID}/.command.json"
    job = real.job(f"mkdir {kept}; cat {outage(real)} > build_1.log; exit 1", OPTIONS)
    job.keeps_log_file = True

    assert job.run() == 75, job.log
    assert (record(real)["command_status"], record(real)["exit_status"]) == (1, 75)


def test_an_assertion_in_the_jobs_log_is_not_retried_for_a_full_disk_beside_it(
    real: Workplace,
) -> None:
    path = with_log_file(real, ASSERTION.replace("\\n", "\n"))
    job = real.job(TO_LOG, OPTIONS, BUILDKITE_JOB_LOG_TMPFILE=path)

    assert job.run() == 1, job.log
    assert "the command's status 1 stays" in job.log
    assert "of a hook" not in (reports(real) / "diagnose" / "output.log").read_text()
    assert record(real)["verdict"] == "failed"


def test_the_output_that_ci_doctor_run_keeps_is_read_without_being_named(real: Workplace) -> None:
    inner = f"cat {outage(real)}; exit 1"
    job = real.job(
        f"ci-doctor run --diagnose --exit-code-by-class -- sh -c {shlex.quote(inner)}",
        {"setup-env": False, "exit-codes": True},
    )
    real.link("sh")

    assert job.run() == 75, job.log
    assert record(real)["cause"]["class"] == "network"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("ci-doctor run --diagnose -- sh -c {}", 75),
        # Something else has ended the job, and nobody knows what it wrote.
        ("ci-doctor run --diagnose -- sh -c {} || exit 3", 3),
    ],
)
def test_a_command_that_ci_doctor_ran_is_known_if_the_job_ended_by_it(
    real: Workplace, command: str, status: int
) -> None:
    inner = f"cat {outage(real)} > build_1.log; exit 1"
    job = real.job(command.format(shlex.quote(inner)), OPTIONS)
    real.link("sh")

    assert job.run() == status, job.log


@pytest.mark.parametrize("is_known", [True, False])
def test_what_the_script_survived_asks_for_no_retry(real: Workplace, is_known: bool) -> None:
    survived = f"cat {outage(real)} > build_1.log || true"
    job = real.job(f"{survived}; python3 -c 'assert 0.41 > 0.58'", OPTIONS)
    job.keeps_log_file = is_known

    assert job.run() == 1, job.log


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.gate(1)
def test_a_cause_in_a_log_of_another_plugin_of_the_step_counts(
    real: Workplace, is_first: bool
) -> None:
    tests: dict[str, object] = {"setup-env": False, "diagnose": "test.log"}
    listed = [OPTIONS, tests] if is_first else [tests, OPTIONS]
    job = real.job(f"printf {shlex.quote(ASSERTION)} > test.log; {TO_LOG}", listed[0])
    job.other_configurations = [listed[1]]

    # The order of post-command hooks differs between agents.
    assert job.run() == 1, job.log
    assert phases(job).count("post-command") == 2
    folders = [path.name for path in reports(real).iterdir() if path.is_dir()]
    assert folders == ["diagnose"]
    assert record(real)["command_status"] == 1


@pytest.mark.nightly
def test_a_checkout_that_the_command_removes_changes_nothing(real: Workplace) -> None:
    real.link("rm")
    job = real.job(f"rm -rf ci-doctor-report build*; echo; {TO_LOG}", OPTIONS)
    # The plugin's hooks lie outside: a URL plugin survives its checkout.
    job.plugin = Path(shutil.move(job.plugin, real.folder / "ci-doctor"))

    assert job.run() == 1, job.log
    assert record(real)["verdict"] in {"failed", "infra"}


@pytest.mark.nightly
def test_hostile_names_and_lines_stay_text(real: Workplace) -> None:
    hostile = "build_$(touch pwned)\x1b[31m+++ x\n::error::y.log"
    name = "</details><script>alert(1)</script> $(touch pwned) \x1b]0;t\x07 \u202e"
    line = f"{OUTAGE} (read timeout=15) {name}"
    (real.folder / "text").write_text(line)
    command = f"cat {shlex.quote(str(real.folder / 'text'))} > {shlex.quote(hostile)}; exit 1"
    job = real.job(command, OPTIONS, BUILDKITE_LABEL="</details><script>\x1b[0m\n+++ y")
    job.keeps_log_file = True

    assert job.run() == 75, job.log
    assert not list(real.checkout.rglob("pwned"))
    assert "\x1b]0;" not in job.log
    assert record(real)["label"] == "</details><script>\x1b[0m\n+++ y"


def test_a_hook_that_is_ended_while_an_api_is_silent_leaves_the_result(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook = begin(
            "plugin",
            "post-command",
            cwd=tmp_path,
            env={
                "BUILDKITE": "true",
                "BUILDKITE_JOB_ID": JOB_ID,
                "BUILDKITE_COMMAND_EXIT_STATUS": "1",
                "BUILDKITE_PLUGIN_CONFIGURATION": json.dumps({"exit-codes": True}),
                "BUILDKITE_API_TOKEN": "bkua_of_a_test",
                "BUILDKITE_REST_API_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "BUILDKITE_ORGANIZATION_SLUG": "acme",
                "BUILDKITE_PIPELINE_SLUG": "serving",
                "BUILDKITE_BUILD_NUMBER": "1",
            },
        )
        connection, _ = silent.accept()
        hook.send_signal(signal.SIGTERM)
        out, err = hook.communicate(timeout=60)
        connection.close()

    assert (hook.returncode, out) == (0, b"")
    assert b"terminated (SIGTERM); the command's status stays as it is" in err
