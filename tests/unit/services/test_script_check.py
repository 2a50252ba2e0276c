# SPDX-License-Identifier: Apache-2.0
import shlex
from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.services.script_check import check_scripts, script_of
from ci_doctor.services.spec import LaunchContext, ServiceSpec


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python server.py --port 1", "server.py"),
        ("/venv/bin/python3.11 -u -X dev -W error server.py -c x", "server.py"),
        ("python -OO -- -odd.py", "-odd.py"),
        ("bash -eu -o pipefail run.sh -c x", "run.sh"),
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
    assert "did you mean `server.py`?" in (caught.value.hint or "")


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


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("node app", "app.js"),
        ("node ./app", "app.json"),
        ("node app", "app/index.js"),
        ("bash serve.sh", "tools/serve.sh"),
    ],
)
def test_a_script_is_looked_for_as_its_interpreter_does(
    tmp_path: Path, command: str, file: str
) -> None:
    with pytest.raises(UsageError, match="is to run"):
        check(tmp_path, command=command)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    check(tmp_path, command=command)


def test_a_shell_does_not_look_for_a_path_on_path(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "serve.sh").touch()
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
