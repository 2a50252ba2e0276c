# SPDX-License-Identifier: Apache-2.0
"""Reads the files of one tree, each of them once."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ci_doctor.lint.source_kind import SourceKind
from ci_doctor.lint.source_text import SourceText, decoded
from ci_doctor.lint.source_tree import SourcePath
from ci_doctor.lint.unreadable import Unreadable
from ci_doctor.system.files.opening import read_regular

# A pipeline of 10^5 steps has 10 MiB.
_MOST_BYTES = 32 << 20
# What is larger is data: weights of a tokenizer, a recorded answer.
_MOST_EVIDENCE_BYTES = 1 << 20
_NAMED_BY = frozenset({SourceKind.SHELL, SourceKind.YAML})


class RepositoryTexts:
    """The files below `root`, read when they are asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, SourceText | Unreadable] = {}

    def source(self, file: str) -> SourceText | Unreadable:
        """The text of a file that was collected, or why it cannot be read."""
        if file not in self._read:
            self._read[file] = read_source(self._root, file)
        return self._read[file]

    def read(self, path: str) -> str | None:
        """The text of a file that a script names; None if it lies outside of the root or is none."""
        try:
            real = Path(os.path.realpath(self._root / path))
            relative = real.relative_to(os.path.realpath(self._root)).as_posix()
        except (OSError, ValueError):
            return None
        source = self.source(relative)
        return source.text if isinstance(source, SourceText) else None

    def all_texts(self, files: Iterable[str]) -> Mapping[str, str]:
        """The texts of those of `files` that can be read, by name."""
        texts = {}
        for file in files:
            source = self._read.get(file) or read_source(self._root, file, _MOST_EVIDENCE_BYTES)
            if isinstance(source, SourceText):
                texts[file] = source.text
        return texts

    def users_of(
        self,
        changed: Iterable[SourcePath],
        files: Iterable[SourcePath],
        tell: Callable[[str], None],
    ) -> list[SourcePath]:
        """Those of `files` that name a changed script: what they do may have changed with it."""
        names = {Path(each.file).name for each in changed if each.kind is SourceKind.SHELL}
        users = []
        for each in files if names else ():
            if each.kind in _NAMED_BY:
                tell(f"reading {each.file}")
                source = self.source(each.file)
                if isinstance(source, SourceText) and any(name in source.text for name in names):
                    users.append(each)
        return users


def read_source(root: Path, file: str, most_bytes: int = _MOST_BYTES) -> SourceText | Unreadable:
    """The text of `file`, relative to `root`; or why it cannot be read. A link is not followed."""
    try:
        content = read_regular(root / file, most_bytes, follow=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Unreadable(file=file, line=1, reason=f"it cannot be read: {reason}")
    return decoded(file, content)
