# SPDX-License-Identifier: Apache-2.0
"""The digests of a start's answers by request and pass. Pure."""

import sys
from collections.abc import Iterator, Mapping


class PassDigests(Mapping[str, Mapping[int, str]]):
    """From a request to the digests of its answers by pass, which count from 1.

    A column for each pass: a dict for each request would take more memory than the digests do, with
    forty starts of ten thousand requests.
    """

    def __init__(self) -> None:
        self._columns: dict[int, dict[str, str]] = {}
        # In the order of their first answers.
        self._requests: dict[str, None] = {}

    def add(self, request: str, number: int, digest: str) -> None:
        """The digest of the answer to `request` in one pass."""
        # One object for the id: those of two samples are two.
        name = sys.intern(request)
        column = self._columns.setdefault(number, {})
        column[name] = digest
        self._requests.setdefault(name)

    def __getitem__(self, request: str) -> dict[int, str]:
        if request not in self._requests:
            raise KeyError(request)
        passes = {}
        for number, column in self._columns.items():
            digest = column.get(request)
            if digest is not None:
                passes[number] = digest
        return passes

    def __iter__(self) -> Iterator[str]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)
