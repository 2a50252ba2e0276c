# SPDX-License-Identifier: Apache-2.0
"""Pure. The variables that shell scripts, YAML and Dockerfiles set to a constant."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from ci_doctor.lint.consistency.python_environment import VariableValue
from ci_doctor.lint.consistency.repository import RepositoryFiles
from ci_doctor.lint.violation import Place

_NAME = r"(?<![A-Z0-9_])(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
_SHELL = re.compile(
    _NAME + r"""=(?P<quote>["']?)(?P<value>[^\s"'$`;&|()<>\\]*)(?P=quote)(?=[\s;&|)]|$)"""
)
_YAML = re.compile(
    _NAME
    + r"""["']?[ \t]*:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'$#{}\[\]|>&*]+)(?P=quote)"""
    + r"""[ \t]*(?:\#.*)?\r?$""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s*#")
_LINE_END = re.compile(r"\n")
# What may stand before a name that is set. After a bar it is mostly a choice in a pattern of grep.
_BEFORE_IN_SHELL = frozenset(" \t\n;&(\"'")


def set_variables(repository: RepositoryFiles) -> Iterator[VariableValue]:
    """Settings such as `export NAME=value`, `docker run -e NAME=value` and `NAME: value`."""
    for file in repository.settings:
        text = repository.files[file]
        # A line may have a megabyte, and a file a hundred thousand settings.
        starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
        is_yaml = file.endswith((".yml", ".yaml"))
        for pattern in (_SHELL, _YAML) if is_yaml else (_SHELL,):
            for match in pattern.finditer(text):
                start = match.start("name")
                line = bisect_right(starts, start)
                first = starts[line - 1]
                if _COMMENT.match(text, first, start) or not _may_set(pattern, text, first, start):
                    continue
                yield VariableValue(
                    name=match["name"],
                    value=match["value"],
                    place=Place(file=file, line=line, end_line=line),
                    sets=True,
                )


def _may_set(pattern: re.Pattern[str], text: str, first: int, start: int) -> bool:
    """Whether what stands in a line from `first` to a name at `start` lets it be a name."""
    if pattern is _YAML:
        return not text[first:start].strip(" \t-\"'")
    return start == first or text[start - 1] in _BEFORE_IN_SHELL
