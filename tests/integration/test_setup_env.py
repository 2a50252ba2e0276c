# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor setup-env` on real git repositories, evaluated by real shells."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import stand_in_agent
from tests.support.cli import Ran, environment, inside, words
from tests.support.git_repository import commit, git, make_repository
from tests.support.report_schema import checked_report

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}"))
    for name in ("bash", "dash", "zsh")
]
PIN = "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_PKG"
COMMIT = "SETUPTOOLS_SCM_PRETEND_METADATA_FOR_PKG"
PYPROJECT = """
[build-system]
requires = ["setuptools>=64", "setuptools-scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
dynamic = ["version"]
[tool.setuptools_scm]
"""


def make_project(root: Path, name: str = "pkg", tag: str = "v1.2.0") -> Path:
    make_repository(root, {"pyproject.toml": PYPROJECT.format(name=name)})
    git(root, "tag", tag)
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fixtures below are copies of: six starts of git, and one of venv, for each test would be most of its time."""
    directory = tmp_path_factory.mktemp("made")
    git(make_project(directory / "project"), "tag", "nightly-cu13")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
    return directory


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A project at v1.2.0 with a tag on its head that is no version."""
    # The times of the files too: git takes a file with another time for one that may have changed.
    return Path(shutil.copytree(made / "project", tmp_path / "project"))


@pytest.fixture(scope="module")
def prepared(made: Path) -> Ran:
    """What `setup-env` says of that project, for tests that only read it."""
    return inside("setup-env", cwd=made / "project")


@pytest.fixture
def venv(made: Path, tmp_path: Path) -> Path:
    """A real virtual environment without pip. It knows its own place by that of its interpreter."""
    return Path(shutil.copytree(made / "venv", tmp_path / "venv", symlinks=True))


@pytest.fixture
def on_path(tmp_path: Path) -> str:
    """A PATH on which `ci-doctor` is this working tree."""
    command = tmp_path / "bin" / "ci-doctor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ci_doctor "$@"\n')
    command.chmod(0o755)
    return f"{command.parent}{os.pathsep}{os.environ['PATH']}"


def exported(ran: Ran) -> dict[str, str]:
    """What the exports on stdout come to, as bash reads them."""
    return evaluated("bash", ran.out)


