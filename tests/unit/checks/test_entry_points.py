# SPDX-License-Identifier: Apache-2.0
"""Entry points of the job: what is started, how it ends, and what that means."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.checks import entry_points
from ci_doctor.checks.check import CheckResult, CheckStatus, Fault
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.entry_points import (
    PACKAGES,
    EntryCommand,
    checks,
    entry_point_of,
    entry_point_of_service,
    importing,
    judge_entry,
    read_console_script,
    start_all,
)
from ci_doctor.checks.running import run_checks
from ci_doctor.checks.settings import DoctorSettings, Workload
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.processes.limited_runs import SeparateRun
from tests.support.checks import check_context

MAIN = "from served.cli.main import main"
GUARD = 'if __name__ == "__main__":\n    sys.exit(main())\n'
PYTHON = "/opt/venv/bin/python3.12"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"#!{PYTHON}\nimport re\nimport sys\n{MAIN}\n{GUARD}", id="pip"),
        pytest.param(f"#!{PYTHON}\n# -*- coding: utf-8 -*-\nimport sys\n{MAIN}\n{GUARD}", id="uv"),
        pytest.param(
            f"#!/bin/sh\n'''exec' '{PYTHON}' \"$0\" \"$@\"\n' '''\nimport sys\n{MAIN}\n{GUARD}",
            id="a path that the kernel would not take",
        ),
        pytest.param(f"#!{PYTHON} -E\nimport sys\n{MAIN}\n{GUARD}", id="with an option"),
    ],
)
def test_the_interpreter_and_the_import_are_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "serve").write_text(text)

    expected = (Path(PYTHON), "served.cli.main", "main")
    assert read_console_script(tmp_path / "serve") == expected


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(f"#!{PYTHON}\n{MAIN}\nmain()\n".encode(), id="runs when it is imported"),
        pytest.param(f"#!/bin/sh\n{MAIN}\n{GUARD}".encode(), id="another program's script"),
        pytest.param(b"\x7fELF\x02\x01\x01\x00", id="a binary"),
        pytest.param(b"", id="empty"),
    ],
)
def test_anything_else_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "serve").write_bytes(content)

    assert read_console_script(tmp_path / "serve") is None


SCRIPT = f"#!{sys.executable}\nimport sys\nfrom served.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory for PATH with the console script `served`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "served").write_text(SCRIPT)
    (folder / "served").chmod(0o755)
    return folder


def entry(command: str | list[str], programs: Path, **keys: object) -> EntryCommand | str:
    spec = ServiceSpec(command=command, **keys)  # type: ignore[arg-type]
    environ = {"PATH": f"{programs}:{os.defpath}"}
    return entry_point_of_service("web", spec, environ, programs.parent)


def test_a_console_script_is_imported_and_not_run(programs: Path) -> None:
    made = entry("served model --port {port}", programs, env={"MODE": "fast"})

    assert isinstance(made, EntryCommand)
    assert (made.name, made.module, made.env) == ("service web", "served.cli", {"MODE": "fast"})
    assert made.words[0] == sys.executable
    assert made.words[3:] == ("served.cli", "main", "script")


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("./served --port {port}", "served.cli"),
        ([sys.executable, "-u", "-m", "served.web", "--port", "{port}"], "served.web"),
    ],
    ids=["a path", "a module that Python runs"],
)
def test_the_directory_of_the_service_counts(
    command: str | list[str], module: str, programs: Path
) -> None:
    made = entry(command, programs, cwd="bin")

    assert isinstance(made, EntryCommand)
    assert made.module == module


def test_a_program_that_is_not_there_is_said_so(programs: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        entry("absent --port {port}", programs)


@pytest.mark.parametrize("command", ["sh -c 'served'", [sys.executable, "server.py", "-m", "x"]])
def test_what_is_no_console_script_is_left_alone(command: str | list[str], programs: Path) -> None:
    made = entry(command, programs)

    assert isinstance(made, str)
    assert made.endswith("is no console script of a Python package")


def words(workload: Workload, directory: Path) -> tuple[str, ...]:
    return entry_point_of(PACKAGES[workload], directory / "python").words


def test_the_console_script_beside_the_interpreter_stands_before_its_module(tmp_path: Path) -> None:
    python = f"{tmp_path}/python"
    module = (python, "-m", "vllm.entrypoints.cli.main", "--help")
    assert words(Workload.VLLM, tmp_path) == module
    assert words(Workload.LMCACHE, tmp_path)[3] == "lmcache.v1.cache_engine"

    for name in ("vllm", "lmcache", "sglang"):
        (tmp_path / name).touch()
    assert words(Workload.VLLM, tmp_path) == (f"{tmp_path}/vllm", "--help")
    assert words(Workload.LMCACHE, tmp_path) == (f"{tmp_path}/lmcache", "--help")
    # The script's own --help imports nothing of the server.
    assert words(Workload.SGLANG, tmp_path)[1:] == ("-m", "sglang.launch_server", "--help")


ENTRY = EntryCommand(
    name="served of PY",
    words=("/venv/bin/served",),
    python=Path("/venv/bin/python"),
    module="served.cli",
)
SITE = "/venv/lib/python3.12/site-packages"


@pytest.fixture
def context(tmp_path: Path) -> CheckContext:
    """A machine without a GPU."""
    return check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)


def judged(
    context: CheckContext,
    stderr: str,
    *,
    exit_code: int | None = 1,
    entry: EntryCommand = ENTRY,
) -> CheckResult:
    run = SeparateRun(exit_code=exit_code, stdout="", stderr=stderr, duration_s=1.5)
    return judge_entry(entry, run, context)


def traceback(error: str, *, file: str = f"{SITE}/served/cli.py") -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/venv/bin/served", line 3, in <module>\n'
        "    from served.cli import main\n"
        f'  File "{file}", line 7, in <module>\n'
        "    import something\n"
        f"{error}\n"
    )


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            "ModuleNotFoundError: No module named 'cv2'",
            r"/venv/bin/python -m pip install opencv-python-headless",
        ),
        # One of unknown origin is not installed by its name.
        ("ModuleNotFoundError: No module named 'acmelib'", r"(?!.*pip install).*`acmelib`.*"),
        (
            "ImportError: libcudart.so.13: cannot open shared object file: No such file",
            r"libcudart\.so\.13 is missing.*",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_brings_it(
    error: str, remedy: str, context: CheckContext
) -> None:
    finding = judged(context, traceback(error)).problems[0].finding

    assert finding.rule == "doctor/entry-point-fails"
    assert error.partition(": ")[2] in finding.summary
    assert re.fullmatch(remedy, str(finding.remedy), re.DOTALL)


@pytest.mark.parametrize("has_name", [True, False])
def test_an_import_that_works_by_itself_was_lost_to_another_thread(
    has_name: bool, context: CheckContext, tmp_path: Path
) -> None:
    (tmp_path / "racy.py").write_text("Config = 1\n" if has_name else "\n")
    entry = replace(ENTRY, python=Path(sys.executable), cwd=tmp_path)
    error = f"ImportError: cannot import name 'Config' from 'racy' ({tmp_path}/racy.py)"

    remedy = judged(context, traceback(error), entry=entry).problems[0].finding.remedy

    install = f"ci-doctor preload install --python {sys.executable} --rule served.cli=racy:Config"
    assert (remedy == install) is has_name
    assert ("preload install" in str(remedy)) is has_name


def test_no_gpu_is_no_failure_of_the_imports_but_beside_a_gpu_it_is(
    context: CheckContext, tmp_path: Path
) -> None:
    text = traceback("RuntimeError: Failed to infer device type")

    without = judged(context, text)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    beside = judged(context, text)

    assert without.problems == ()
    assert str(without.unknown).startswith("served of PY asks for a GPU, and this machine has none")
    assert len(beside.problems) == 1


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("src/mine.py", Fault.REPOSITORY),
        (".venv/lib/python3.12/site-packages/served/cli.py", Fault.ENVIRONMENT),
        # No file, wherever the job runs.
        ("<frozen runpy>", Fault.ENVIRONMENT),
    ],
)
def test_an_error_in_the_checkout_is_of_the_repository(
    place: str,
    fault: Fault,
    context: CheckContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = place if place.startswith("<") else str(tmp_path / place)
    text = traceback("KeyError: 'port'", file=file)

    shown = judged(context, text)

    assert shown.problems[0].fault is fault


def test_an_error_that_the_checkout_led_to_is_of_the_repository(
    context: CheckContext, tmp_path: Path
) -> None:
    library = tmp_path / ".venv/lib/python3.12/site-packages/served/cli.py"
    inner = traceback("TypeError: run() got an unexpected keyword argument", file=str(library))
    header, _, rest = inner.partition("\n")
    text = f'{header}\n  File "{tmp_path}/src/mine.py", line 3, in main\n    run(fast=1)\n{rest}'

    shown = judged(context, text)

    assert shown.problems[0].fault is Fault.REPOSITORY


def test_a_file_of_the_job_that_the_error_names_is_of_the_repository(
    context: CheckContext, tmp_path: Path
) -> None:
    hidden = "AttributeError: module 'tokens' has no attribute 'Token' (consider renaming '{}/tokens.py')"

    ours = judged(context, traceback(hidden.format(tmp_path / "overlay")))
    others = judged(context, traceback(hidden.format("/opt/images")))

    assert ours.problems[0].fault is Fault.REPOSITORY
    assert others.problems[0].fault is Fault.ENVIRONMENT


def test_the_end_of_a_start_is_told(context: CheckContext) -> None:
    started = judged(context, "", exit_code=0)
    absent = judged(context, traceback("ModuleNotFoundError: No module named 'served'"))
    refused = judged(context, "served: error: no model was given\n")
    crashed = judged(context, "", exit_code=-11)

    assert (started.summary, started.problems) == ("served of PY starts in 1.5 s", ())
    assert absent.summary == "/venv/bin/python has no package `served`"
    # An end without a traceback is not laid on the environment.
    assert refused.problems[0].fault is Fault.REPOSITORY
    assert "SIGSEGV" in crashed.problems[0].finding.summary


def test_what_hangs_is_unknown_with_the_place(context: CheckContext) -> None:
    stderr = (
        "Fatal Python error: Aborted\n\n"
        "Current thread 0x00007f0000000000 (most recent call first):\n"
        '  File "/x/lock.py", line 3 in acquire\n'
        '  File "/x/cli.py", line 9 in <module>\n\n'
        "Extension modules: a, b\n"
    )

    shown = judged(context, stderr, exit_code=None)

    assert shown.unknown == (
        'served of PY had not ended after 1.5 s, it was in File "/x/lock.py", line 3 in acquire'
    )
    assert (shown.evidence[0].excerpt or "").count("\n") == 1


PYTHON_AREA = Path(sys.executable)


def results(context: CheckContext) -> dict[str, CheckResult]:
    ended = run_checks(checks(context.settings), context)
    return {each.check.id: each.result for each in ended}


def test_only_what_can_be_started_is_a_check() -> None:
    settings = DoctorSettings(workload="vllm", entry_points=["true"])

    assert [check.id for check in checks(DoctorSettings())] == ["imports/services"]
    assert [check.id for check in checks(settings)] == [
        "imports/workload",
        "imports/services",
        "imports/commands",
    ]


def test_commands_that_end_well_are_ok_and_others_are_errors_or_unknown(tmp_path: Path) -> None:
    commands = ["true", "sh -c 'echo no licence >&2; exit 3'", "/no/such/program"]
    settings = DoctorSettings(entry_points=commands)

    result = results(check_context(tmp_path, settings=settings))["imports/commands"]

    (problem,) = result.problems
    assert result.status is CheckStatus.ERROR
    assert result.figures == {"started": 3, "failed": 1}
    assert problem.finding.summary.endswith("ends with exit code 3: no licence")
    assert result.unknown == "`/no/such/program` was not started: No such file or directory"


def test_a_package_that_the_interpreter_lacks_is_an_error(tmp_path: Path) -> None:
    settings = DoctorSettings(workload="sglang")

    result = results(check_context(tmp_path, settings=settings, pythons=[PYTHON_AREA]))

    finding = result["imports/workload"].problems[0].finding
    assert finding.rule == "doctor/entry-point-missing"
    assert finding.summary == f"{PYTHON_AREA} has no package `sglang`"


def test_a_service_is_imported_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "served.py").write_text(
        "import pathlib\nif __name__ == '__main__':\n    pathlib.Path('ran').touch()\n"
    )
    spec = ServiceSpec(command=[sys.executable, "-m", "served", "{port}"])

    result = results(check_context(tmp_path, services={"web": spec}))["imports/services"]

    assert result.status is CheckStatus.OK
    assert result.summary.startswith("service web starts in ")
    assert not (tmp_path / "ran").exists()


def test_a_service_without_a_program_is_an_error(tmp_path: Path) -> None:
    spec = ServiceSpec(command="absent-program {port}")

    result = results(check_context(tmp_path, services={"web": spec}))["imports/services"]

    finding = result.problems[0].finding
    assert finding.summary == "service web cannot start: there is no program `absent-program`"


def test_a_console_script_does_not_import_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong module')\n")
    script = importing("script", PYTHON_AREA, "json", attribute="loads")
    module = importing("module", PYTHON_AREA, "json")

    ended = start_all([script, module], check_context(tmp_path))

    assert [each.exit_code for each in ended if not isinstance(each, str)] == [0, 1]


def test_at_most_two_are_started_at_once(tmp_path: Path) -> None:
    # Each leaves a file while it runs, and counts the files.
    program = (
        "import os, pathlib, sys\n"
        "mine = pathlib.Path(f'running-{os.getpid()}'); mine.touch()\n"
        "print(len(list(pathlib.Path().glob('running-*'))))\n"
        "mine.unlink()"
    )
    words = (sys.executable, "-S", "-c", program)
    entries = [EntryCommand(name=str(number), words=words) for number in range(6)]

    ended = start_all(entries, check_context(tmp_path))

    counts = [int(each.stdout) for each in ended if not isinstance(each, str)]
    assert len(counts) == len(entries)
    assert max(counts) <= 2


def test_one_that_hangs_is_unknown_with_its_line_and_the_rest_had_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_points, "TOGETHER_S", 1.0)
    (tmp_path / "hangs.py").write_text("import time\n\n\ntime.sleep(600)\n")
    command = shlex.join([sys.executable, "-m", "hangs"])
    settings = DoctorSettings(entry_points=[command, command, "true"])

    result = results(check_context(tmp_path, settings=settings))["imports/commands"]

    assert result.unknown is not None
    assert f'it was in File "{tmp_path}/hangs.py", line 4 in <module>' in result.unknown
    assert "were over before its turn" in result.unknown
