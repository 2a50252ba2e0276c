# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor man`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class ManPageFact(Struct, frozen=True, kw_only=True):
    """A page: its name, and its text as roff, or the file and what was done with it."""

    name: str
    text: str | None = None
    file: str | None = None
    state: str | None = None


class ManFacts(Facts, frozen=True, kw_only=True):
    """The pages that were shown or written."""

    pages: tuple[ManPageFact, ...]
