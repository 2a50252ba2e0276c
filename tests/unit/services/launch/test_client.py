# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.instance import RunningService
from ci_doctor.services.launch.client import check_words, client_environment, filled_words, problem
from ci_doctor.services.probes.ready import parse_ready


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
