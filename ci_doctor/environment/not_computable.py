# SPDX-License-Identifier: Apache-2.0
"""Pure. Why a version cannot be computed, on its way to become a finding."""

from ci_doctor.environment import rules
from ci_doctor.environment.project import Project
from ci_doctor.model.distribution import install_extra
from ci_doctor.model.finding import NextStep, ShellCommand
from ci_doctor.model.rule import Rule


class NotComputable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Raised by the adapters of the backends' libraries; `finding` is for the report."""

    def __init__(self, rule: Rule, summary: str, *, remedy: NextStep | None = None) -> None:
        super().__init__(summary)
        self.finding = rule.finding(summary, remedy=remedy or rule.remedy)


class BackendMissing(NotComputable):
    """The library of the project's build backend is in an extra that is not installed."""

    def __init__(self, project: Project, extra: str) -> None:
        self.remedy = install_extra(extra)
        super().__init__(
            rules.BACKEND_MISSING,
            f"{project.label} is built by {project.tool}, which is not installed beside ci-doctor",
            remedy=ShellCommand(self.remedy),
        )


def backend_fails(project: Project, error: Exception) -> NotComputable:
    """The reason if the backend's own code raised `error` for `project`."""
    lines = str(error).splitlines()
    first_line = lines[0] if lines else ""
    return NotComputable(
        rules.NOT_COMPUTABLE,
        f"{project.tool} cannot compute a version for {project.label}, so its build would fail too "
        f"({type(error).__name__}: {first_line})",
    )
