# SPDX-License-Identifier: Apache-2.0
"""Runs the hooks of a step's plugins around its command as `buildkite-agent bootstrap` does.

What is copied, from github.com/buildkite/agent (internal/job/executor.go, hooks.go and plugin.go, internal/job/hook/
wrapper.go, agent/plugin/plugin.go, env/protected.go), and compared with agents built from v3.20.0
and v4.0.0-beta.15, the latter also with the experiment `legacy-post-hook-order`. A plugin whose source begins with a full stop is vendored: it is loaded after the checkout, and its hooks come after those
of all other plugins. What the tests of this repository have no use for is left out: artifact hooks, the job API, the
validation of plugins, and hooks that are no shell scripts.

- Each hook is sourced by a wrapper without `-e`. The difference of the environments before and after it is applied, unless
  the hook called `exit`. Protected variables stay. (internal/job/hook/wrapper.go, env/protected.go)
- The dump of the environment is JSON: bytes that are not UTF-8 become U+FFFD. (clicommand/env_dump.go)
- A variable of the job that a hook unsets is there again in the next process. (internal/process/process.go (`setup`))
- Plugins that are not vendored come first, in the order of the list, then vendored ones. If the checkout fails, vendored
  plugins do not run at all. (internal/job/plugin.go (`VendoredPluginPhase`))
- v4: post-command and pre-exit run plugins from last to first, then the repository, then the agent. v3: the agent, the
  repository, the plugins. (internal/job/hooks.go)
- The job's status is that of a failing hook, else `BUILDKITE_COMMAND_EXIT_STATUS` after post-command. What is no number
  counts as 0. A signal is -1, and ends the job with 255. (internal/job/executor.go (`Run`), internal/shell/shell.go
  (`ExitCode`))
- A cancelled job: SIGTERM to the group of the running command or pre-command hook, SIGKILL after the grace period. No later
  process of these phases starts, and a command that could not start has status 1. (internal/job/executor.go,
  internal/process/process.go)
- post-command has the grace period from its start, pre-exit from the cancellation: a post-command hook that takes all of it
  leaves no pre-exit. (internal/job/grace.go)
- `BUILDKITE_JOB_CANCELLED` and `_TIMED_OUT` reach the hooks that start after the cancellation, not the one that runs.
  (internal/job/executor.go (`Cancel`))
- A plugin's name comes from its source: `ci-doctor.git` is `ci-doctor-git`. A null in a configuration drops all of its
  variables. (agent/plugin/plugin.go)
- With `enable-job-log-tmpfile` the job's log is a file, each line with a time mark (APC `_bk;t=`). Read in the source, not
  compared. (agent/job_runner.go, internal/process/timestamper.go)
"""

import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.job_processes import SPAWNING, JobProcesses
from tests.support.plugin_environment import plugin_name, plugin_variables

NOT_APPLIED = {"_", "SHLVL", "BUILDKITE_HOOK_EXIT_STATUS", "BUILDKITE_HOOK_WORKING_DIR"}
# Of env/protected.go, those that no hook may change.
PROTECTED = {
    "BUILDKITE_AGENT_ACCESS_TOKEN",
    "BUILDKITE_AGENT_ENDPOINT",
    "BUILDKITE_BIN_PATH",
    "BUILDKITE_BUILD_PATH",
    "BUILDKITE_COMMAND_EVAL",
    "BUILDKITE_HOOKS_PATH",
    "BUILDKITE_HOOKS_SHELL",
    "BUILDKITE_PLUGINS_PATH",
    "BUILDKITE_SHELL",
}
# The agent's own binary dumps the environment, whatever PATH is.
_ENV = shutil.which("env") or "/usr/bin/env"


@dataclass(frozen=True)
class StepPlugin:
    """An entry of a step's `plugins:`; `directory` is where its source, `location`, comes to lie."""

    directory: Path
    configuration: object = None
    location: str = ""

    @property
    def source(self) -> str:
        return self.location or f"./buildkite_plugins/{self.directory.name}"

    @property
    def is_vendored(self) -> bool:
        return self.source.startswith(".")


