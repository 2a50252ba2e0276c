# SPDX-License-Identifier: Apache-2.0
"""Pure. What is kept of an attempt of a job, for the attempts after it."""

from msgspec import Struct


class EarlierAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of a job, counted from 0.

    verdict: a verdict or `error`; None if nothing is known of it. cause: one line. exit_status: of
    the job. job: Buildkite's id of it.
    """

    attempt: int
    verdict: str | None = None
    cause: str | None = None
    exit_status: int | None = None
    job: str | None = None
