# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor config`, `explain` and `init`."""

from typing import Any

from msgspec import Struct

from ci_doctor.model.facts import Facts


class ConfigValue(Struct, frozen=True, kw_only=True):
    """A value of the configuration, as JSON has it, and where it came from."""

    value: Any
    origin: str


class ConfigFacts(Facts, frozen=True, kw_only=True):
    """Every value by its section and key."""

    values: dict[str, dict[str, ConfigValue]]


class ConfigSchemaFacts(Facts, frozen=True, kw_only=True):
    """The JSON Schema of `ci-doctor.toml`."""

    configuration: dict[str, Any]


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


class ExplainFacts(Facts, frozen=True, kw_only=True):
    """Two sentences on the word.

    The rest is of a log rule, and of a text that one recognises: the id of the rule, the class of
    failures, whether another run can help (`yes`, `no`, `ask`), and a command of ours to go on with.
    """

    meaning: str
    remedy: str
    rule: str | None = None
    failure_class: str | None = None
    retry: str | None = None
    next_command: str | None = None


class InitServer(Struct, frozen=True, kw_only=True):
    """A server of the repository: its command with `{port}`, where it stands, what it answers.

    variables: those of the environment that the job must set. role: the part that it plays in a server
    of several; null for a whole one.
    """

    kind: str
    origin: str
    command: list[str]
    count: int
    apis: list[str]
    model: str | None
    connector: str | None
    role: str | None
    variables: list[str]


class InitLeftOut(Struct, frozen=True, kw_only=True):
    """A command of a server that is not proposed: where it stands, and why in a clause."""

    origin: str
    why: str


class InitFile(Struct, frozen=True, kw_only=True):
    """A file that is proposed: `path` from the top of the repository, why in a clause; `is_written`: it is there now."""

    path: str
    why: str
    text: str
    is_written: bool = False


class InitFacts(Facts, frozen=True, kw_only=True):
    """What was read, what is proposed, and what was written.

    root: the top of the repository; directory: where the configuration belongs, relative to it. arms:
    what the proposed arms differ by; null without any. to_paste: blocks for files that exist.
    """

    root: str
    directory: str
    is_repository: bool
    files_unread: list[str]
    pipelines: list[str]
    workflows: list[str]
    queues: list[str]
    commands: int
    servers: list[InitServer]
    left_out: list[InitLeftOut]
    arms: str | None
    files: list[InitFile]
    kept: list[str]
    steps: list[str]
    to_paste: dict[str, str]
