# SPDX-License-Identifier: Apache-2.0
"""What was typed and when: the part of a report that is the same for every command."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ci_doctor.system import clock

if TYPE_CHECKING:
    from ci_doctor.model.outcome import Failure
    from ci_doctor.model.report import Report
    from ci_doctor.model.verdict import Verdict


class Invocation(NamedTuple):
    """One run of the command line. `started` is monotonic seconds, `started_at` RFC 3339.

    It answers also where the line cannot be parsed, and needs no library: an error must find the way to its report.
    """

    argv: tuple[str, ...]
    started: float
    started_at: str

    @classmethod
    def begin(cls, argv: Sequence[str]) -> Self:
        """Now, with this command line."""
        return cls(argv=tuple(argv), started=clock.now(), started_at=clock.timestamp())

    @property
    def own_argv(self) -> tuple[str, ...]:
        """Our part of the command line: what stands before `--`."""
        return self.argv[: self.argv.index("--")] if "--" in self.argv else self.argv

    @property
    def command(self) -> str:
        """The command's name, as far as one was typed."""
        return next((word for word in self.own_argv if not word.startswith("-")), "")

    @property
    def wants_json(self) -> bool:
        """Whether `--json` was typed."""
        return "--json" in self.own_argv

    @property
    def is_dry_run(self) -> bool:
        """Whether `--dry-run` was typed."""
        return "--dry-run" in self.own_argv

    def option(self, name: str) -> str | None:
        """The value typed for an option; the last one, as the parser takes it."""
        found = None
        for index, word in enumerate(self.own_argv):
            if word == name and index + 1 < len(self.own_argv):
                found = self.own_argv[index + 1]
            elif word.startswith(f"{name}="):
                found = word.removeprefix(f"{name}=")
        return found

    @property
    def report_directory(self) -> Path | None:
        """`--report-dir`, else a folder of the command's own below `$CI_DOCTOR_REPORT_DIR`, else None."""
        named = self.option("--report-dir")
        if named:
            return Path(named)
        root = os.environ.get("CI_DOCTOR_REPORT_DIR")
        is_name = self.command.replace("-", "_").isidentifier()  # and no path, when mistyped
        return _fresh_below(Path(root), self.command) if root and is_name else None

    def report(
        self,
        *,
        verdict: "Verdict | None",
        exit_code: int,
        summary: str,
        error: "Failure | None" = None,
        **fields: Any,
    ) -> "Report":
        """A report of this run that ends now; `fields` are the other fields of Report."""
        import shlex

        from ci_doctor.model.report import Report
        from ci_doctor.version import tool_version

        return Report(
            tool_version=tool_version(),
            command=self.command,
            argv=self.argv,
            started_at=self.started_at,
            duration_s=round(clock.now() - self.started, 3),
            verdict=verdict,
            error=error,
            exit_code=int(exit_code),
            summary=summary,
            **{"reproduce": shlex.join(["ci-doctor", *self.argv]), **fields},
        )


def _fresh_below(root: Path, command: str) -> Path:
    """`root/command`, or the first of `root/command-2`, `-3` … that holds no report: a job may run a command twice."""
    number, directory = 1, root / command
    while (directory / "report.json").exists():
        number += 1
        directory = root / f"{command}-{number}"
    return directory
