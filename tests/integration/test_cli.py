# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: what all commands share, and how every error ends."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ci_doctor import cli
from ci_doctor.commands.listing import COMMANDS
from tests.support.cli import (
    Ran,
    after_shell,
    doctor,
    environment,
    inside,
    python_program,
    words,
)

pytestmark = pytest.mark.integration

# What changes something on the machine or starts something.
CHANGING = {"setup-env", "run", "correctness", "preload install", "preload remove"}
HEAVY = {"msgspec", "git", "vcs_versioning", "rich", "httpx", "asyncio", "psutil"}


def leaves() -> list[str]:
    """Every command that people type, as they type it."""
    return list(_leaves_of(cli.root))


def _leaves_of(group: click.Group) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {below}" for below in _leaves_of(command))
        else:
            yield name


def imported(*arguments: str, cwd: Path, **variables: str) -> set[str]:
    """The modules that a run of ci-doctor has imported when it ends."""
    program = (
        "import sys\n"
        "import ci_doctor.__main__\n"
        "from ci_doctor.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(*sys.modules, file=open('modules', 'w'))\n"
    )
    python_program(program, *arguments, check=False, cwd=cwd, env=environment(variables))
    return set((cwd / "modules").read_text().split())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    return tmp_path


@pytest.mark.parametrize("command", leaves())
@pytest.mark.gate(6)
def test_every_command_has_help_json_and_a_report_directory(command: str, tmp_path: Path) -> None:
    ran = doctor(*command.split(), "--help", cwd=tmp_path)
    assert ran.code == 0, ran
    for option in ("--json", "--report-dir", *(["--dry-run"] if command in CHANGING else [])):
        assert option in ran.out, ran


def test_help_groups_the_commands(tmp_path: Path) -> None:
    ran = inside("--help", cwd=tmp_path)
    assert re.findall(r"^(Check|Run|Judge|Explain|Report):$", ran.out, re.MULTILINE) == [
        "Check",
        "Run",
        "Judge",
        "Explain",
        "Report",
    ]
    assert "plugin" not in ran.out


def test_a_newcomer_gets_eight_lines_and_the_status_of_a_usage_error(tmp_path: Path) -> None:
    ran = inside(cwd=tmp_path)
    assert (ran.code, ran.out) == (2, ""), ran
    assert "New here?" in ran.err, ran
    assert len(ran.err.splitlines()) == 8, ran


@pytest.mark.parametrize("line", [["preload"], ["config"]])
def test_without_a_command_help_is_shown_and_the_status_is_that_of_a_usage_error(
    line: list[str], tmp_path: Path
) -> None:
    ran = inside(*line, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, ""), ran
    assert "Usage:" in ran.err, ran


@pytest.mark.parametrize(
    ("line", "near"),
    [
        (["corectness"], "`correctness`"),
        (["setup_env"], "`setup-env`"),
        (["preload", "remov"], "`remove`"),
        (["config", "shwo"], "`show`"),
        (["setup-env", "--projct", "."], "--project"),
        (["correctness", "--retrys", "3"], "--retries"),
        (["--versoin"], "--version"),
    ],
)
def test_the_nearest_name_is_offered(line: list[str], near: str, tmp_path: Path) -> None:
    ran = inside(*line, cwd=tmp_path)
    assert ran.code == 2, ran
    assert f"did you mean {near}?" in ran.err, ran


def test_an_unknown_command_with_json_is_a_report_too(tmp_path: Path) -> None:
    ran = inside("nonsense", "--json", cwd=tmp_path)
    assert (ran.code, json.loads(ran.out)["exit_code"]) == (2, 2), ran


class TestBugs:
    """An exception that nobody expected, by a dependency that is broken."""

    def run(self, tmp_path: Path, module: str, *arguments: str) -> Ran:
        broken = tmp_path / "broken"
        broken.mkdir()
        (broken / f"{module}.py").write_text("raise RuntimeError('on purpose')")
        path = f"{broken}{os.pathsep}{environment()['PYTHONPATH']}"
        return doctor(*arguments, cwd=tmp_path, env={"PYTHONPATH": path})

    def test_is_70_with_a_text_to_paste_and_is_in_the_report(self, tmp_path: Path) -> None:
        ran = self.run(tmp_path, "httpx", "correctness", "--report-dir", "r")
        assert ran.code == 70, ran
        assert "a bug in ci-doctor: RuntimeError: on purpose" in ran.err, ran
        assert "command: ci-doctor correctness --report-dir r" in ran.err, ran
        assert "Traceback (most recent call last)" in ran.err, ran
        report = json.loads((tmp_path / "r" / "report.json").read_text())
        assert (report["exit_code"], report["verdict"]) == (70, None)
        assert "RuntimeError: on purpose" in report["error"]["detail"]

    @pytest.mark.parametrize("module", ["click", "msgspec"])
    def test_is_70_where_even_the_report_cannot_be_made(self, module: str, tmp_path: Path) -> None:
        ran = self.run(tmp_path, module, "nonsense")
        assert ran.code == 70, ran
        assert "on purpose" in ran.err, ran


