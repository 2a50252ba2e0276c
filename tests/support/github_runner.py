# SPDX-License-Identifier: Apache-2.0
"""A stand-in for GitHub's runner: the jobs of a workflow, their steps, and the steps of a composite action.

What is copied, and from where (WS is https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax):

- a `run:` with `shell: bash` is a file that `bash --noprofile --norc -eo pipefail {0}` runs in `working-directory`, and a
  composite action must name its shell (WS, jobs.<job_id>.steps[*].shell; …/metadata-syntax, runs.steps[*].shell);
- the files of GITHUB_ENV, GITHUB_PATH and GITHUB_OUTPUT are read after each step, as NAME=VALUE or NAME<<DELIMITER, and
  no step may set GITHUB_*, RUNNER_* or NODE_OPTIONS by them (…/workflow-commands; actions/runner, FileCommandManager.cs);
- inputs of a composite action are there as `inputs` alone, without variables; its outputs are read also if it failed; its
  steps know the status of their own action (…/metadata-syntax; actions/runner, CompositeActionHandler.cs);
- `if:`, `continue-on-error`, `needs`, `outputs` of a job, `env` of workflow, job and step (WS); each job has a machine of its
  own, so a workspace of its own.

actions/checkout and actions/setup-python do nothing: the workspace is there. actions/upload-artifact keeps the names of
the files that its `path` names. Everything else that a workflow may hold is left out.
"""

import glob
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.github_expressions import holds, render

_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
_REFUSED = re.compile(r"(GITHUB|RUNNER)_|NODE_OPTIONS$")
_NOTHING = ("actions/checkout", "actions/setup-python")


@dataclass(frozen=True)
class JobResult:
    """A job that has ended; `result` is success, failure or skipped."""

    result: str
    outputs: dict[str, str]
    log: str = ""
    summary: str = ""
    artifacts: tuple[str, ...] = ()


