# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor pipeline retry-rules`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class RetryRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of `retry.automatic`, with its own fields; the first that matches counts.

    https://buildkite.com/docs/pipelines/configure/retry
    """

    exit_status: int | None = None
    signal_reason: str | None = None
    limit: int


class SoftFailRule(Struct, frozen=True, kw_only=True):
    """A rule of `soft_fail`: https://buildkite.com/docs/pipelines/configure/soft-fail."""

    exit_status: int


class RetryRulesFacts(Facts, frozen=True, kw_only=True):
    """The repository's exit codes by verdict, and what a step is to do with them.

    `left_out`: by verdict, why it has no rule: one would retry or let pass what must stay red.
    """

    exit_codes: dict[str, int]
    retry: tuple[RetryRule, ...]
    soft_fail: tuple[SoftFailRule, ...]
    left_out: dict[str, str]
    yaml: str = ""
