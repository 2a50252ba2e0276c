# SPDX-License-Identifier: Apache-2.0
"""A launch without a command line: a request in, an outcome out."""

import contextlib
import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.model.facts.launch import (
    ClientRun,
    FailureKind,
    NamedProcess,
    ServiceFailure,
    ServiceRun,
    StopResult,
)
from ci_doctor.model.outcome import CaseOutcome, Outcome, Verdict
from ci_doctor.services.instance import EventKind, RunningService, ServiceEvent
from ci_doctor.services.launch import event_writer, make_plan
from ci_doctor.services.launch_plan import (
    check_words,
    choose,
    client_environment,
    filled_words,
    problem,
)
from ci_doctor.services.launch_report import Launched, LaunchRequest, outcome_of
from ci_doctor.services.ready import parse_ready
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.session.delivery import ExitPolicy, exit_code
from ci_doctor.system.secrets.redaction import Redactor

CONFIGURED = {
    "kv": ServiceSpec(command="kv {port}", ready="tcp://127.0.0.1:{port}"),
    "vllm": ServiceSpec(command="vllm {port}", needs=["kv"]),
    "other": ServiceSpec(command="other {port}"),
}


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


def running(name: str, port: int) -> RunningService:
    return RunningService(
        name=name, pid=1, started=1, start=1, port=port, log=Path(f"/logs/{name}-1.log"), command=("x",),
        probe=parse_ready("/health", port, directory=Path()),
    )  # fmt: skip


def test_ports_are_filled_into_the_clients_words() -> None:
    words = filled_words(
        ("http://127.0.0.1:{kv.port}/", '{"a": {}}', "{{server.port}}"),
        [running("kv", 81), running("b", 82)],
        {"kv": 81, "b": 82},
    )
    assert words == ("http://127.0.0.1:81/", '{"a": {}}', "{{server.port}}")


def test_a_further_port_is_filled_in_too_and_a_fixed_one_instead_of_the_reserved() -> None:
    reserved = {"kv": 81, "kv.http": 82, "fixed": 83}
    services = [running("kv", 82), running("fixed", 9000)]

    words = filled_words(("{kv.port} {kv.http.port} {fixed.port}",), services, reserved)

    assert words == ("81 82 9000",)


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
    check_words(("{kv.http.port}",), ("kv",), ("kv.http",))
    with pytest.raises(UsageError, match=r"unknown placeholder \{kw\.port\}"):
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


def test_what_cannot_work_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    request = LaunchRequest(
        specs={"api": ServiceSpec(command=[sys.executable, "{port}"])},
        names=("api",),
        environment=dict(os.environ),
        directory=tmp_path,
        client=("pytest", "{db.port}"),
        client_directory=tmp_path,
    )
    with pytest.raises(UsageError, match=r"unknown placeholder \{db\.port\}"):
        make_plan(request)
    assert not (tmp_path / "logs").exists()


OUT = Path("/work/out")
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


def outcome(**changes: Any) -> Outcome:
    return outcome_of(launched(**changes), directory=OUT, cwd=Path("/work"))


def code(of: Outcome, **codes: int) -> int:
    return exit_code(of, ExitPolicy(codes=codes))


def rules_of(of: Outcome) -> list[str]:
    return [finding.rule for finding in of.findings]


def test_a_client_that_ends_well_is_a_pass() -> None:
    of = outcome()
    assert (of.verdict, code(of), of.findings) == (Verdict.PASS, 0, ())
    assert of.summary == "pytest ended with exit code 0 after 3.2 s; kv and vllm lived until then"


@pytest.mark.parametrize(("returncode", "status"), [(3, 3), (75, 75), (-9, 137), (-15, 143)])
def test_the_clients_status_is_handed_on(returncode: int, status: int) -> None:
    of = outcome(client=replace(WELL, returncode=returncode))
    assert (of.verdict, code(of)) == (Verdict.FAILED, status)
    assert rules_of(of) == ["services/client-failed"]


def test_a_dead_service_is_the_cause_whatever_the_client_says() -> None:
    of = outcome(failure=FAILURE, client=replace(WELL, returncode=2))
    assert (of.verdict, code(of)) == (Verdict.FAILED, 1)
    assert of.summary == "the service vllm failed while pytest ran"
    assert rules_of(of) == ["services/died"]
    assert of.findings[0].evidence[0].file == "out/logs/vllm-1.log"
    assert [(case.name, case.outcome) for case in of.cases] == [
        ("kv", CaseOutcome.PASSED),
        ("vllm", CaseOutcome.FAILED),
        ("pytest", CaseOutcome.SKIPPED),
    ]
    assert [(each.name, each.ok, each.outcome, each.log) for each in of.attempts] == [
        ("kv", True, "ready after 0.5 s, stopped", "logs/kv-1.log"),
        ("vllm", False, "never ready, died: exit code 1", "logs/vllm-1.log"),
    ]