@dataclass
class Runner:
    """One machine; `actions` are the directories of actions by what stands before the `@` of `uses:`."""

    workspace: Path
    temporary: Path
    actions: Mapping[str, Path]
    environment: dict[str, str]
    log: str = ""
    summary: str = ""
    artifacts: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    _steps_run: int = 0

    def run_job(
        self, job: Mapping[str, Any], needs: Mapping[str, Any], env: Mapping[str, str]
    ) -> JobResult:
        contexts: dict[str, Any] = {"needs": needs, "steps": {}, "github": {}, "inputs": {}}
        own = {**env, **_rendered(job.get("env", {}), contexts)}
        failed = self._run_steps(job["steps"], contexts, own)
        outputs = _rendered(job.get("outputs", {}), contexts)
        return JobResult(
            "failure" if failed else "success",
            outputs,
            self.log,
            self.summary,
            tuple(self.artifacts),
        )

    def run_action(self, directory: Path, inputs: Mapping[str, str]) -> JobResult:
        """An action as the only step of a job."""
        self.actions = {**self.actions, "the/action": directory}
        step = {"id": "action", "uses": "the/action@v1.2.3", "with": dict(inputs)}
        contexts: dict[str, Any] = {"steps": {}}
        failed = self._run_steps([step], contexts, {})
        outputs = contexts["steps"]["action"]["outputs"]
        return JobResult("failure" if failed else "success", outputs, self.log, self.summary)

    def _run_steps(
        self, steps: Sequence[Mapping[str, Any]], contexts: dict[str, Any], env: Mapping[str, str]
    ) -> bool:
        """Whether one of them failed."""
        failed = False
        for step in steps:
            if not holds(step.get("if"), contexts, failed=failed):
                outcome, outputs = "skipped", dict[str, str]()
            else:
                self.log += f"##[step]{step.get('name', step.get('uses', 'run'))}\n"
                ended, outputs = self._run_step(step, contexts, env, failed)
                outcome = "success" if ended else "failure"
            continues = step.get("continue-on-error") is True
            failed = failed or (outcome == "failure" and not continues)
            conclusion = "success" if outcome == "failure" and continues else outcome
            if "id" in step:
                contexts["steps"][step["id"]] = {
                    "outcome": outcome,
                    "conclusion": conclusion,
                    "outputs": outputs,
                }
        return failed

    def _run_step(
        self,
        step: Mapping[str, Any],
        contexts: dict[str, Any],
        env: Mapping[str, str],
        failed: bool,
    ) -> tuple[bool, dict[str, str]]:
        own = {**env, **_rendered(step.get("env", {}), contexts, failed=failed)}
        if "run" in step:
            script = render(step["run"], contexts, failed=failed)
            place = self.workspace / render(step.get("working-directory", "."), contexts)
            return self._script(script, place, own, contexts)
        name, _, ref = step["uses"].partition("@")
        given = _rendered(step.get("with", {}), contexts, failed=failed)
        if name in _NOTHING:
            return True, {}
        if name == "actions/upload-artifact":
            return self._upload(given), {}
        return self._composite(self.actions[name], ref, given, own)

    def _composite(
        self, directory: Path, ref: str, given: Mapping[str, str], env: Mapping[str, str]
    ) -> tuple[bool, dict[str, str]]:
        action = yaml.safe_load((directory / "action.yml").read_text(encoding="utf-8"))
        declared = action["inputs"]
        assert given.keys() <= declared.keys(), f"not declared: {given.keys() - declared.keys()}"
        inputs = {name: given.get(name, each.get("default", "")) for name, each in declared.items()}
        github = {"action_path": str(directory), "action_ref": ref}
        contexts: dict[str, Any] = {"inputs": inputs, "steps": {}, "github": github}
        assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
        failed = self._run_steps(action["runs"]["steps"], contexts, env)
        outputs = {
            name: render(each["value"], contexts, failed=failed)
            for name, each in action["outputs"].items()
        }
        return not failed, outputs

    def _script(
        self, script: str, place: Path, env: Mapping[str, str], contexts: Mapping[str, Any]
    ) -> tuple[bool, dict[str, str]]:
        self._steps_run += 1
        folder = self.temporary / "_runner_file_commands" / str(self._steps_run)
        folder.mkdir(parents=True)
        files = {name: folder / name for name in ("ENV", "PATH", "OUTPUT", "STEP_SUMMARY")}
        for file in files.values():
            file.touch()
        program = folder / "script.sh"
        program.write_text(script, encoding="utf-8")
        variables = {**self.environment, **env}
        variables["PATH"] = ":".join([*reversed(self.path), variables["PATH"]])
        variables |= {f"GITHUB_{name}": str(file) for name, file in files.items()}
        variables |= self._defaults(contexts)
        ended = subprocess.run(
            [*_BASH, str(program)],
            cwd=place,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.log += ended.stdout.decode(errors="replace")
        if ended.returncode:
            self.log += f"##[error]Process completed with exit code {ended.returncode}.\n"
        self.summary += files["STEP_SUMMARY"].read_text(encoding="utf-8")
        self.path += filter(None, files["PATH"].read_text(encoding="utf-8").splitlines())
        for name, value in pairs(files["ENV"].read_text(encoding="utf-8")).items():
            assert not _REFUSED.match(name), f"GitHub refuses {name} in GITHUB_ENV"
            self.environment[name] = value
        return ended.returncode == 0, pairs(files["OUTPUT"].read_text(encoding="utf-8"))

    def _defaults(self, contexts: Mapping[str, Any]) -> dict[str, str]:
        github = contexts.get("github", {})
        return {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_ACTION_PATH": github.get("action_path", ""),
            "RUNNER_TEMP": str(self.temporary),
        }

    def _upload(self, given: Mapping[str, str]) -> bool:
        """With `if-no-files-found: error` a step without a file fails."""
        for pattern in given["path"].split("\n"):
            for found in glob.glob(pattern.strip(), root_dir=self.workspace, recursive=True):  # noqa: PTH207
                place = self.workspace / found
                files = (
                    [each for each in place.rglob("*") if each.is_file()]
                    if place.is_dir()
                    else [place]
                )
                self.artifacts += [str(each.relative_to(self.workspace)) for each in files]
        return bool(self.artifacts) or given.get("if-no-files-found") != "error"


def run_workflow(text: str, make_runner: Callable[[str], Runner]) -> dict[str, JobResult]:
    """Run all jobs of a workflow in the order of its text; `make_runner` gives the machine of a job."""
    workflow = yaml.safe_load(text)
    done: dict[str, JobResult] = {}
    for name, job in workflow["jobs"].items():
        wanted = job.get("needs", [])
        names = [wanted] if isinstance(wanted, str) else wanted
        needs = {
            each: {"result": done[each].result, "outputs": done[each].outputs} for each in names
        }
        failed = any(each["result"] != "success" for each in needs.values())
        if not holds(job.get("if"), {"needs": needs}, failed=failed):
            done[name] = JobResult("skipped", {})
            continue
        done[name] = make_runner(name).run_job(job, needs, workflow.get("env", {}))
    return done


def pairs(text: str) -> dict[str, str]:
    """The content of GITHUB_ENV or GITHUB_OUTPUT."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        name, equals, value = line.partition("=")
        here, heredoc, delimiter = line.partition("<<")
        if heredoc and (not equals or len(here) < len(name)):
            kept: list[str] = []
            for inner in lines:
                if inner == delimiter:
                    break
                kept.append(inner)
            else:
                raise AssertionError(f"Matching delimiter not found {delimiter}")
            found[here] = "\n".join(kept)
        elif line:
            assert equals, f"Invalid format {line!r}"
            found[name] = value
    return found


def _rendered(
    values: Mapping[str, Any], contexts: Mapping[str, Any], *, failed: bool = False
) -> dict[str, str]:
    """Values of `env`, `with` or `outputs`; YAML may have made booleans of them."""
    made: dict[str, str] = {}
    for name, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made[name] = render(text, contexts, failed=failed)
    return made
