# SPDX-License-Identifier: Apache-2.0
"""The Buildkite plugin's hooks, sourced by a real bash as the agent does, around a real command."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support import stand_in_agent
from tests.support.bootstrap import Job
from tests.support.cli import environment, words

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).parents[2]
PLUGIN = REPOSITORY / "buildkite_plugins" / "ci-doctor"
JOB_ID = "0190046e-e199-453b-a302-a21a4d649d31"
NASTY = 'it\'s "so"\n$HOME `id` \\ ;\n\ngröße'
SHOW = """python3 -c 'import os; print("SEEN", ascii(os.environ.get("NASTY")))'"""
# buildkite-plugin-linter, lib/plugin-yaml-schema.yml
DEFINITION_SCHEMA = {
    "type": "object",
    "required": ["name", "description", "author", "requirements", "configuration"],
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "author": {"type": "string"},
        "requirements": {"type": "array", "items": {"type": "string"}},
        "configuration": {
            "type": "object",
            "required": ["properties"],
            "properties": {
                "properties": {"type": "object"},
                "required": {"type": "array"},
                "additionalProperties": {"type": "boolean"},
            },
        },
    },
}


class Workplace:
    """A checkout with the plugin in it, a PATH of our own, and a stand-in agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "check out"
        self.bin = folder / "bin"
        self.agent_log = folder / "agent.jsonl"
        self.plugin = self.checkout / "buildkite_plugins" / "ci-doctor"
        shutil.copytree(PLUGIN, self.plugin)
        stand_in_agent.install(self.bin, self.agent_log)
        for program in ("env", "dirname", "cat", "mkdir"):
            self.link(program)
        (self.bin / "python3").symlink_to(sys.executable)
        (folder / "temporary").mkdir()

    def link(self, program: str) -> None:
        found = shutil.which(program)
        assert found
        (self.bin / program).symlink_to(found)

    def stand_in(
        self,
        *,
        exports: str = "export STOOD_IN=1\n",
        last: str = "export CI_DOCTOR_REPORT_DIR=reports\n",
        status: int = 0,
        at: Path | None = None,
    ) -> Path:
        """A `ci-doctor` that records its call and environment, prints `exports` and `last`, and ends `pre-command` with `status`."""
        (self.folder / "exports").write_text(exports + last)
        path = at or self.bin / "ci-doctor"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            f'echo "$0 $*" >> {shlex.quote(str(self.folder / "calls"))}\n'
            f'env > {shlex.quote(str(self.folder))}/environment-of-"$2"\n'
            f'if [ "$2" = pre-exit ]; then echo "published after ${{BUILDKITE_COMMAND_EXIT_STATUS:-none}}"; exit 9; fi\n'
            f"cat {shlex.quote(str(self.folder / 'exports'))}\n"
            f'echo "said on stderr" >&2\n'
            f"exit {status}\n"
        )
        path.chmod(0o755)
        return path

    def calls(self) -> list[str]:
        log = self.folder / "calls"
        return (
            [line.rpartition("/")[2] for line in log.read_text().splitlines()]
            if log.exists()
            else []
        )

    def job(self, command: str = SHOW, configuration: object = None, **environment: str) -> Job:
        return Job(
            plugin=self.plugin,
            checkout=self.checkout,
            temporary=self.folder / "temporary",
            command=command,
            configuration=configuration,
            environment={
                "PATH": str(self.bin),
                "BUILDKITE_JOB_ID": JOB_ID,
                "BUILDKITE_STEP_KEY": "e2e",
                **environment,
            },
        )


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def phases(job: Job) -> list[str]:
    return [phase for phase, _ in job.phases]


def test_exports_reach_the_command_whatever_they_hold(workplace: Workplace) -> None:
    workplace.stand_in(exports=f"export NASTY={shlex.quote(NASTY)}\n")
    job = workplace.job()

    assert job.run() == 0
    assert f"SEEN {NASTY!a}" in job.log
    assert workplace.calls() == ["ci-doctor plugin pre-command", "ci-doctor plugin pre-exit"]


def test_a_failing_setup_env_fails_the_job_with_its_code_before_the_command(
    workplace: Workplace,
) -> None:
    workplace.stand_in(exports="export NASTY=half\n", last="(exit 75)\n", status=75)
    job = workplace.job()

    assert job.run() == 75
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "said on stderr" in job.log
    assert "^^^ +++" in job.log
    assert "NASTY" not in job.environment


