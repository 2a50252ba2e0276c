# SPDX-License-Identifier: Apache-2.0
"""What `launch` decides: which services, how the client is told of them, and what the end means."""

import errno
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import CaseOutcome
from ci_doctor.model.verdict import Verdict
from ci_doctor.services.instance import RunningService
from ci_doctor.services.launch.client import check_words, client_environment, filled_words, problem
from ci_doctor.services.launch.launched import ClientRun, Launched
from ci_doctor.services.launch.options import choose
from ci_doctor.services.launch.record import Record, ServiceRun
from ci_doctor.services.launch.report import report_fields
from ci_doctor.services.launch.verdict import conclude, status
from ci_doctor.services.outcome import (
    EventKind,
    FailureKind,
    Process,
    ServiceEvent,
    ServiceFailure,
    StopResult,
)
from ci_doctor.services.probes.ready import parse_ready
from ci_doctor.services.spec import ServiceSpec

CONFIGURED = {
    "kv": ServiceSpec(command="kv {port}", ready="tcp://127.0.0.1:{port}"),
    "vllm": ServiceSpec(command="vllm {port}", needs=["kv"]),
    "other": ServiceSpec(command="other {port}"),
}
CODES = {"regression": 1, "infra": 75}
OUT = Path("/work/out")


# --- which services ---


def test_all_configured_services_are_started_unless_some_are_named() -> None:
    assert choose(CONFIGURED, (), (), ())[1] == ("kv", "vllm", "other")
    assert choose(CONFIGURED, ("vllm",), (), ())[1] == ("vllm",)


def test_a_command_makes_a_service_which_alone_is_started() -> None:
    specs, names = choose(CONFIGURED, ("mock=serve --x=1 {port}",), (), ("mock=kv",))
    assert names == ("mock",)
    assert specs["mock"] == ServiceSpec(command="serve --x=1 {port}", needs=["kv"])


def test_a_command_takes_the_place_of_a_configured_one() -> None:
    specs, _ = choose(CONFIGURED, ("vllm=other {port}",), (), ())
    assert specs["vllm"] == replace(CONFIGURED["vllm"], command="other {port}")


def test_probes_change_and_needs_are_added() -> None:
    specs, _ = choose(
        CONFIGURED,
        (),
        ("vllm=http://h/?a=b", 'kv={ log = "x=y" }'),
        ("vllm=other", "vllm=kv, other"),
    )
    assert specs["vllm"].ready == "http://h/?a=b"
    assert specs["kv"].ready == '{ log = "x=y" }'
    assert specs["vllm"].needs == ["kv", "other"]


