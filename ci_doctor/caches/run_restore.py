# SPDX-License-Identifier: Apache-2.0
"""Acts on cache directories: one restore for all processes of this machine that ask for the same."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from ci_doctor.caches.bounded import bounded
from ci_doctor.caches.leader import WorkResult, once
from ci_doctor.caches.receipt import read_receipt
from ci_doctor.caches.restore import RestoreWork, restore_all
from ci_doctor.caches.targets import tier_of
from ci_doctor.decodable import decodable
from ci_doctor.model.facts.cache import RestoreCacheFacts
from ci_doctor.store.deadline import Deadline
from ci_doctor.store.errors import StoreError, file_system_error
from ci_doctor.system.files.writing import make_directory

# A job's ranks start within seconds. What is missing may be saved at any time.
_HOLDS_S = 600.0
_PROBLEM_HOLDS_S = 120.0


def run_restore(
    work: RestoreWork, deadline: Deadline, tell: Callable[[str], None]
) -> RestoreCacheFacts:
    """Restore, or take the result of the process that does; it ends by `deadline`, whatever hangs.

    What goes wrong with the store is a part of the facts.
    """
    location = work.source.store.location

    def transfer() -> WorkResult:
        facts = _transfer(work, deadline, tell)
        is_whole = facts.problem is None and all(each.result == "restored" for each in facts.caches)
        holds_s = _HOLDS_S if is_whole else _PROBLEM_HOLDS_S
        return WorkResult(content=msgspec.json.encode(facts), holds_s=holds_s)

    def is_current(content: bytes) -> bool:
        return _is_current(work.state, content)

    try:
        leaders = work.state / "leaders"
        _make(leaders)
        agreed = once(leaders, _key(work), deadline.left(), transfer, is_current)
    except StoreError as error:
        # It has only waited.
        return msgspec.structs.replace(_problem(location, error), is_shared=True)
    facts = msgspec.json.decode(agreed.content, type=decodable(RestoreCacheFacts))
    return msgspec.structs.replace(facts, is_shared=agreed.is_shared)


def _make(leaders: Path) -> None:
    """Raises StoreError."""
    try:
        make_directory(leaders, 0o700)
    except OSError as error:
        raise file_system_error("make", leaders, error) from error


def _transfer(
    work: RestoreWork, deadline: Deadline, tell: Callable[[str], None]
) -> RestoreCacheFacts:
    location = work.source.store.location
    try:
        caches = bounded(
            lambda: restore_all(work, tell), deadline.left(), "restoring caches", work.deadline
        )
    except StoreError as error:
        return _problem(location, error)
    return RestoreCacheFacts(store=location, is_shared=False, caches=caches)


def _problem(location: str, error: StoreError) -> RestoreCacheFacts:
    return RestoreCacheFacts(
        store=location,
        is_shared=False,
        caches=(),
        problem=error.message,
        failure=error.reason.value,
    )


def _key(work: RestoreWork) -> str:
    """A name for all that decides the result."""
    rules = work.source.rules
    allowed = rules.allowed
    parts: list[object] = [
        work.source.store.location,
        work.source.scopes,
        rules.policy.value,
        [signer.public_key.hex() for signer in allowed.signers] if allowed is not None else None,
    ]
    for cache in work.caches:
        tiers = (tier_of(each).digest() for each in (cache.tiers.hard, cache.tiers.path))
        parts.append([cache.family.name, str(cache.directory), *tiers])
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _is_current(state: Path, content: bytes) -> bool:
    """Whether what was restored still lies there: an agent may clean up between two jobs."""
    facts = msgspec.json.decode(content, type=decodable(RestoreCacheFacts))
    return all(
        _is_there(state, each.family, Path(each.directory))
        for each in facts.caches
        if each.result == "restored" and each.directory is not None
    )


def _is_there(state: Path, family: str, directory: Path) -> bool:
    receipt = read_receipt(state, family, directory)
    if receipt is None:  # none could be kept
        return directory.is_dir()
    return all((directory / file.path).exists() for file in receipt.files)