def test_a_statement_that_fails_is_enough_to_fail_the_job(workplace: Workplace) -> None:
    workplace.stand_in(exports="", last="export CI_DOCTOR_REPORT_DIR=reports\n(exit 2)\n")
    job = workplace.job()

    assert job.run() == 2
    assert phases(job) == ["pre-command", "pre-exit"]


def test_a_ci_doctor_that_is_killed_fails_the_job(workplace: Workplace) -> None:
    killed = workplace.bin / "ci-doctor"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)

    assert workplace.job().run() == 137


@pytest.mark.parametrize("printed", ["", "# report\n", "export STOOD_IN=1\n"])
def test_a_ci_doctor_that_prints_not_all_fails_the_job_whatever_its_status(
    workplace: Workplace, printed: str
) -> None:
    workplace.stand_in(exports=printed, last="")
    job = workplace.job()

    assert job.run() == 75
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "printed no exports" in job.log


@pytest.mark.parametrize("status", [0, 1, 3, 137])
def test_the_reports_are_published_after_any_command_and_its_status_stands(
    workplace: Workplace, status: int
) -> None:
    workplace.stand_in()
    job = workplace.job(f"exit {status}")

    assert job.run() == status
    assert f"published after {status}" in job.log
    assert "the reports are not published (status 9)" in job.log


def test_the_reports_are_published_after_a_failing_pre_command(workplace: Workplace) -> None:
    workplace.stand_in(status=1)
    job = workplace.job()

    assert job.run() == 1
    assert "published after none" in job.log


def test_the_hooks_see_the_options_and_the_command_does_not(workplace: Workplace) -> None:
    workplace.stand_in()
    job = workplace.job("env", {"projects": ["a", "b"], "setup-env": False})

    assert job.run() == 0
    seen = (workplace.folder / "environment-of-pre-command").read_text()
    assert 'BUILDKITE_PLUGIN_CONFIGURATION={"projects": ["a", "b"], "setup-env": false}' in seen
    assert "BUILDKITE_PLUGIN_CI_DOCTOR_PROJECTS_1=b" in seen
    assert "BUILDKITE_PLUGIN_CONFIGURATION" not in job.log


@pytest.mark.parametrize("flat_variables_only", [False, True])
def test_the_executable_option_wins_over_the_path(
    workplace: Workplace, flat_variables_only: bool
) -> None:
    workplace.stand_in(status=1)
    other = workplace.stand_in(
        exports="export NASTY=other\n", at=workplace.folder / "with space" / "doctor"
    )
    job = workplace.job(configuration={"executable": str(other)})
    job.flat_variables_only = flat_variables_only

    assert job.run() == 0
    assert "SEEN 'other'" in job.log
    assert workplace.calls() == ["doctor plugin pre-command", "doctor plugin pre-exit"]


def test_an_executable_option_relative_to_the_checkout(workplace: Workplace) -> None:
    workplace.stand_in(exports="export NASTY=other\n", at=workplace.checkout / "tools" / "doctor")
    job = workplace.job(configuration={"executable": "tools/doctor"})

    assert job.run() == 0
    assert "SEEN 'other'" in job.log


def test_an_executable_that_cannot_run_is_not_replaced_by_another(workplace: Workplace) -> None:
    workplace.stand_in()
    job = workplace.job(configuration={"executable": "./gone"})

    assert job.run() == 2
    assert phases(job) == ["pre-command", "pre-exit"]
    assert "option `executable` names ./gone, which is not an executable file" in job.log
    assert workplace.calls() == []


def test_no_ci_doctor_anywhere_is_said_once_with_code_2(workplace: Workplace) -> None:
    (workplace.bin / "python3").unlink()  # which may have ci-doctor installed
    job = workplace.job()

    assert job.run() == 2
    assert phases(job) == ["pre-command", "pre-exit"]
    assert job.log.count("ci-doctor: not found") == 1
    assert "name it by the plugin's option `executable`" in job.log


def test_a_vendored_ci_doctor_runs_without_being_installed_and_leaves_no_trace_in_the_environment(
    workplace: Workplace,
) -> None:
    package = workplace.checkout / "ci_doctor"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cli.py").touch()
    (package / "__main__.py").write_text(
        "import os, sys\n"
        "print('export NASTY=' + '-'.join([*sys.argv[1:], os.environ.get('PYTHONPATH', 'unset')]))\n"
        "print('export CI_DOCTOR_REPORT_DIR=reports')\n"
    )
    (workplace.checkout / "runpy.py").write_text(
        "raise SystemExit('the checkout shadows the standard library')\n"
    )
    job = workplace.job()

    assert job.run() == 0
    assert "SEEN 'plugin-pre-command-unset'" in job.log


