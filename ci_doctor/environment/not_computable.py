# SPDX-License-Identifier: Apache-2.0
"""Pure. Why a version cannot be computed, on its way to become a finding."""

from ci_doctor.environment.project import Project
from ci_doctor.model.finding import Finding, Severity


class NotComputable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Raised by the adapters of the backends' libraries; `finding` is for the report."""

    def __init__(self, rule: str, severity: Severity, summary: str, *, remedy: str) -> None:
        super().__init__(summary)
        self.finding = Finding(rule=rule, severity=severity, summary=summary, remedy=remedy)


def backend_fails(project: Project, error: Exception) -> NotComputable:
    """The reason if the backend's own code raised `error` for `project`."""
    lines = str(error).splitlines()
    first_line = lines[0] if lines else ""
    return NotComputable(
        "version/not-computable",
        Severity.ERROR,
        f"{project.tool} cannot compute a version for {project.label}, so its build would fail too "
        f"({type(error).__name__}: {first_line})",
        remedy="correct the setting or the tag named in the message",
    )
