# SPDX-License-Identifier: Apache-2.0
"""A checkout with the Buildkite plugin in it, for jobs of tests/support/bootstrap.py."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.support import stand_in_agent
from tests.support.bootstrap import Job

REPOSITORY = Path(__file__).parents[2]
PLUGIN = REPOSITORY / "buildkite_plugins" / "ci-doctor"
JOB_ID = "0190046e-e199-453b-a302-a21a4d649d31"
SHOW = """python3 -c 'import os; print("SEEN", ascii(os.environ.get("NASTY")))'"""


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
        self.put_python()
        (folder / "temporary").mkdir()

    def put_python(self) -> None:
        """Our interpreter as `python3`. A link would lose the packages of a virtual environment."""
        python = self.bin / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)

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
        after: str = "",
    ) -> Path:
        """A `ci-doctor` that records its call and environment.

        `pre-command` prints `exports` and `last` and ends with `status`; `post-command` runs the shell code `after`.
        """
        (self.folder / "exports").write_text(exports + last)
        path = at or self.bin / "ci-doctor"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            f'echo "$0 $*" >> {shlex.quote(str(self.folder / "calls"))}\n'
            f'env > {shlex.quote(str(self.folder))}/environment-of-"$2"\n'
            f'if [ "$2" = pre-exit ]; then echo "published after ${{BUILDKITE_COMMAND_EXIT_STATUS:-none}}"; exit 9; fi\n'
            f'if [ "$2" = post-command ]; then\n{after}\nexit; fi\n'
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

    def verdicts(self) -> list[str]:
        """The verdicts in the build's meta-data."""
        metadata = stand_in_agent.metadata(self.agent_log)
        return [value for key, value in metadata.items() if key.endswith(":verdict")]

    def uploaded(self) -> list[str]:
        """The files of all uploads."""
        calls: list[dict[str, Any]] = stand_in_agent.calls(self.agent_log)
        return [name for call in calls for name in call.get("files", [])]

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

    def real_ci_doctor(self) -> None:
        """Put this repository's ci-doctor on PATH, and a Python project into the checkout."""
        executable = self.bin / "ci-doctor"
        executable.write_text(
            f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "
            "'import sys; sys.path.insert(0, sys.argv.pop(1)); from ci_doctor.__main__ import main; main()' "
            f'{shlex.quote(str(REPOSITORY))} "$@"\n'
        )
        executable.chmod(0o755)
        (self.checkout / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n')
        self.link("git")


def phases(job: Job) -> list[str]:
    """The phases that ran, in order."""
    return [phase for phase, _ in job.phases]