def test_the_stand_in_bootstrap_drops_the_exports_of_a_hook_that_exits(
    workplace: Workplace,
) -> None:
    workplace.stand_in(exports="export NASTY=lost; exit 0\n")
    job = workplace.job()

    assert job.run() == 0
    assert "SEEN None" in job.log


@pytest.mark.parametrize("hook", sorted((PLUGIN / "hooks").iterdir()), ids=lambda path: path.name)
def test_hooks_are_short_and_executable(hook: Path) -> None:
    assert len(hook.read_text().splitlines()) <= 30
    assert os.access(hook, os.X_OK)


def test_shellcheck_has_nothing_to_say() -> None:
    shellcheck = shutil.which(
        "shellcheck", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    )
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    files = [
        str(path) for folder in ("hooks", "lib") for path in sorted((PLUGIN / folder).iterdir())
    ]

    ended = subprocess.run(
        [shellcheck, *files], cwd=PLUGIN, capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def definition() -> dict[str, Any]:
    loaded = yaml.safe_load((PLUGIN / "plugin.yml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_plugin_yml_is_what_the_linter_asks_for() -> None:
    jsonschema.validate(definition(), DEFINITION_SCHEMA)
    jsonschema.Draft202012Validator.check_schema(definition()["configuration"])


def test_the_examples_of_the_readme_are_valid_configurations() -> None:
    fences = re.findall(r"```ya?ml\n(.*?)```", (PLUGIN / "README.md").read_text(), re.DOTALL)
    found = [
        configuration
        for fence in fences
        for step in yaml.safe_load(fence)["steps"]
        for plugin in step["plugins"]
        for location, configuration in plugin.items()
        if location.endswith("/ci-doctor")
    ]

    assert found
    for configuration in found:
        jsonschema.validate(configuration, definition()["configuration"])


def test_the_readme_names_every_option() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", (PLUGIN / "README.md").read_text(), re.MULTILINE)

    assert set(rows) - {"pre-command", "pre-exit"} == set(
        definition()["configuration"]["properties"]
    )


class TestWithTheRealCommand:
    """The same hooks, with this repository's ci-doctor."""

    @pytest.fixture
    def real(self, workplace: Workplace) -> Workplace:
        executable = workplace.bin / "ci-doctor"
        executable.write_text(
            f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "
            "'import sys; sys.path.insert(0, sys.argv.pop(1)); from ci_doctor.__main__ import main; main()' "
            f'{shlex.quote(str(REPOSITORY))} "$@"\n'
        )
        executable.chmod(0o755)
        (workplace.checkout / "pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\n'
        )
        workplace.link("git")
        return workplace

    def calls(self, workplace: Workplace, *command: str) -> list[dict[str, Any]]:
        recorded: list[dict[str, Any]] = stand_in_agent.calls(workplace.agent_log)
        return [call for call in recorded if tuple(call["argv"][: len(command)]) == command]

    def page(self, workplace: Workplace) -> dict[str, tuple[str, str]]:
        return stand_in_agent.annotations(workplace.agent_log)

    def verdict(self, workplace: Workplace) -> str | None:
        return next(
            (
                value
                for key, value in stand_in_agent.metadata(workplace.agent_log).items()
                if key.endswith(":verdict")
            ),
            None,
        )

    def test_the_profile_reaches_the_command_and_the_report_the_build(
        self, real: Workplace
    ) -> None:
        job = real.job("env", {"determinism": "default", "pythons": sys.executable})

        assert job.run() == 0, job.log
        assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
        assert f"CI_DOCTOR_REPORT_DIR={real.checkout}/ci-doctor-report/{JOB_ID}" in job.log
        (annotation,) = self.calls(real, "annotate")
        assert annotation["flags"]["--context"] == "ci-doctor:e2e:setup-env"
        (upload,) = self.calls(real, "artifact", "upload")
        assert f"{JOB_ID}/setup-env/report.json" in upload["files"]
        assert f"{JOB_ID}/setup-env/junit-{JOB_ID}.xml" in upload["files"]
        assert self.verdict(real) == "pass"

    def test_a_checkout_whose_name_is_not_utf_8_is_kept_byte_for_byte(self, tmp_path: Path) -> None:
        checkout = tmp_path / os.fsdecode(b"caf\xe9 $x")
        ended = subprocess.run(
            words("plugin", "pre-command"),
            env=environment(
                {
                    "BUILDKITE": "true",
                    "BUILDKITE_JOB_ID": JOB_ID,
                    "BUILDKITE_BUILD_CHECKOUT_PATH": str(checkout),
                    "BUILDKITE_PLUGIN_CONFIGURATION": '{"setup-env": false}',
                }
            ),
            capture_output=True,
            check=True,
        )
        shown = subprocess.run(
            [
                "sh",
                "-c",
                'eval "$1"; printf %s "$CI_DOCTOR_REPORT_DIR"',
                "sh",
                os.fsdecode(ended.stdout),
            ],
            capture_output=True,
            check=True,
        )
        assert shown.stdout == os.fsencode(checkout / "ci-doctor-report" / JOB_ID)

    @pytest.mark.parametrize(
        ("configuration", "said"),
        [
            ({"project": ".", "annotat": True}, "did you mean `annotate`?"),
            ({"determinism": "full"}, "`full` is none of"),
            ({"projects": None}, "the agent dropped all of it"),
            (["projects"], "is not a mapping"),
        ],
    )
    def test_a_wrong_option_fails_the_job_and_the_build_says_why(
        self, configuration: object, said: str, real: Workplace
    ) -> None:
        job = real.job(configuration=configuration)

        assert job.run() == 2, job.log
        assert phases(job) == ["pre-command", "pre-exit"]
        assert said in job.log
        (context, (style, body)), *others = self.page(real).items()
        assert (context, style, others) == ("ci-doctor:e2e:setup-env", "error", [])
        assert said.replace("`", "").split("?")[0] in body.replace("`", "").replace("\\", "")
        assert self.verdict(real) == "error"

    def test_a_checkout_without_a_python_project_gets_its_determinism(
        self, real: Workplace
    ) -> None:
        (real.checkout / "pyproject.toml").unlink()
        job = real.job("env", {"determinism": "strict", "pythons": sys.executable})

        assert job.run() == 0, job.log
        assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in job.log
        assert f"CI_DOCTOR_PREPARED={JOB_ID}:" in job.log
        assert "setup-env/no-project" in job.log
        assert {style for style, _ in self.page(real).values()} == {"success"}
        assert self.verdict(real) == "pass"

    def test_a_project_that_is_named_must_be_there(self, real: Workplace) -> None:
        (real.checkout / "pyproject.toml").unlink()
        job = real.job("env", {"projects": ".", "pythons": sys.executable})

        assert job.run() == 2, job.log
        assert phases(job) == ["pre-command", "pre-exit"]

    def test_a_wrong_option_leaves_the_others_true(self, real: Workplace) -> None:
        reports = real.folder / "elsewhere"
        wrong = {"project": ".", "report-dir": str(reports), "annotate": False}
        job = real.job(configuration=wrong)

        assert job.run() == 2, job.log
        assert (reports / JOB_ID / "setup-env" / "report.json").exists()
        assert self.page(real) == {}
        assert len(self.calls(real, "artifact", "upload")) == 1

    @pytest.mark.parametrize(
        "wrong", [{"project": "."}, {"projects": "gone"}, {"executable": "false"}]
    )
    def test_a_retry_that_is_cured_leaves_nothing_red(
        self, wrong: dict[str, object], real: Workplace
    ) -> None:
        real.link("false")
        assert real.job(configuration={"pythons": sys.executable, **wrong}).run() != 0
        job = real.job(
            configuration={"pythons": sys.executable},
            BUILDKITE_JOB_ID="0190-retry",
            BUILDKITE_RETRY_COUNT="1",
        )

        assert job.run() == 0, job.log
        assert {style for style, _ in self.page(real).values()} == {"success"}
        assert self.verdict(real) == "pass"

    def test_a_retry_takes_back_the_reports_that_it_does_not_make(self, real: Workplace) -> None:
        failing = f"ci-doctor launch --ready x=/ --service x={shlex.quote(sys.executable)} -- true"
        assert real.job(failing, {"setup-env": False}).run() != 0
        assert {style for style, _ in self.page(real).values()} == {"error"}

        # On another agent, with a command that makes no report.
        shutil.rmtree(real.checkout / "ci-doctor-report")
        job = real.job(
            "true",
            {"setup-env": False},
            BUILDKITE_JOB_ID="0190-retry",
            BUILDKITE_RETRY_COUNT="1",
        )

        assert job.run() == 0, job.log
        assert self.page(real) == {}
        assert self.verdict(real) == "void"

    def test_parallel_jobs_keep_their_annotations(self, real: Workplace) -> None:
        wrong = {"projects": "gone", "pythons": sys.executable}
        real.job(configuration=wrong, BUILDKITE_PARALLEL_JOB="0").run()
        for job_id, count in (("0190-b", "0"), ("0190-c", "1")):
            job = real.job(
                configuration={"pythons": sys.executable},
                BUILDKITE_JOB_ID=job_id,
                BUILDKITE_PARALLEL_JOB="1",
                BUILDKITE_RETRY_COUNT=count,
            )
            assert job.run() == 0, job.log

        assert {context: style for context, (style, _) in self.page(real).items()} == {
            "ci-doctor:e2e:0:setup-env": "error",
            "ci-doctor:e2e:1:setup-env": "success",
        }

    def test_a_job_whose_command_fails_behind_its_back_is_no_pass(self, real: Workplace) -> None:
        job = real.job("exit 3", {"pythons": sys.executable})

        assert job.run() == 3, job.log
        assert self.verdict(real) == "failed"

    def test_a_plugin_that_is_listed_twice_does_it_once(self, real: Workplace) -> None:
        job = real.job(configuration={"pythons": sys.executable})
        job.other_configurations = [job.configuration]

        assert job.run() == 0, job.log
        assert phases(job) == ["pre-command", "pre-command", "command", "pre-exit", "pre-exit"]
        assert "the step lists the plugin twice" in job.log
        assert list(self.page(real)) == ["ci-doctor:e2e:setup-env"]
        assert len(self.calls(real, "annotate")) == 1
        assert len(self.calls(real, "artifact", "upload")) == 1

    def test_a_plugin_that_is_listed_twice_with_other_options_does_both(
        self, real: Workplace
    ) -> None:
        job = real.job("env", {"pythons": sys.executable})
        job.other_configurations = [{"pythons": sys.executable, "determinism": "strict"}]

        assert job.run() == 0, job.log
        assert "the step lists the plugin twice" not in job.log
        assert sorted(self.page(real)) == ["ci-doctor:e2e:setup-env", "ci-doctor:e2e:setup-env-2"]
        assert len(self.calls(real, "annotate")) == 2

    def test_a_project_that_does_not_exist_fails_the_job_with_its_code_and_the_build_says_why(
        self, real: Workplace
    ) -> None:
        job = real.job(configuration={"projects": "gone", "pythons": sys.executable})

        assert job.run() == 2, job.log
        assert phases(job) == ["pre-command", "pre-exit"]
        (annotation,) = self.calls(real, "annotate")
        assert annotation["flags"]["--style"] == "error"
        assert "gone" in annotation["body"]

    def test_without_setup_env_only_the_report_directory_is_exported(self, real: Workplace) -> None:
        job = real.job("env", {"setup-env": False})

        assert job.run() == 0, job.log
        assert "CUBLAS_WORKSPACE_CONFIG" not in job.log
        assert "CI_DOCTOR_REPORT_DIR=" in job.log
        assert self.calls(real, "annotate") == []

    def test_reports_of_an_earlier_job_in_the_same_checkout_are_not_published(
        self, real: Workplace
    ) -> None:
        stale = real.checkout / "ci-doctor-report" / "earlier" / "correctness" / "report.json"
        stale.parent.mkdir(parents=True)
        stale.write_text(json.dumps({"schema": "ci-doctor/report/1"}))
        job = real.job("true", {"setup-env": False})

        assert job.run() == 0, job.log
        assert stand_in_agent.calls(real.agent_log) == []

    def test_annotations_can_be_switched_off(self, real: Workplace) -> None:
        job = real.job("true", {"annotate": False, "pythons": sys.executable})

        assert job.run() == 0, job.log
        assert self.calls(real, "annotate") == []
        assert len(self.calls(real, "artifact", "upload")) == 1

    def test_a_failing_agent_changes_nothing(self, real: Workplace) -> None:
        stand_in_agent.install(real.bin, real.agent_log, failing="annotate")
        job = real.job("exit 3", {"pythons": sys.executable})

        assert job.run() == 3, job.log
        assert "500 Internal Server Error" in job.log