@dataclass
class Job:
    """One job: `plugin` is the plugin's directory, `configuration` what the pipeline gives it.

    A process of the job that writes to the file `$CANCEL_JOB` cancels it.
    """

    plugin: Path
    checkout: Path
    temporary: Path
    command: str
    environment: dict[str, str]
    configuration: object = field(default_factory=dict)
    location: str = ""
    # Of the same plugin, where the step lists it more than once.
    other_configurations: list[object] = field(default_factory=list)
    plugins_before: list[StepPlugin] = field(default_factory=list)
    plugins_after: list[StepPlugin] = field(default_factory=list)
    agent_hooks: Path | None = None
    version: int = 4  # 3: post-command and pre-exit hooks run in the order of the others
    checkout_status: int = 0
    hooks_shell: tuple[str, ...] = ()
    terminal: bool = False
    keeps_log_file: bool = False  # as with the agent's option enable-job-log-tmpfile
    times_out: bool = False  # the cancellation is that of the step's timeout
    grace_s: float = 10.0
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
        self._plugins = [
            *self.plugins_before,
            StepPlugin(self.plugin, self.configuration, self.location),
            *(StepPlugin(self.plugin, each, self.location) for each in self.other_configurations),
            *self.plugins_after,
        ]
        self._folder = Path(tempfile.mkdtemp(dir=self.temporary))
        self._processes = JobProcesses(self._folder, grace_s=self.grace_s, terminal=self.terminal)
        listed = [{each.source: each.configuration} for each in self._plugins]
        self.environment["BUILDKITE_PLUGINS"] = json.dumps(listed)
        self.environment["CANCEL_JOB"] = str(self._processes.cancel)
        if self.keeps_log_file:
            self.environment["BUILDKITE_JOB_LOG_TMPFILE"] = str(self._processes.log_file)
        # What the agent starts the bootstrap with reaches each process, also if a hook has unset it.
        self._given = dict(self.environment)
        self._checked_out = False
        try:
            return self._run_phases() % 256
        finally:
            self._processes.close()
            self.log = self._processes.output.decode(errors="replace")

    def _run_phases(self) -> int:
        status = self._prepare() or self._hooks("pre-command")
        if status == 0:
            command = self._command()
            self.environment["BUILDKITE_COMMAND_EXIT_STATUS"] = str(command)
            if command:
                self._processes.say("^^^ +++")
                self._processes.say(f"🚨 Error: The command exited with status {command}\n^^^ +++")
            # A phase's failure is the job's; else what the variable says by now.
            status = self._hooks("post-command", grace_from=time.monotonic()) or _atoi(
                self.environment.get("BUILDKITE_COMMAND_EXIT_STATUS", "")
            )
        return self._hooks("pre-exit", grace_from=0.0) or status

    def _prepare(self) -> int:
        """The environment hooks, and the checkout; vendored plugins are there only after it."""
        loaded = [each for each in self._plugins if not each.is_vendored]
        vendored = [each for each in self._plugins if each.is_vendored]
        self._plugins = loaded
        status = self._hooks("environment") or self.checkout_status
        if status:
            return status
        self._checked_out = True
        self._plugins = [*loaded, *vendored]
        return self._plugin_hooks("environment", vendored)

    def _hooks(self, name: str, *, grace_from: float | None = None) -> int:
        """The hooks of the agent, the repository and the plugins; the first that fails is the last."""
        is_reversed = self.version >= 4 and name in ("post-command", "pre-exit")
        own = [each for each in self._own_hooks(name) if each[1].exists()]
        if is_reversed:
            return self._plugin_hooks(name, self._plugins[::-1], grace_from) or self._files(
                name, own[::-1], grace_from
            )
        return self._files(name, own, grace_from) or self._plugin_hooks(
            name, self._plugins, grace_from
        )

    def _own_hooks(self, name: str) -> Iterator[tuple[str, Path]]:
        if self.agent_hooks is not None:
            yield "agent", self.agent_hooks / name
        if self._checked_out and name != "environment":
            yield "repository", self.checkout / ".buildkite" / "hooks" / name

    def _files(self, name: str, hooks: list[tuple[str, Path]], grace_from: float | None) -> int:
        for scope, hook in hooks:
            status = self._hook(f"{scope} {name}", name, hook, {}, grace_from)
            if status:
                return status
        return 0

    def _plugin_hooks(
        self, name: str, plugins: list[StepPlugin], grace_from: float | None = None
    ) -> int:
        for each in plugins:
            hook = each.directory / "hooks" / name
            if not hook.exists():
                continue
            plugin = plugin_name(each.source)
            variables = plugin_variables(plugin, each.configuration)
            status = self._hook(f"plugin {plugin} {name}", name, hook, variables, grace_from)
            if status:
                return status
        return 0

    def _hook(
        self,
        title: str,
        name: str,
        hook: Path,
        variables: dict[str, str],
        grace_from: float | None,
    ) -> int:
        self._processes.say(f"~~~ Running {title} hook\n$ {hook}")
        before, after = self._folder / "before", self._folder / "after"
        after.write_bytes(b"")
        status = self._process(
            name, self._wrapped(hook, before, after), self.environment | variables, grace_from
        )
        self.environment["BUILDKITE_LAST_HOOK_EXIT_STATUS"] = str(status)
        if status == 0:
            self._apply(_read(before), _read(after))
        return status

    def _wrapped(self, hook: Path, before: Path, after: Path) -> list[str]:
        first = hook.read_text().split("\n", 1)[0]
        shebang = f"{first}\n" if first.startswith("#!") else ""
        wrapper = self._folder / "wrapper"
        with SPAWNING:
            wrapper.write_text(
                f"{shebang}{_ENV} -0 > {shlex.quote(str(before))}\n"
                f". {shlex.quote(str(hook))}\n"
                "export BUILDKITE_HOOK_EXIT_STATUS=$?\n"
                'export BUILDKITE_HOOK_WORKING_DIR="$PWD"\n'
                f"{_ENV} -0 > {shlex.quote(str(after))}\n"
                "exit $BUILDKITE_HOOK_EXIT_STATUS\n"
            )
        wrapper.chmod(0o755)
        if self.hooks_shell:
            return [*self.hooks_shell, str(wrapper)]
        return [str(wrapper)] if shebang else ["/bin/bash", str(wrapper)]

    def _command(self) -> int:
        """A plugin's command hook in place of the command, else the repository's, else the agent's."""
        plugins = [each for each in self._plugins if (each.directory / "hooks/command").exists()]
        if plugins:
            return self._plugin_hooks("command", plugins)
        own = [each for each in self._own_hooks("command") if each[1].exists()]
        if own:
            return self._files("command", own[-1:], None)
        self._processes.say(f"~~~ Running commands\n$ {self.command}")
        script = self.working_directory / self.command.replace("\n", "")
        line = self.command
        if os.path.isfile(script):  # noqa: PTH113 - a name that is too long is no file
            script.chmod(script.stat().st_mode | 0o111)
            line = f"./{script.relative_to(self.working_directory)}"
        return self._process("command", ["/bin/bash", "-e", "-c", line], self.environment, None)

    def _process(
        self,
        phase: str,
        argv: list[str],
        environment: dict[str, str],
        grace_from: float | None,
    ) -> int:
        if self._processes.cancelled_at is not None:
            self._note_cancellation()
        status = self._processes.run(
            argv, self._given | environment, self.working_directory, grace_from=grace_from
        )
        if status is None:
            return 1  # shell.ExitCode of an error that is no exit status
        self.phases.append((phase, status))
        return status

    def _note_cancellation(self) -> None:
        cancelled = {"BUILDKITE_JOB_CANCELLED": "true"}
        if self.times_out:
            cancelled["BUILDKITE_JOB_TIMED_OUT"] = "true"
        self.environment |= cancelled
        self._given |= cancelled

    def _apply(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if not after:  # the hook called exit
            return
        self.working_directory = Path(after["BUILDKITE_HOOK_WORKING_DIR"])
        for name in sorted(before.keys() | after.keys()):
            if name in NOT_APPLIED | PROTECTED or before.get(name) == after.get(name):
                continue
            if name in after:
                self._processes.say(f"# {name} {'changed' if name in before else 'added'}")
                self.environment[name] = after[name]
            else:
                self._processes.say(f"# {name} removed")
                self.environment.pop(name, None)


def _atoi(text: str) -> int:
    """As strconv.Atoi without a look at its error: 0 for what is no number."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else 0


def _read(dump: Path) -> dict[str, str]:
    """The dump is JSON there: bytes that are not UTF-8 are lost."""
    entries = (entry.partition(b"=") for entry in dump.read_bytes().split(b"\0") if entry)
    return {os.fsdecode(name): value.decode(errors="replace") for name, _, value in entries}
