# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor init`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


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
    files_listed: int
    files_unread: list[str]
    build_backend: str | None
    pipelines: list[str]
    workflows: list[str]
    waiting_scripts: list[str]
    tests: list[str]
    queues: list[str]
    commands: int
    commands_refused: list[str]
    servers: list[InitServer]
    arms: str | None
    files: list[InitFile]
    kept: list[str]
    steps: list[str]
    to_paste: dict[str, str]
