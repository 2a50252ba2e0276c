# SPDX-License-Identifier: Apache-2.0
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ci_doctor.errors import UsageError
from ci_doctor.services.check import check_scripts, check_services, script_of
from ci_doctor.services.ready import ReadySpec
from ci_doctor.services.spec import LaunchContext, ServiceSpec
from tests.support.cases import cases


def spec() -> ServiceSpec:
    return ServiceSpec(command=[sys.executable, "{port}"])


def shell(**fields: Any) -> ServiceSpec:
    """A service without a fault but for these fields."""
    return ServiceSpec(command="sh {port}", **fields)


def context(directory: Path, path: str = "/usr/bin:/bin") -> LaunchContext:
    return LaunchContext(
        environment={"PATH": path}, directory=directory, log_directory=directory / "logs"
    )


def refusal(directory: Path, service: ServiceSpec, name: str = "vllm") -> str:
    with pytest.raises(UsageError) as caught:
        check_services({name: service}, [name], context(directory))
    assert not (directory / "logs").exists()
    return f"{caught.value.message} | {caught.value.hint}"


@cases(
    ("service", "told"),
    {
        "not-found": (ServiceSpec(command="pyhton3 {port}"), "command not found: pyhton3"),
        "no-such-path": (ServiceSpec(command="./serve {port}"), "there is no"),
        "directory": (ServiceSpec(command="/usr {port}"), "/usr is a directory"),
        "assignment": (ServiceSpec(command="A=1 sh {port}"), "env = { A = ... }"),
        "shell-words": (ServiceSpec(command="sh {port} | tee log"), 'command = ["bash"'),
        "quotation": (ServiceSpec(command="sh '{port}"), "close the quotation"),
        "empty": (ServiceSpec(command="", env={"P": "{port}"}), "its command is empty"),
        "nul": (ServiceSpec(command=["sh", "a\0{port}"]), "NUL"),
        "variable": (shell(env={"A=B": "1"}), "environment variable"),
        "cwd": (shell(cwd="nowhere"), "cwd"),
        "no-port": (ServiceSpec(command="sh"), "--port {port}"),
        "no-port-in-url": (
            ServiceSpec(command="sh", ready="tcp://127.0.0.1:{port}"),
            "--port {port}",
        ),
        "scheme": (shell(ready="gopher://x/"), "ready"),
        "exec": (shell(ready="exec:nosuch"), "ready: command not found"),
        "liveness": (shell(liveness="exec:nosuch"), "liveness: command not found"),
        "liveness-log": (shell(liveness="log:x"), "about readiness"),
        "stop": (shell(stop_command="nosuch"), "stop_command: command"),
        "fatal": (shell(fatal="("), "regular expression"),
        "log-limit": (shell(log_limit="much"), "no size"),
        "fatal-grace": (shell(fatal_grace="soon"), "not a duration"),
        "authorization": (
            shell(ready=ReadySpec(http="/", authorization="NO_SUCH_KEY")),
            "NO_SUCH_KEY, which is not set",
        ),
        "further-port": (
            shell(ports=["http"], ready="http://127.0.0.1:{vllm.http.port}/"),
            "its probe uses {vllm.http.port}, but neither its command nor its env holds it",
        ),
        "port-name": (shell(ports=["a.b"]), "cannot name a port"),
        "duration": (shell(start_timeout="soon"), "not a duration"),
        "zero": (shell(start_timeout=0), "no time to start"),
    },
)
def test_what_cannot_work_is_told_before_anything_starts(
    tmp_path: Path, service: ServiceSpec, told: str
) -> None:
    answer = refusal(tmp_path, service)
    assert 'service "vllm"' in answer
    assert told in answer


def test_two_ports_of_one_name_are_refused(tmp_path: Path) -> None:
    specs = {"kv": shell(ports=["http"]), "kv.http": shell()}
    with pytest.raises(UsageError, match=r"\{kv.http.port\} stands for 2 ports"):
        check_services(specs, list(specs), context(tmp_path))


def test_a_mistyped_command_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "vllm").touch(mode=0o755)
    with pytest.raises(UsageError) as caught:
        check_services(
            {"a": ServiceSpec(command="vlm {port}")}, ["a"], context(tmp_path, str(tmp_path))
        )
    assert (caught.value.hint or "").startswith("did you mean `vllm`?")


@pytest.mark.parametrize(
    "service",
    [
        ServiceSpec(command="serve {port}", env={"PATH": "{here}/inner"}),
        ServiceSpec(command="./serve {port}", cwd="inner"),
        ServiceSpec(command=["sh", "{port}", "|"]),  # no shell word, but an argument
    ],
    ids=["own-path", "own-cwd", "list"],
)
def test_what_the_service_itself_can_run_is_right(tmp_path: Path, service: ServiceSpec) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/serve").touch(mode=0o755)
    env = {name: value.replace("{here}", str(tmp_path)) for name, value in service.env.items()}
    service = structs.replace(service, env=env)
    assert check_services({"a": service}, ["a"], context(tmp_path)) == ("a",)


