# SPDX-License-Identifier: Apache-2.0
"""What is run beside us, and what is done if it fails. Pure."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ci_doctor.model.outcome import Outcome


class SupervisionRequest(Struct, frozen=True, kw_only=True):
    """`command` with `environ`, as `prepared` reports it.

    directory: where its log stays; None if it is not kept. log_limit: bytes. retry_status: how a
    failure ends if its cause lies outside the change, another run helps and the command ended by
    it; None for the command's own status. rules: a repository's own files.
    """

    command: tuple[str, ...]
    environ: Mapping[str, str]
    prepared: Outcome
    directory: Path | None
    log_limit: int
    retry_status: int | None = None
    rules: tuple[Path, ...] = ()


class Supervised(Struct, frozen=True, kw_only=True):
    """What became of it: the `outcome`, and the `text` for a person, empty after a success.

    signal: the one to end by, as the command did; None to end with the outcome's status. is_explained:
    the cause of a failure was looked for.
    """

    outcome: Outcome
    text: str
    signal: int | None
    is_explained: bool = False
