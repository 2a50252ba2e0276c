# SPDX-License-Identifier: Apache-2.0
"""Trees of source in memory, and what compat says of two of them."""

import textwrap

from ci_doctor.compat.breaks import Judged
from ci_doctor.compat.judge import judge
from ci_doctor.compat.world import CodeTree


def tree(label: str, files: dict[str, str], version: str | None = None) -> CodeTree:
    """A built package of these files."""
    contents = {name: textwrap.dedent(text).encode() for name, text in files.items()}
    return CodeTree(
        label=label,
        names=frozenset(contents),
        read=contents.__getitem__,
        distribution=label,
        version=version,
    )


def judged(caller: str, callee: dict[str, str], version: str | None = None) -> Judged:
    """The judgement of a caller of one module on the package `lib`."""
    files = {"lib/__init__.py": "", **callee}
    return judge(
        tree("app", {"app/__init__.py": "", "app/use.py": caller}),
        [tree("lib", files, version)],
        python=(3, 12),
    )


def breaks(caller: str, callee: str, version: str | None = None) -> list[str]:
    """`kind line` of each break of a caller on the module `lib.api`."""
    found = judged(caller, {"lib/api.py": callee}, version).breaks
    return [f"{each.rule.partition('/')[2]} {each.line}" for each in found]
