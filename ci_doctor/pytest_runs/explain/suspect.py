# SPDX-License-Identifier: Apache-2.0
"""A test whose flakiness is to be explained, as the suite's run left it. Pure."""

from msgspec import Struct


class Suspect(Struct, frozen=True, kw_only=True):
    """A test that failed, and the circumstances.

    before: the tests that ran before it in the same process, in order. error: the class of the
    exception with which it failed, None if that is unknown. hash_seed and seed: those of the
    suite's run, None if it had none that is known.
    """

    test: str
    before: tuple[str, ...] = ()
    error: str | None = None
    hash_seed: int | None = None
    seed: int | None = None