def test_a_file_that_is_not_executable_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "serve").touch(mode=0o644)
    assert "chmod +x" in refusal(tmp_path, ServiceSpec(command="./serve {port}"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_of_path_that_may_not_be_entered_is_passed_over(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    service = shell(env={"PATH": f"{closed}:/usr/bin:/bin"})
    assert check_services({"a": service}, ["a"], context(tmp_path)) == ("a",)


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-a", "a b"])
def test_a_name_must_fit_into_a_file_name(tmp_path: Path, name: str) -> None:
    assert "cannot name a service" in refusal(tmp_path, spec(), name)


def test_two_services_on_one_fixed_port_are_refused(tmp_path: Path) -> None:
    fixed = ServiceSpec(command="sh", ready="tcp://127.0.0.1:8000")
    with pytest.raises(UsageError, match='"a" and "b" both name port 8000'):
        check_services({"a": fixed, "b": fixed}, ["a", "b"], context(tmp_path))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python server.py --port 1", "server.py"),
        ("/venv/bin/python3.11 -u server.py -c x", "server.py"),
        ("bash -eu run.sh -c x", "run.sh"),
        ("sh run.sh", "run.sh"),
        ("zsh -f run.zsh", "run.zsh"),
        ("node server.js", "server.js"),
        ("perl -w server.pl", "server.pl"),
        ("python -m http.server", None),
        ("python -um http.server", None),
        ("python -c pass", None),
        ("python -", None),
        ("python", None),
        ("python -u", None),
        ("python --check-hash-based-pycs always server.py", None),
        ("bash -c 'exec server.py'", None),
        ("bash -lc 'exec server.py'", None),
        ("bash -s run.sh", None),
        ("node -e 1", None),
        ("node --require ./hook.js server.js", None),
        ("perl -e 1", None),
        ("vllm serve model", None),
        ("env python server.py", None),
    ],
)
def test_a_script_is_known_only_if_the_words_name_it_for_sure(
    command: str, script: str | None
) -> None:
    assert script_of(shlex.split(command)) == script


def check(
    directory: Path,
    *elsewhere: str,
    needs: tuple[str, ...] = (),
    command: str = "python servr.py {port}",
) -> None:
    specs = {"web": ServiceSpec(command=command, needs=list(needs))}
    environment = {"PATH": str(directory / "tools")}
    context = LaunchContext(environment=environment, directory=directory, log_directory=directory)
    check_scripts(specs, ["web"], context, elsewhere)


def test_a_missing_script_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    with pytest.raises(UsageError) as caught:
        check(tmp_path)
    assert str(tmp_path / "servr.py") in str(caught.value)
    assert f"did you mean `{tmp_path / 'server.py'}`?" in (caught.value.hint or "")


def test_a_script_that_is_there_or_may_still_come_is_no_error(tmp_path: Path) -> None:
    check(tmp_path, needs=("maker",))
    (tmp_path / "servr.py").touch()
    check(tmp_path)


@pytest.mark.parametrize("elsewhere", ["servr.py", "/srv/main/servr.py"])
def test_a_script_that_runs_elsewhere_is_rightly_named_if_its_directory_is_there(
    tmp_path: Path, elsewhere: str
) -> None:
    check(tmp_path, "python", elsewhere)
    with pytest.raises(UsageError, match=r"servr\.py"):
        check(tmp_path / "no-checkout", "python", elsewhere)


def test_a_shell_looks_for_a_name_on_path_and_not_for_a_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is to run"):
        check(tmp_path, command="bash serve.sh")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "serve.sh").touch()
    check(tmp_path, command="bash serve.sh")
    with pytest.raises(UsageError, match="is to run"):
        check(tmp_path, command="bash ./serve.sh")


def test_the_script_of_a_service_with_a_further_port_is_checked_too(tmp_path: Path) -> None:
    spec = ServiceSpec(
        command="python serve.py {kv.http.port}",
        ports=["http"],
        ready="http://127.0.0.1:{kv.http.port}/",
    )
    context = LaunchContext(environment={}, directory=tmp_path, log_directory=tmp_path)

    with pytest.raises(UsageError, match=r"is to run serve\.py"):
        check_scripts({"kv": spec}, ("kv",), context)


@pytest.mark.parametrize(
    "changes",
    [
        {"command": [sys.executable, "{port}", "{plian.port}"]},
        {"env": {"PEER": "http://127.0.0.1:{plian.port}"}},
        {"ready": "http://127.0.0.1:{plian.port}/health"},
    ],
)
@pytest.mark.parametrize(("other", "hint"), [("kv", "known: "), ("plain", "did you mean ")])
def test_the_port_of_an_unknown_service_is_refused_and_never_passed_on(
    tmp_path: Path, changes: dict[str, object], other: str, hint: str
) -> None:
    services = {other: spec(), "peer": structs.replace(spec(), **changes)}
    with pytest.raises(UsageError) as caught:
        check_services(services, [other, "peer"], context(tmp_path))
    assert caught.value.message == 'service "peer": unknown placeholder {plian.port}'
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    assert f"`{{{other}.port}}`" in caught.value.hint


def test_a_program_keeps_its_own_braces(tmp_path: Path) -> None:
    program = structs.replace(
        spec(), command=[sys.executable, "-c", "print(f'{args.port}')", "{port}"]
    )
    assert check_services({"a": program}, ["a"], context(tmp_path)) == ("a",)
