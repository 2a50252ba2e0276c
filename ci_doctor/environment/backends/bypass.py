# SPDX-License-Identifier: Apache-2.0
"""Pure. Tools that we do not compute with, but that take a version from a variable."""

from collections.abc import Mapping, Sequence

from ci_doctor.environment import rules
from ci_doctor.environment.not_computable import NotComputable
from ci_doctor.environment.project import Project
from ci_doctor.environment.release_names import is_release
from ci_doctor.environment.tags import Described


class BypassVariable:
    """A tool whose `variable` replaces what it would read from git.

    Only a build tells which version that is: the tool's own settings decide.
    """

    def __init__(self, tool: str, variable: str) -> None:
        self.name = tool
        self._variable = variable

    def describe(self, project: Project) -> Described:
        """Always raises NotComputable: the version is known after a build alone."""
        raise NotComputable(
            rules.UNSUPPORTED_BACKEND,
            f"{project.label} takes its version from {self.name}, which only a build can ask",
            remedy=project.advice,
        )

    def read_names(self, project: Project, names: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Those that are releases: the tool's own settings decide, and a build alone reads them."""
        return [name for name in names if is_release(name)]

    def exported_variables(self, project: Project) -> tuple[str, ...]:  # noqa: ARG002 - one for all
        """The one variable, which has no distribution's name in it."""
        return (self._variable,)

    def commit_variables(self, project: Project, described: Described) -> Mapping[str, str]:  # noqa: ARG002
        """None: these tools write the version alone."""
        return {}

    def shared_variables(self) -> tuple[str, ...]:
        """The one variable."""
        return (self._variable,)

    def deciding_variable(self, project: Project, environ: Mapping[str, str]) -> str | None:  # noqa: ARG002
        """The one variable, if it is set and not empty."""
        return self._variable if environ.get(self._variable) else None

    def tag_setting(self, project: Project, glob: str, excluded: Sequence[str]) -> str:  # noqa: ARG002
        """The tool's advice: each has settings of its own."""
        return project.advice or ""