def test_a_cause_outside_the_change_may_be_retried_under_the_repositorys_own_code() -> None:
    failure = replace(FAILURE, kind=FailureKind.OUTSIDE)
    of = outcome(failure=failure, client=replace(WELL, duration_s=0.0))
    assert (of.verdict, code(of, infra=255)) == (Verdict.INFRA, 255)
    assert of.summary == "the service vllm failed, so pytest was not run"
    assert of.cases[1].outcome is CaseOutcome.ERROR


def test_without_a_client_a_death_stops_everything() -> None:
    assert "every service was stopped" in outcome(failure=FAILURE, client=None).summary


@pytest.mark.parametrize(
    ("received", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_leaves_no_verdict(received: signal.Signals, status: int) -> None:
    of = outcome(received=received, client=None)
    assert (of.verdict, code(of)) == (None, status)
    assert of.error is not None
    assert of.error.message == f"interrupted by {received.name}; every process was stopped"


def test_what_outlived_the_stop_is_told() -> None:
    survivors = (NamedProcess(pid=9, name="d"),)
    of = outcome(received=signal.SIGINT, stopped=StopResult(survivors=survivors, duration_s=8))
    assert "could not stop d" in of.summary
    assert rules_of(of) == ["services/survivor"]


def test_what_had_no_time_to_end_is_not_blamed_for_it() -> None:
    killed = StopResult(killed=(NamedProcess(pid=9, name="d"),), duration_s=0.1)
    assert rules_of(outcome(stopped=killed)) == ["services/killed"]
    assert rules_of(outcome(stopped=killed, received=signal.SIGINT, hurried=True)) == []


def test_a_service_that_ends_with_a_good_client_is_worth_a_warning() -> None:
    of = outcome(late=FAILURE)
    assert (of.verdict, code(of)) == (Verdict.PASS, 0)
    assert of.summary.endswith("; vllm ended in the same moment")
    assert rules_of(of) == ["services/ended-with-client"]


@pytest.mark.parametrize(("number", "status"), [(errno.ENOENT, 127), (errno.ENOEXEC, 126)])
def test_a_client_that_cannot_be_run_after_all_ends_as_in_a_shell(number: int, status: int) -> None:
    of = outcome(client=replace(WELL, returncode=None, unable=number))
    assert (of.verdict, code(of), of.findings) == (None, status, ())


def test_an_end_that_nobody_knows_is_no_pass() -> None:
    of = outcome(client=replace(WELL, returncode=None))
    assert (of.verdict, code(of)) == (Verdict.FAILED, 70)


def test_the_facts_hold_what_the_report_rests_on() -> None:
    facts = to_builtins(outcome(failure=FAILURE).facts)
    assert facts["version"] == 1
    assert facts["services"]["kv"]["pid"] == 5
    assert facts["client"]["words"] == ("/usr/bin/pytest", "-x")
    assert (facts["cause"]["kind"], facts["cause"]["message"]) == ("died", "vllm died")
    assert (facts["received"], facts["stopped"]["duration_s"]) == (None, 0.1)


STARTED = ServiceEvent(
    kind=EventKind.STARTED, service="vllm", at=12.5, start=1, pid=4242, log="/logs/vllm-1.log"
)
DIED = replace(STARTED, kind=EventKind.DIED, signal="SIGKILL", duration_s=2.0, peak_rss=1024)


def written(
    path: Path, *events: ServiceEvent, secrets: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    warnings: list[str] = []
    with contextlib.ExitStack() as stack:
        write = event_writer(path, Redactor(secrets), warnings.append, stack)
        for event in events:
            write(event)
            assert path.read_text().endswith("\n"), "a line is there before the next event"
    assert warnings == []
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_is_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    assert len(written(path, STARTED)) == 1
    started, died = written(path, STARTED, DIED)  # the file is made anew
    assert started.pop("time").endswith("Z")
    assert started == {"t": 12.5, "event": "started", "service": "vllm", "start": 1, "pid": 4242, "log": "/logs/vllm-1.log"}  # fmt: skip
    assert (died["event"], died["signal"], died["peak_rss"]) == ("died", "SIGKILL", 1024)


def test_secrets_stay_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    written(path, replace(STARTED, log="/logs/hunter22-1.log"), secrets=("hunter22",))
    assert "hunter22" not in path.read_text()
    assert "[redacted]" in path.read_text()


def test_a_full_disk_is_told_once_and_stops_nobody() -> None:
    warnings: list[str] = []
    with contextlib.ExitStack() as stack:
        write = event_writer(Path("/dev/full"), Redactor(()), warnings.append, stack)
        write(STARTED)
        write(DIED)
    assert warnings == ["cannot write events to /dev/full: No space left on device"]


def test_a_reader_that_leaves_stops_nobody(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    warnings: list[str] = []
    with contextlib.ExitStack() as stack:
        write = event_writer(pipe, Redactor(()), warnings.append, stack)
        write(STARTED)
        assert json.loads(os.read(reader, 4096))["event"] == "started"
        os.close(reader)
        write(DIED)
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "name", ["", "file/events.jsonl", "pipe"], ids=["a folder", "below a file", "read by nobody"]
)
def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot write events"):
        event_writer(tmp_path / name, Redactor(()), print, contextlib.ExitStack())