def evaluated(shell: str, text: str) -> dict[str, str]:
    dump = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(b'='.join(i) for i in os.environb.items()))"
    ended = subprocess.run(
        [shell, "-c", f'eval "$1"; exec "{sys.executable}" -c "$2"', shell, text, dump],
        env={"PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
    )
    pairs = (entry.partition(b"=") for entry in ended.stdout.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def script(
    shell: str, text: str, *, cwd: Path, path: str, env: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, "-c", text],
        cwd=cwd,
        env=environment({"PATH": path, **(env or {})}),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def report_of(ran: Ran) -> dict[str, Any]:
    return checked_report(ran.out)


class TestExports:
    @pytest.mark.parametrize("shell", SHELLS)
    @pytest.mark.gate(1)
    def test_a_shell_evaluates_them(self, shell: str, project: Path, on_path: str) -> None:
        ended = script(
            shell,
            f'set -eu; eval "$(ci-doctor setup-env 2>/dev/null)"; echo "${PIN} $CUBLAS_WORKSPACE_CONFIG"',
            cwd=project,
            path=on_path,
        )
        assert (ended.returncode, ended.stdout) == (0, "1.2.0 :4096:8\n"), ended

    def test_the_bad_tag_is_named_on_stderr_and_the_exports_stand_alone_on_stdout(
        self, prepared: Ran
    ) -> None:
        assert prepared.code == 0, prepared
        *lines, comment = prepared.out.strip().splitlines()
        assert all(line.startswith("export ") for line in lines), prepared
        # Last, so that an evaluation without quotes loses nothing.
        assert comment == "# pkg: NOT proven by a build (not tried: no build was asked for)"
        assert "nightly-cu13" in prepared.err, prepared

    def test_a_pin_is_tried_by_a_build_unless_that_is_turned_off(self, project: Path) -> None:
        as_shipped: dict[str, str | None] = {"CI_DOCTOR_SETUP_ENV_VERIFY": None}

        ran = inside("setup-env", cwd=project, env=as_shipped)
        assert "; proven by a build" in " ".join(ran.err.split()), ran
        assert ran.out.strip().splitlines()[-1] == "# pkg: proven by a build"

        ran = inside("setup-env", "--verify", "never", cwd=project, env=as_shipped)
        assert ran.code == 0, ran
        assert "built" not in ran.err, ran
        assert "NOT proven by a build" in " ".join(ran.err.split()), ran

    @pytest.mark.nightly
    def test_dotenv_github_and_json_say_the_same(self, project: Path, prepared: Ran) -> None:
        expected = {name: value for name, value in exported(prepared).items() if name != "PWD"}
        dotenv, github, as_json = (
            inside("setup-env", "--format", each, cwd=project).out
            for each in ("dotenv", "github", "json")
        )
        unquoted = [line.replace("'", "") for line in dotenv.splitlines()]
        assert dict(line.split("=", 1) for line in unquoted).items() <= expected.items()
        assert github.splitlines() == unquoted
        assert json.loads(as_json).items() <= expected.items()
        assert f"{PIN}=1.2.0" in unquoted

    def test_a_name_that_is_no_name_is_never_evaluated(self, tmp_path: Path) -> None:
        root = make_project(tmp_path / "p", name="a$(touch pwned)b")
        ran = inside("setup-env", cwd=root)
        assert ran.code != 0, ran
        assert subprocess.run(["bash", "-c", ran.out], cwd=root, check=False).returncode == ran.code
        assert not (root / "pwned").exists()

    def test_an_output_file_holds_them_until_a_run_fails(self, project: Path) -> None:
        line, file = ("setup-env", "--output", "out/env.sh"), project / "out" / "env.sh"
        ran = inside(*line, cwd=project)
        assert (ran.code, ran.out, "prepared" in ran.err) == (0, "", True), ran
        assert evaluated("bash", file.read_text())[PIN] == "1.2.0"
        before = file.stat().st_ino
        again = inside(*line, cwd=project)
        assert "nothing to change" in again.err, again
        assert file.stat().st_ino == before  # a write would have replaced the file
        failed = inside(*line, "--project", "gone", cwd=project)
        assert (failed.code, failed.out) == (2, ""), failed
        # Old exports cannot be sourced after a failure; in another format there is no failing line.
        assert file.read_text() == "(exit 2)\n"
        (project / ".env").write_text("OLD=1\n")
        dotenv = ("--format", "dotenv", "--output", ".env", "--project", "gone")
        assert inside("setup-env", *dotenv, cwd=project).code == 2
        assert not (project / ".env").exists()

    def test_an_output_that_is_no_file_is_left_alone(self, project: Path) -> None:
        ran = inside("setup-env", "--output", "/dev/null", cwd=project)
        assert ran.code == 2, ran
        assert not Path("/dev/null").is_file()

    @pytest.mark.parametrize("unbuffered", [None, "1"])
    @pytest.mark.gate(1)
    def test_a_full_disk_is_not_the_changes_fault(
        self, unbuffered: str | None, project: Path
    ) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full")
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(
                words("setup-env"),
                cwd=project,
                env=environment({"PYTHONUNBUFFERED": unbuffered}),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert (ended.returncode, "Traceback" in ended.stderr) == (75, False), ended.stderr


class TestFailing:
    """The shell format fails closed."""

    ERRORS = (
        pytest.param(["--no-such-option"], {}, 2, id="unknown option"),
        pytest.param(["--project", "gone"], {}, 2, id="missing project"),
        pytest.param(["--config", "gone.toml"], {}, 2, id="missing configuration"),
        pytest.param(["--report-dir", "file"], {}, 2, id="report directory is a file"),
        pytest.param(["--determinism", "very"], {}, 2, id="unknown profile"),
        pytest.param([], {"CI_DOCTOR_SETUP_ENV_DETERMINISM": "very"}, 2, id="broken variable"),
        pytest.param(["--venv", "gone"], {}, 2, id="missing venv"),
        pytest.param([], {PIN: "no version"}, 1, id="refused"),
    )

    @pytest.mark.parametrize(("options", "env", "code"), ERRORS)
    @pytest.mark.gate(1)
    def test_what_an_error_prints_stops_a_script_under_set_e(
        self, options: list[str], env: dict[str, str], code: int, project: Path
    ) -> None:
        (project / "file").touch()
        ran = inside("setup-env", *options, cwd=project, env={**env})
        assert ran.code == code, ran
        for shell in filter(shutil.which, ("bash", "dash", "zsh")):
            ended = subprocess.run(
                [shell, "-c", 'set -e; eval "$1"; echo went on', shell, ran.out.rstrip("\n")],
                capture_output=True,
                check=False,
            )
            assert (ended.returncode, ended.stdout) == (code, b""), (shell, ended)

    @pytest.mark.parametrize(
        "line", ["setup_env", "set-env", "setup-env --format shel", "--json setup-env"]
    )
    @pytest.mark.gate(1)
    def test_a_line_that_is_mistyped_stops_a_script_too(
        self, line: str, project: Path, on_path: str
    ) -> None:
        ended = script(
            "bash", f'set -e; eval "$(ci-doctor {line})"; echo went on', cwd=project, path=on_path
        )
        assert (ended.returncode == 0, "went on" in ended.stdout) == (False, False), ended

    @pytest.mark.parametrize("shell", SHELLS)
    @pytest.mark.gate(1)
    def test_without_set_e_the_status_is_that_of_eval(
        self, shell: str, project: Path, on_path: str
    ) -> None:
        ended = script(
            shell,
            'eval "$(ci-doctor setup-env --nonsense 2>/dev/null)"; echo $?',
            cwd=project,
            path=on_path,
        )
        assert ended.stdout == "2\n"

    def test_a_shallow_clone_is_refused_unless_asked_for(
        self, project: Path, tmp_path: Path
    ) -> None:
        commit(project, {"after": "the tag"})
        clone = tmp_path / "clone"
        git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", str(clone))
        refused = inside("setup-env", cwd=clone)
        assert (refused.code, refused.out) == (1, "(exit 1)\n"), refused
        assert "version/shallow-clone" in refused.err, refused
        assert PIN in exported(inside("setup-env", "--allow-fallback", cwd=clone))

    @pytest.mark.parametrize("module", ["vcs_versioning", "msgspec", "click"])
    @pytest.mark.parametrize(
        "fault", ["raise RuntimeError('broken on purpose')", "raise SystemExit(0)"]
    )
    @pytest.mark.gate(1)
    def test_a_bug_is_70_and_stops_the_script(
        self, module: str, fault: str, project: Path, on_path: str, tmp_path: Path
    ) -> None:
        broken = tmp_path / "broken"
        broken.mkdir()
        (broken / f"{module}.py").write_text(fault)
        path = f"{broken}{os.pathsep}{environment()['PYTHONPATH']}"
        text = 'set -e; eval "$(ci-doctor setup-env)"; echo went on'
        ended = script("bash", text, cwd=project, path=on_path, env={"PYTHONPATH": path})
        assert (ended.returncode, ended.stdout) == (70, ""), ended
        assert "Traceback" in ended.stderr, ended

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    @pytest.mark.gate(1)
    def test_a_signal_while_it_runs_stops_the_script(
        self, number: signal.Signals, code: int, project: Path, on_path: str, tmp_path: Path
    ) -> None:
        fifo, tools = tmp_path / "fifo", tmp_path / "tools"
        os.mkfifo(fifo)
        tools.mkdir()
        (tools / "git").write_text(f'#!/bin/sh\necho $PPID > "{fifo}"\nexec sleep 60\n')
        (tools / "git").chmod(0o755)
        reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        with subprocess.Popen(
            ["bash", "-c", 'set -e; eval "$(ci-doctor setup-env)"; echo went on'],
            cwd=project,
            env=environment({"PATH": f"{tools}{os.pathsep}{on_path}"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as shell:
            assert select.select([reader], [], [], 30)[0], "git was not asked"
            os.kill(int(os.read(reader, 100)), number)
            out, err = shell.communicate(timeout=180)
        os.close(reader)
        assert (shell.returncode, out) == (code, ""), err

    def test_a_dry_run_that_fails_leaves_the_output_file(self, project: Path) -> None:
        (project / "env.sh").write_text("mine\n")
        line = ("setup-env", "--dry-run", "--output", "env.sh", "--project", "gone")
        assert inside(*line, cwd=project).code == 2
        assert (project / "env.sh").read_text() == "mine\n"

    def test_stderr_may_be_closed_and_stdout_may_not(self, project: Path, on_path: str) -> None:
        text = f'eval "$(ci-doctor setup-env 2>&-)"; echo "${PIN}"; exec ci-doctor setup-env >&-'
        ended = script("bash", text, cwd=project, path=on_path)
        # An error of whoever closed it.
        assert (ended.stdout, ended.returncode) == ("1.2.0\n", 2), ended
        assert "stdout is closed" in ended.stderr, ended


class TestRunningItAgain:
    def test_changes_nothing_says_so_and_follows_the_next_commit(
        self, project: Path, prepared: Ran
    ) -> None:
        first = _ours(prepared)
        again = inside("setup-env", cwd=project, env={**first})
        assert (again.code, "nothing to change" in again.err) == (0, True), again
        commit(project, {"next": ""})
        second = _ours(inside("setup-env", cwd=project, env={**first}))
        assert (first[PIN], second[PIN][:11]) == ("1.2.0", "1.2.1.dev1+"), second

    def test_a_persons_pin_is_kept_and_reported(self, project: Path) -> None:
        ran = inside("setup-env", cwd=project, env={PIN: "9.9"})
        assert ran.code == 0, ran
        assert PIN not in exported(ran)
        assert f"{PIN}=9.9 is set and stays" in ran.err.replace("\n  ", " "), ran


def _ours(ran: Ran) -> dict[str, str]:
    """The exported variables of a run, and no others."""
    lines = [line for line in ran.out.strip().splitlines() if not line.startswith("#")]
    names = [line.removeprefix("export ").partition("=")[0] for line in lines]
    values = exported(ran)
    return {name: values[name] for name in names}


class TestProjects:
    def test_two_projects_get_a_pin_each(self, tmp_path: Path) -> None:
        one, two = (
            make_project(tmp_path / "1", "one", "v1.0"),
            make_project(tmp_path / "2", "two", "v2.0"),
        )
        pins = exported(inside("setup-env", "--project", one, "--project", two, cwd=tmp_path))
        assert pins["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ONE"] == "1.0"
        assert pins["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_TWO"] == "2.0"


class TestWithoutAProject:
    def test_determinism_is_set_and_the_pins_are_skipped_with_a_note(self, tmp_path: Path) -> None:
        ran = inside("setup-env", cwd=tmp_path)
        assert ran.code == 0, ran
        assert _ours(ran)["PYTHONHASHSEED"] == "0"
        assert "setup-env/no-project" in ran.err

    @pytest.mark.parametrize("way", ["flag", "file", "variable"])
    @pytest.mark.gate(1)
    def test_a_named_project_that_is_not_there_is_a_usage_error(
        self, tmp_path: Path, way: str
    ) -> None:
        words = ["setup-env"]
        env = {}
        if way == "flag":
            words += ["--project", "."]
        elif way == "file":
            (tmp_path / "ci-doctor.toml").write_text('[setup-env]\nprojects = ["."]\n')
        else:
            env = {"CI_DOCTOR_SETUP_ENV_PROJECTS": '["."]'}
        ran = inside(*words, cwd=tmp_path, env=env)
        assert (ran.code, ran.out) == (2, "(exit 2)\n"), ran
        assert "has no pyproject.toml" in " ".join(ran.err.split())


class TestDeterminism:
    def test_off_sets_nothing(self, project: Path) -> None:
        assert set(_ours(inside("setup-env", "--determinism", "off", cwd=project))) == {
            PIN,
            COMMIT,
            "CI_DOCTOR_EXPORTS",
            "CI_DOCTOR_PREPARED",
        }

    def test_a_value_of_the_users_is_kept_and_one_without_effect_is_a_finding(
        self, project: Path
    ) -> None:
        env = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "NCCL_DETERMINISTIC": "1"}
        ran = inside("setup-env", cwd=project, env=env)
        assert "CUBLAS_WORKSPACE_CONFIG" not in _ours(ran)
        assert "determinism/no-effect" in ran.err, ran
        # How it was done is for a reader who asks.
        assert "Determinism, as requested" not in ran.err
        assert "Interpreters" not in ran.err
        shown = inside("setup-env", "--dry-run", cwd=project, env=env)
        assert "CUBLAS_WORKSPACE_CONFIG=:16:8  (the environment)" in shown.err, shown

    def test_strict_says_that_it_is_not_what_is_shipped_and_what_it_left_is_a_finding(
        self, project: Path
    ) -> None:
        strict = inside("setup-env", "--determinism", "strict", cwd=project)
        assert _ours(strict)["VLLM_BATCH_INVARIANT"] == "1"
        assert "determinism/strict" in strict.err, strict
        ran = inside("setup-env", cwd=project, env={**_ours(strict)})
        assert "determinism/left-over" in ran.err, ran
        assert "unset VLLM_BATCH_INVARIANT" in ran.err, ran


class TestPreload:
    RULE = "app.main=json:JSONDecoder"

    def site(self, venv: Path) -> Path:
        (found,) = venv.glob("lib/python3*/site-packages")
        return found

    def test_it_is_installed_shown_and_removed(self, project: Path, venv: Path) -> None:
        site = self.site(venv)
        before = sorted(site.iterdir())
        ran = inside("setup-env", "--venv", venv, "--preload", self.RULE, cwd=project)
        assert ran.code == 0, ran
        assert str(site) in ran.err, ran
        assert self.RULE in inside("preload", "status", "--venv", venv, cwd=project).out
        again = inside(
            "setup-env", "--venv", venv, "--preload", self.RULE, cwd=project, env={**_ours(ran)}
        )
        assert "nothing to change" in again.err, again
        assert inside("preload", "remove", "--venv", venv, cwd=project).code == 0
        assert sorted(site.iterdir()) == before

    def test_a_dry_run_installs_nothing(self, project: Path, venv: Path) -> None:
        before = sorted(self.site(venv).rglob("*"))
        line = ("--venv", venv, "--preload", self.RULE, "--dry-run", "--output", "env.sh")
        ran = inside("setup-env", *line, cwd=project)
        assert (ran.code, ran.out) == (0, ""), ran
        assert "would change" in ran.err, ran
        assert sorted(self.site(venv).rglob("*")) == before
        assert not (project / "env.sh").exists()

    @pytest.mark.parametrize("place", ["active", "of the project", "on PATH"])
    @pytest.mark.gate(1)
    def test_the_default_is_the_active_environment_else_the_projects_own_else_that_on_path(
        self, place: str, project: Path, venv: Path
    ) -> None:
        env, target = {"VIRTUAL_ENV": str(venv)}, venv / "bin" / "python"
        if place == "of the project":
            venv.rename(project / ".venv")
            env, target = {}, project / ".venv" / "bin" / "python"
        elif place == "on PATH":
            env = {"PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
            target = venv / "bin" / "python3"
        ran = inside(
            "setup-env", "--preload", self.RULE, "--dry-run", "--json", cwd=project, env=env
        )
        assert report_of(ran)["facts"]["targets"] == [str(target)], ran

    def test_our_own_interpreter_is_not_taken_without_a_word(self, project: Path) -> None:
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        ran = inside(
            "setup-env", "--preload", self.RULE, "--dry-run", cwd=project, env={"PATH": path}
        )
        assert "setup-env/own-interpreter" in ran.err, ran

    def test_a_rule_that_is_none_changes_nothing(self, project: Path, venv: Path) -> None:
        before = sorted(self.site(venv).rglob("*"))
        ran = inside("setup-env", "--venv", venv, "--preload", "nonsense", cwd=project)
        assert (ran.code, ran.out) == (2, "(exit 2)\n"), ran
        assert sorted(self.site(venv).rglob("*")) == before


class TestReports:
    def test_json_is_one_document_on_stdout_and_the_talk_is_on_stderr(self, project: Path) -> None:
        report = report_of(inside("setup-env", "--json", cwd=project))
        assert (report["verdict"], report["exit_code"], report["command"]) == (
            "pass",
            0,
            "setup-env",
        )
        assert report["facts"]["exports"][PIN] == "1.2.0"

    @pytest.mark.parametrize("line", [("--project", "gone"), ("--output", "pyproject.toml/env.sh")])
    def test_json_of_a_failure_is_one_document_too(
        self, line: tuple[str, str], project: Path
    ) -> None:
        ran = inside("setup-env", "--json", *line, cwd=project)
        report = report_of(ran)
        assert (ran.code, report["verdict"], report["exit_code"]) == (2, None, 2)
        assert report["error"]["hint"] or line[0] == "--output"

    @pytest.mark.nightly
    def test_a_jobs_directory_gets_a_folder_for_each_run(
        self, project: Path, tmp_path: Path
    ) -> None:
        for _ in range(2):
            inside("setup-env", cwd=project, env={"CI_DOCTOR_REPORT_DIR": str(tmp_path / "all")})
        inside("../../../escape", cwd=project, env={"CI_DOCTOR_REPORT_DIR": str(tmp_path / "all")})
        assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
            "setup-env",
            "setup-env-2",
        ]

    @pytest.mark.nightly
    def test_a_secret_in_the_command_line_is_in_no_report(self, project: Path) -> None:
        secret = "hunter2hunter2"
        line = ("setup-env", "--report-dir", "r", f"--nope={secret}")
        ran = inside(*line, cwd=project, env={"MY_TOKEN": secret})
        told = ran.out + ran.err + "".join(path.read_text() for path in (project / "r").iterdir())
        assert secret not in told


class TestBuildkite:
    def job(self, tmp_path: Path, **more: str) -> dict[str, str]:
        stand_in_agent.install(tmp_path / "agent", tmp_path / "agent.jsonl", **more)
        return {
            "PATH": f"{tmp_path / 'agent'}{os.pathsep}{os.environ['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_JOB_ID": "0190046e-e199-453b-a302-a21a4d649d31",
            "BUILDKITE_AGENT_JOB_API_SOCKET": str(tmp_path / "socket"),
        }

    def test_the_jobs_own_environment_is_set_too(self, project: Path, tmp_path: Path) -> None:
        ran = inside("setup-env", cwd=project, env={**self.job(tmp_path)})
        (call,) = stand_in_agent.calls(tmp_path / "agent.jsonl")
        assert call["environment"] == _ours(ran)

    def test_an_agent_that_fails_is_a_note_and_no_more(self, project: Path, tmp_path: Path) -> None:
        ran = inside("setup-env", cwd=project, env={**self.job(tmp_path, failing="env")})
        assert ran.code == 0, ran
        assert "setup-env/agent" in ran.err, ran

    def test_a_dry_run_does_not_ask_it(self, project: Path, tmp_path: Path) -> None:
        inside("setup-env", "--dry-run", cwd=project, env={**self.job(tmp_path)})
        assert stand_in_agent.calls(tmp_path / "agent.jsonl") == []