class TestStreams:
    @pytest.mark.parametrize("unbuffered", [None, "1"])
    @pytest.mark.parametrize(
        "line", ["--help", "config show", "config show --json", "config show 2>&1"]
    )
    @pytest.mark.gate(4)
    def test_a_reader_that_goes_away_is_no_error(
        self, line: str, unbuffered: str | None, tmp_path: Path
    ) -> None:
        # The pipe has no reader from the start, so the first write fails, whatever the timing.
        line, _, both = line.partition(" 2>")
        reader, writer = os.pipe()
        os.close(reader)
        ended = subprocess.run(
            words(*line.split()),
            cwd=tmp_path,
            env=environment({"PYTHONUNBUFFERED": unbuffered}),
            stdout=writer,
            stderr=writer if both else subprocess.PIPE,
            check=False,
        )
        os.close(writer)
        assert ended.returncode == 141
        assert not ended.stderr, ended.stderr

    @pytest.mark.parametrize(
        "arguments", [["config", "show"], ["nonsense"], ["setup-env"], ["--help"]]
    )
    def test_no_escapes_where_nobody_looks(self, arguments: list[str], project: Path) -> None:
        ran = doctor(*arguments, cwd=project)
        assert "\x1b" not in ran.out + ran.err, ran

    @pytest.mark.parametrize(
        ("changes", "coloured"),
        [
            ({"TERM": "xterm"}, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, False),
            ({"TERM": "dumb"}, False),
            ({"TERM": None}, False),
        ],
    )
    @pytest.mark.parametrize("line", ["config show", "nonsense"])
    @pytest.mark.gate(4)
    def test_a_terminal_has_colours_if_it_can_show_them_and_nobody_objects(
        self, line: str, changes: dict[str, str | None], coloured: bool, project: Path
    ) -> None:
        master, terminal = os.openpty()
        ended = subprocess.run(
            words(*line.split()),
            cwd=project,
            env=environment({"NO_COLOR": None, **changes}),
            stdout=terminal,
            stderr=terminal,
            check=False,
        )
        shown = os.read(master, 4096)
        os.close(terminal)
        os.close(master)
        assert ended.returncode in {0, 2}
        assert (b"\x1b[" in shown) == coloured, shown


class TestStartUp:
    def test_the_version_is_shown_without_any_library_but_click(self, project: Path) -> None:
        assert (
            imported("--version", cwd=project)
            & (HEAVY | {"ci_doctor.commands.setup_env", "importlib.metadata"})
            == set()
        )

    def test_the_help_of_a_command_imports_no_other_command(self, project: Path) -> None:
        modules = imported("wait", "--help", cwd=project)
        commands = {f"ci_doctor.commands.{name.replace('-', '_')}" for name in COMMANDS}
        assert modules & commands == {"ci_doctor.commands.wait"}

    @pytest.mark.parametrize("text", ["", '[project]\nname = "x"\nversion = "1"\n'])
    def test_preparing_outside_of_a_checkout_imports_nothing_of_measuring_and_of_git(
        self, text: str, tmp_path: Path
    ) -> None:
        if text:
            (tmp_path / "pyproject.toml").write_text(text)
        modules = imported("setup-env", cwd=tmp_path)
        assert "ci_doctor.environment.pins" in modules
        assert (
            modules
            & {
                "httpx",
                "asyncio",
                "rich.console",
                "rich.style",
                "psutil",
                "ci_doctor.correctness",
                "ci_doctor.services",
                "git",
                "gitdb",
                "vcs_versioning",
            }
            == set()
        )

    def test_measuring_imports_nothing_of_preparing(self, project: Path) -> None:
        modules = imported("correctness", cwd=project)
        assert "ci_doctor.correctness" in modules
        assert (
            modules & {"git", "vcs_versioning", "ci_doctor.preload", "ci_doctor.environment.pins"}
            == set()
        )

    def test_comparing_loads_nothing_of_caches_and_stores_that_it_does_not_use(
        self, project: Path
    ) -> None:
        request = {"id": "r0", "body": {"prompt": "x"}}
        (project / "requests.jsonl").write_text(json.dumps(request) + "\n")
        arms = ("--baseline", "false {port}", "--candidate", "false {port}")
        command = ("correctness", "--requests", "requests.jsonl", *arms, "--report-dir", "out")

        modules = imported(
            *command, "--policy", "any", "--retries", "1", cwd=project, CI_DOCTOR_STATE_DIR="state"
        )

        # It has got as far as its first starts.
        assert (project / "out" / "logs" / "A1").is_dir()
        ours = ("ci_doctor.caches", "ci_doctor.store", "obstore", "cryptography")
        assert [name for name in modules if name.startswith(ours)] == []

    def test_both_ways_to_start_say_the_same(self, project: Path) -> None:
        script = Path(sys.executable).with_name("ci-doctor")
        if not script.exists():
            pytest.skip("not installed")
        shown = subprocess.run(
            [script, "--version"], env=environment(), capture_output=True, text=True, check=True
        ).stdout
        assert doctor("--version", cwd=project).out == shown
        assert re.fullmatch(r"ci-doctor \d+\.\S+\n", shown)


