# SPDX-License-Identifier: Apache-2.0
"""Runs a plugin's hooks around a command as `buildkite-agent bootstrap` does.

What is copied, from github.com/buildkite/agent (agent/plugin/plugin.go, internal/job/hook/wrapper.go and executor.go):
the plugin's configuration becomes variables that only its own hooks see, and none at all where a null is in it; each
hook is sourced by a wrapper, without -e; what it changed in the environment is applied to what comes later, unless the
hook failed or called exit; a failing pre-command hook skips the command and post-command; pre-exit always runs, and its
failure is the job's; the command runs under `/bin/bash -e -c`.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

NOT_APPLIED = {"_", "SHLVL", "BUILDKITE_HOOK_EXIT_STATUS", "BUILDKITE_HOOK_WORKING_DIR"}
# Of internal/env/protected.go, those that matter here.
PROTECTED = {
    "BUILDKITE_AGENT_ACCESS_TOKEN",
    "BUILDKITE_BIN_PATH",
    "BUILDKITE_BUILD_PATH",
    "BUILDKITE_HOOKS_PATH",
}


@dataclass
class Job:
    """One job: `plugin` is the plugin's directory, `configuration` what the pipeline gives it."""

    plugin: Path
    checkout: Path
    temporary: Path
    command: str
    environment: dict[str, str]
    configuration: object = field(default_factory=dict)
    flat_variables_only: bool = False  # as agents before 3.28.1
    # Of the same plugin, where the step lists it more than once.
    other_configurations: list[object] = field(default_factory=list)
    log: str = ""
    phases: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.working_directory = self.checkout
        self.environment |= {
            "BUILDKITE": "true",
            "CI": "true",
            "BUILDKITE_BUILD_CHECKOUT_PATH": str(self.checkout),
            "BUILDKITE_COMMAND": self.command,
        }

    def run(self) -> int:
        """Run all phases and give the job's exit status."""
        location = f"./buildkite_plugins/{self.plugin.name}"
        self.environment["BUILDKITE_PLUGINS"] = json.dumps(
            [{location: each} for each in (self.configuration, *self.other_configurations)]
        )
        status = self._hooks("environment") or self._hooks("pre-command")
        if status == 0:
            status = self._command()
            self.environment["BUILDKITE_COMMAND_EXIT_STATUS"] = str(status)
            status = (
                self._hooks("post-command")
                or int(self.environment["BUILDKITE_COMMAND_EXIT_STATUS"]) % 256
            )
        return self._hooks("pre-exit") or status

    def _hooks(self, name: str) -> int:
        """The hook of each plugin of the step; the first that fails is the last."""
        for configuration in (self.configuration, *self.other_configurations):
            status = self._hook(name, configuration)
            if status:
                return status
        return 0

    def _hook(self, name: str, configuration: object) -> int:
        hook = self.plugin / "hooks" / name
        if not hook.exists():
            return 0
        before, after = self.temporary / f"{name}-before", self.temporary / f"{name}-after"
        after.write_bytes(b"")
        wrapper = self.temporary / f"{name}-wrapper"
        wrapper.write_text(
            f"{hook.read_text().splitlines()[0]}\n"
            f"env -0 > {shlex.quote(str(before))}\n"
            f". {shlex.quote(str(hook))}\n"
            "export BUILDKITE_HOOK_EXIT_STATUS=$?\n"
            'export BUILDKITE_HOOK_WORKING_DIR="$PWD"\n'
            f"env -0 > {shlex.quote(str(after))}\n"
            "exit $BUILDKITE_HOOK_EXIT_STATUS\n"
        )
        wrapper.chmod(0o755)
        variables = plugin_variables(
            self.plugin.name, configuration, flat_only=self.flat_variables_only
        )
        status = self._run(name, [str(wrapper)], self.environment | variables)
        if status == 0:
            self._apply(_read(before), _read(after))
        else:
            self.environment["BUILDKITE_LAST_HOOK_EXIT_STATUS"] = str(status)
        return status

    def _command(self) -> int:
        return self._run("command", ["/bin/bash", "-e", "-c", self.command], self.environment)

    def _run(self, phase: str, argv: list[str], environment: Mapping[str, str]) -> int:
        ended = subprocess.run(
            argv,
            env=environment,
            cwd=self.working_directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=180,
        )
        self.log += ended.stdout.decode(errors="replace")
        self.phases.append((phase, ended.returncode))
        return ended.returncode

    def _apply(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if not after:  # the hook called exit
            return
        self.working_directory = Path(after["BUILDKITE_HOOK_WORKING_DIR"])
        for name in before.keys() | after.keys():
            if name in NOT_APPLIED | PROTECTED or before.get(name) == after.get(name):
                continue
            if name in after:
                self.environment[name] = after[name]
            else:
                self.environment.pop(name, None)


def plugin_variables(
    name: str, configuration: object, *, flat_only: bool = False
) -> dict[str, str]:
    """The variables that the agent makes of a plugin's configuration, for its hooks alone."""
    upper = name.upper().replace("-", "_")
    prefix = f"BUILDKITE_PLUGIN_{upper}"
    try:
        variables = _flatten(prefix, {} if configuration is None else configuration)
    except ValueError:
        return {}
    if flat_only:
        return variables
    return variables | {
        "BUILDKITE_PLUGIN_NAME": upper,
        "BUILDKITE_PLUGIN_CONFIGURATION": json.dumps(configuration),
    }


def _flatten(prefix: str, value: object) -> dict[str, str]:
    match value:
        case None:
            raise ValueError("a null cannot become a variable")
        case dict():
            items = [
                (str(key).upper().replace("-", "_").replace(" ", "_"), item)
                for key, item in value.items()
            ]
        case list():
            items = [(str(index), item) for index, item in enumerate(value)]
        case str():
            return {prefix: value}
        case _:
            return {prefix: json.dumps(value)}
    flat: dict[str, str] = {}
    for key, item in items:
        flat |= _flatten(f"{prefix}_{key}", item)
    return flat


def _read(dump: Path) -> dict[str, str]:
    entries = (entry.partition(b"=") for entry in dump.read_bytes().split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
