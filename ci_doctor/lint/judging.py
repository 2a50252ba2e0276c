# SPDX-License-Identifier: Apache-2.0
"""Reads files, and asks the readers of their kinds what is wrong with them."""

from collections.abc import Callable, Iterable

from ci_doctor.lint.examine import examine
from ci_doctor.lint.lint_run import JudgedFile, Judgement
from ci_doctor.lint.reading import Readers
from ci_doctor.lint.repository_texts import RepositoryTexts
from ci_doctor.lint.source_tree import SourcePath
from ci_doctor.lint.unreadable import Unreadable


def judge(
    files: Iterable[SourcePath],
    whole: Iterable[str] | None,
    readers: Readers,
    texts: RepositoryTexts,
    tell: Callable[[str], None],
) -> Judgement:
    """The judgement of `files`, each by itself, and together with the rest of the repository.

    whole: the names of all its files; None if they are not known, and `files` are compared alone.
    """
    judged = {}
    unreadable: list[Unreadable] = []
    for each in files:
        tell(f"reading {each.file}")
        source = texts.source(each.file)
        if isinstance(source, Unreadable):
            unreadable.append(source)
            continue
        examination = examine(each.file, source.text, each.kind, readers, texts.read)
        judged[each.file] = JudgedFile(source=source, kind=each.kind, examination=examination)
        unreadable += examination.unreadable
    tell("comparing files")
    compared = texts.all_texts(judged if whole is None else whole)
    return Judgement(
        files=judged,
        unreadable=tuple(dict.fromkeys(unreadable)),
        across=readers.consistency(compared, whole is not None) if judged else (),
        is_whole=whole is not None,
    )