def test_config_show_says_where_each_value_is_from(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text(
        '[correctness]\nretries = 5\n\n[exit-codes]\ninfra = 255\n\n[services.a]\ncommand = "serve"\n'
    )
    ran = inside(
        "config",
        "show",
        cwd=tmp_path,
        env={"CI_DOCTOR_CORRECTNESS_PASSES": "2", "CI_DOCTOR_EXIT_CODES_VOID": "99"},
    )
    for line in (
        "retries 5 ci-doctor.toml:2",
        "passes 2 environment CI_DOCTOR_CORRECTNESS_PASSES",
        "concurrency 40 default",
        "infra 255 ci-doctor.toml:5",
        "void 99 environment CI_DOCTOR_EXIT_CODES_VOID",
        'command "serve" ci-doctor.toml:8',
    ):
        assert line in [" ".join(shown.split()) for shown in ran.out.splitlines()], ran


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.gate(1)
def test_a_narrow_encoding_of_stdout_loses_no_report(encoding: str, tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": encoding}
    (tmp_path / "ci-doctor.toml").write_text('[setup-env]\nprojects = ["日本"]\n')
    ran = doctor("config", "show", cwd=tmp_path, env=env)
    assert (ran.code, r"\u65e5\u672c" in ran.out) == (0, True), ran
    ran = doctor("config", "show", "--json", "--report-dir", "out", cwd=tmp_path, env=env)
    assert json.loads(ran.out)["facts"]["values"]["setup-env"]["projects"]["value"] == ["日本"]
    assert doctor("report", "out", cwd=tmp_path, env=env).code == 0
    for form in ("markdown", "junit", "json"):
        plain = doctor("report", "out", "--format", form, cwd=tmp_path)
        assert doctor("report", "out", "--format", form, cwd=tmp_path, env=env).out == plain.out


@pytest.mark.parametrize(
    ("env", "sign"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "x ERROR"),
        ({"PYTHONIOENCODING": "ascii", "BUILDKITE": "true"}, "✗ ERROR"),
        ({"PYTHONIOENCODING": "cp1252:strict"}, "x ERROR"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "x ERROR"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "GITHUB_ACTIONS": "true"}, "✗ ERROR"),
    ],
)
@pytest.mark.gate(2)
def test_a_sign_is_a_sign_in_every_locale(env: dict[str, str], sign: str, tmp_path: Path) -> None:
    ran = doctor("wiat", cwd=tmp_path, env=env)

    assert sign in ran.err, ran
    assert "\\u" not in ran.err, ran


@pytest.mark.parametrize(
    "line", [["setup-env"], ["run", "--", "true"], ["config", "show"], ["preload", "status"]]
)
@pytest.mark.gate(2)
def test_a_working_directory_that_is_gone_is_said(line: list[str], tmp_path: Path) -> None:
    ran = doctor(*line, cwd=tmp_path, before=after_shell("mkdir gone; cd gone; rmdir ../gone"))
    assert ran.code == 75, ran
    assert "working directory" in ran.err
    assert "a bug in ci-doctor" not in ran.err


LONG = "a" * 300


@pytest.mark.parametrize(
    ("line", "env"),
    [
        (["setup-env", "--project", LONG], {}),
        (["setup-env", "--report-dir", LONG], {}),
        (["setup-env", "--python", f"./{LONG}"], {}),
        (["setup-env", "--output", LONG], {}),
        (["setup-env"], {"CI_DOCTOR_REPORT_DIR": LONG}),
        (["config", "show", "--config", LONG], {}),
        (["report", LONG], {}),
    ],
)
@pytest.mark.gate(3)
def test_a_path_that_cannot_be_looked_at_is_a_usage_error(
    line: list[str], env: dict[str, str], project: Path
) -> None:
    ran = inside(*line, cwd=project, env=env)
    assert ran.code == 2, ran
    assert ran.out in {"", "(exit 2)\n"}, ran


@pytest.mark.parametrize("files", [5, 6, 8, 12, 20])
@pytest.mark.parametrize(
    "line",
    [
        ["wait", "--pid", "self", "--ready", "tcp://127.0.0.1:1", "--timeout", "0"],
        ["launch", "--service", "a=sleep 60", "--ready", "a=exec:true", "--", "true"],
        ["config", "show"],
    ],
    ids=lambda line: line[0],
)
@pytest.mark.gate(4)
def test_too_few_files_are_the_machines_fault_and_no_bug(
    line: list[str], files: int, tmp_path: Path
) -> None:
    line = [str(os.getpid()) if word == "self" else word for word in line]
    ran = doctor(*line, cwd=tmp_path, before=after_shell(f"ulimit -n {files}"))
    # 1: there were enough of them for the wait itself.
    assert ran.code in {0, 75} or (line[0], ran.code) == ("wait", 1), ran
    assert ran.code != 75 or "ulimit -n" in ran.err, ran
    assert "a bug in ci-doctor" not in ran.err