@pytest.mark.parametrize(
    ("services", "ready", "needs", "said", "hint"),
    [
        (("vlm",), (), (), "no service is named `vlm`", "did you mean `vllm`?"),
        (("a=x", "a=y"), (), (), 'two services are named "a"', "name of its own"),
        (("a=",), (), (), 'the command of "a" is empty', "what to run"),
        (("=x",), (), (), "the name is missing", "--service NAME"),
        ((), ("vlm=/x",), (), "no service is named `vlm`", "did you mean `vllm`?"),
        ((), ("/health",), (), "not NAME=PROBE", "--ready NAME=PROBE"),
        ((), ("vllm=",), (), "not NAME=PROBE", "--ready NAME=PROBE"),
        ((), ("vllm=/a", "vllm=/b"), (), "two probes", "keep one"),
        ((), (), ("vllm=kw",), "no service is named `kw`", "known names: kv"),
        ((), (), ("wllm=kv",), "no service is named `wllm`", "did you mean `vllm`?"),
        ((), (), ("kv=vllm",), "in a circle: kv -> vllm -> kv", "remove one"),
        ((), (), ("kv=kv",), "in a circle: kv -> kv", "remove one"),
        (("kv",), ("vllm=/x",), (), 'service "vllm" is not started', "--service vllm"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    services: tuple[str, ...], ready: tuple[str, ...], needs: tuple[str, ...], said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(CONFIGURED, services, ready, needs)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


def test_nothing_to_start_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing to start"):
        choose({}, (), (), ())


# --- the client ---


def running(name: str, port: int) -> RunningService:
    return RunningService(
        name=name, pid=1, started=1, start=1, port=port, log=Path(f"/logs/{name}-1.log"), command=("x",),
        probe=parse_ready("/health", port, directory=Path()),
    )  # fmt: skip


def test_ports_are_filled_into_the_clients_words() -> None:
    words = filled_words(
        ("http://127.0.0.1:{kv.port}/", '{"a": {}}', "{{server.port}}"),
        [running("kv", 81), running("b", 82)],
    )
    assert words == ("http://127.0.0.1:81/", '{"a": {}}', "{{server.port}}")


def test_the_client_is_told_where_everything_is() -> None:
    told = client_environment({"A": "1"}, [running("vllm-0.9", 81)])
    assert told == {
        "A": "1",
        "CI_DOCTOR_SERVICES_VLLM_0_9_PORT": "81",
        "CI_DOCTOR_SERVICES_VLLM_0_9_URL": "http://127.0.0.1:81",
        "CI_DOCTOR_SERVICES_VLLM_0_9_LOG": "/logs/vllm-0.9-1.log",
    }


def test_an_unknown_port_and_a_shared_variable_are_refused() -> None:
    check_words(("{kv.port}", "{{x.port}}", "{port}"), ("kv",))
    with pytest.raises(UsageError, match="no service is named `kw`"):
        check_words(("--at={kw.port}",), ("kv",))
    with pytest.raises(UsageError, match="CI_DOCTOR_SERVICES_A_B_"):
        check_words((), ("a-b", "a_b"))


def test_a_client_that_cannot_be_run_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "good").write_text("#!/bin/sh\n")
    (tmp_path / "good").chmod(0o755)
    path = {"PATH": f"/nowhere:{tmp_path}"}
    assert problem("good", path, Path("/")) is None
    assert problem("./good", {}, tmp_path) is None
    assert problem("gone", path, tmp_path) == (127, "gone: command not found")
    assert problem("./gone", path, tmp_path) == (127, "./gone: no such file")
    assert problem("plain", path, tmp_path) == (126, "plain: not an executable file")
    assert problem(str(tmp_path), path, tmp_path) == (126, f"{tmp_path}: not an executable file")
    assert problem("", path, tmp_path) == (127, ": command not found")


# --- what the end means ---

RUNS = (
    ServiceRun(
        name="kv", pid=5, log="/work/out/logs/kv-1.log", started_at=1.0, ready_s=0.5, ended_at=4.0
    ),
    ServiceRun(
        name="vllm",
        pid=6,
        log="/work/out/logs/vllm-1.log",
        started_at=1.5,
        ended_at=3.5,
        by_itself=True,
        exit_code=1,
    ),
)
FAILURE = ServiceFailure(
    kind=FailureKind.DIED,
    service="vllm",
    message="vllm died",
    log="/work/out/logs/vllm-1.log",
    duration_s=2.0,
)
WELL = ClientRun(words=("/usr/bin/pytest", "-x"), returncode=0, duration_s=3.2)


def launched(**changes: Any) -> Launched:
    return replace(
        Launched(services=RUNS, client=WELL, stopped=StopResult(duration_s=0.1)), **changes
    )


def fields(of: Launched) -> dict[str, Any]:
    return report_fields(of, conclude(of, CODES), directory=OUT, cwd=Path("/work"))


def test_a_client_that_ends_well_is_a_pass() -> None:
    concluded = conclude(launched(), CODES)
    assert (concluded.verdict, concluded.exit_code) == (Verdict.PASS, 0)
    assert (
        concluded.summary
        == "pytest ended with exit code 0 after 3.2 s; kv and vllm lived until then"
    )


@pytest.mark.parametrize(("returncode", "code"), [(3, 3), (75, 75), (-9, 137), (-15, 143)])
def test_the_clients_status_is_handed_on(returncode: int, code: int) -> None:
    of = launched(client=replace(WELL, returncode=returncode))
    concluded = conclude(of, CODES)
    assert (concluded.verdict, concluded.exit_code) == (Verdict.REGRESSION, code)
    assert [finding.rule for finding in fields(of)["findings"]] == ["services/client-failed"]


def test_a_dead_service_is_the_cause_whatever_the_client_says() -> None:
    of = launched(failure=FAILURE, client=replace(WELL, returncode=2))
    concluded = conclude(of, CODES)
    assert (concluded.verdict, concluded.exit_code) == (Verdict.REGRESSION, 1)
    assert concluded.summary == "the service vllm failed while pytest ran"
    told = fields(of)
    assert [finding.rule for finding in told["findings"]] == ["services/died"]
    assert told["findings"][0].evidence[0].file == "out/logs/vllm-1.log"
    assert [(case.name, case.outcome) for case in told["cases"]] == [
        ("kv", CaseOutcome.PASSED),
        ("vllm", CaseOutcome.FAILED),
        ("pytest", CaseOutcome.SKIPPED),
    ]
    assert [
        (attempt.name, attempt.ok, attempt.outcome, attempt.log) for attempt in told["attempts"]
    ] == [
        ("kv", True, "ready after 0.5 s, stopped", "logs/kv-1.log"),
        ("vllm", False, "never ready, died: exit code 1", "logs/vllm-1.log"),
    ]


def test_a_cause_outside_the_change_may_be_retried_under_the_repositorys_own_code() -> None:
    of = launched(
        failure=replace(FAILURE, kind=FailureKind.OUTSIDE), client=replace(WELL, duration_s=0.0)
    )
    concluded = conclude(of, {**CODES, "infra": 255})
    assert (concluded.verdict, concluded.exit_code) == (Verdict.INFRA, 255)
    assert concluded.summary == "the service vllm failed, so pytest was not run"
    assert fields(of)["cases"][1].outcome is CaseOutcome.ERROR


def test_without_a_client_a_death_stops_everything() -> None:
    assert (
        "every service was stopped"
        in conclude(launched(failure=FAILURE, client=None), CODES).summary
    )


@pytest.mark.parametrize(
    ("received", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_leaves_no_verdict(received: signal.Signals, code: int) -> None:
    concluded = conclude(launched(received=received, client=None), CODES)
    assert (concluded.verdict, concluded.exit_code) == (None, code)
    assert concluded.error is not None
    assert concluded.error.message == f"interrupted by {received.name}; every process was stopped"


def test_what_outlived_the_stop_is_told() -> None:
    of = launched(
        received=signal.SIGINT,
        stopped=StopResult(survivors=(Process(pid=9, name="d"),), duration_s=8),
    )
    assert "could not stop d" in conclude(of, CODES).summary
    assert [finding.rule for finding in fields(of)["findings"]] == ["services/survivor"]


def test_what_had_no_time_to_end_is_not_blamed_for_it() -> None:
    killed = StopResult(killed=(Process(pid=9, name="d"),), duration_s=0.1)
    assert [finding.rule for finding in fields(launched(stopped=killed))["findings"]] == [
        "services/killed"
    ]
    assert fields(launched(stopped=killed, received=signal.SIGINT, hurried=True))["findings"] == ()


def test_a_service_that_ends_with_a_good_client_is_worth_a_warning() -> None:
    of = launched(late=FAILURE)
    concluded = conclude(of, CODES)
    assert concluded.exit_code == 0
    assert concluded.summary.endswith("; vllm ended in the same moment")
    assert [finding.rule for finding in fields(of)["findings"]] == ["services/ended-with-client"]


@pytest.mark.parametrize(("number", "code"), [(errno.ENOENT, 127), (errno.ENOEXEC, 126)])
def test_a_client_that_cannot_be_run_after_all_ends_as_in_a_shell(number: int, code: int) -> None:
    of = launched(client=replace(WELL, returncode=None, unable=number))
    concluded = conclude(of, CODES)
    assert (concluded.verdict, concluded.exit_code) == (None, code)
    assert fields(of)["findings"] == ()


def test_an_end_that_nobody_knows_is_no_pass() -> None:
    assert status(replace(WELL, returncode=None)) == 70


# --- the record ---


def test_events_make_the_record() -> None:
    record = Record(("kv", "vllm"))
    for event in (
        ServiceEvent(kind=EventKind.STARTED, service="kv", at=1.0, pid=5, log="l"),
        ServiceEvent(
            kind=EventKind.READY, service="kv", at=1.5, pid=5, duration_s=0.5, url="http://h:1"
        ),
        ServiceEvent(kind=EventKind.STOPPING, service="kv", at=2.0, pid=5),
        ServiceEvent(
            kind=EventKind.KILLED, service=None, at=2.5, pid=9, name="w", signal="SIGKILL"
        ),
        ServiceEvent(
            kind=EventKind.STOPPED, service="kv", at=3.0, pid=5, signal="SIGTERM", peak_rss=7
        ),
    ):
        record.add(event)
    kv, vllm = record.services
    assert kv == ServiceRun(
        name="kv", pid=5, log="l", url="http://h:1", started_at=1.0, ready_s=0.5, ended_at=3.0, signal="SIGTERM", peak_rss=7
    )  # fmt: skip
    assert vllm == ServiceRun(name="vllm")
    assert record.killed == [Process(pid=9, name="w")]
