# SPDX-License-Identifier: Apache-2.0
"""Pure. The variables that shell scripts, YAML and Dockerfiles set to a constant."""

import re
from collections.abc import Iterator

from ci_doctor.lint.consistency.python_environment import VariableValue
from ci_doctor.lint.consistency.repository import RepositoryFiles, line_place

_NAME = r"(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
_SHELL = re.compile(
    _NAME + r"""=(?P<quote>["']?)(?P<value>[^\s"'$`;&|()<>\\]*)(?P=quote)(?=[\s;&|)]|$)"""
)
_YAML = re.compile(
    _NAME
    + r"""["']?[ \t]*:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'$#{}\[\]|>&*]+)(?P=quote)"""
    + r"""[ \t]*(?:\#.*)?\r?$""",
    re.MULTILINE,
)
# What may stand before a name that is set.
_BEFORE_IN_SHELL = frozenset(" \t\n;&|(\"'")


def set_variables(repository: RepositoryFiles) -> Iterator[VariableValue]:
    """Settings such as `export NAME=value`, `docker run -e NAME=value` and `NAME: value`."""
    for file in repository.settings:
        text = repository.files[file]
        is_yaml = file.endswith((".yml", ".yaml"))
        for pattern in (_SHELL, _YAML) if is_yaml else (_SHELL,):
            for match in pattern.finditer(text):
                start = match.start("name")
                before = text[text.rfind("\n", 0, start) + 1 : start]
                if before.lstrip().startswith("#") or not _may_set(pattern, before):
                    continue
                yield VariableValue(
                    name=match["name"],
                    value=match["value"],
                    place=line_place(file, text, start),
                    sets=True,
                )


def _may_set(pattern: re.Pattern[str], before: str) -> bool:
    """Whether what stands before a name in its line lets it be a name."""
    if pattern is _YAML:
        return not before.strip(" \t-\"'")
    return not before or before[-1] in _BEFORE_IN_SHELL
