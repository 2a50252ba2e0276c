# SPDX-License-Identifier: Apache-2.0
"""Pure. A file that is proposed, and what a proposal holds beside files."""

from msgspec import Struct


class ProposedFile(Struct, frozen=True, kw_only=True):
    """`path` is relative to the top of the repository.

    why: one clause. is_made: it is made from code, so
    a reader of the diff need not see each line.
    """

    path: str
    text: str
    why: str
    is_made: bool = False


class Proposal(Struct, frozen=True, kw_only=True):
    """What is proposed, and what is not.

    kept: what exists and is not changed, each with what to do about it. steps: what is left to do by
    hand, in the order in which to do it. to_paste: a block for a file that exists, by the name of the file.
    """

    files: tuple[ProposedFile, ...] = ()
    kept: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    to_paste: dict[str, str] = {}
