# SPDX-License-Identifier: Apache-2.0
"""Reads receipts, cache directories and a log: whether what was restored has paid."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ci_doctor.caches.effect import (
    FILE_NAME,
    FamilyEffect,
    LogWords,
    RestoreEffect,
    ScannedFile,
    Use,
    compile_seconds,
    compiled_files,
    cost_of,
    factor_differences,
    judge,
    keeps_read_times,
    opened_quietly,
    scan,
    was_walked,
)
from ci_doctor.caches.facts import HITS, MISSES, keeps_counts, read_counts
from ci_doctor.caches.families import Family
from ci_doctor.caches.targets import CacheTarget, identity_of
from ci_doctor.caches.trusted_store import InstalledFile, Receipt, read_receipt, receipts_of
from ci_doctor.identity.identity import differences
from ci_doctor.model.facts.cache import CacheEffect
from ci_doctor.store.manifest import ColdCost
from ci_doctor.store.transfer import digest_of_file
from ci_doctor.system.files.access import open_at_once

# --- the one that it chose beside the restored ones, and why ---
# vLLM names a directory by a digest of its environment, its configuration, the traced code and the
# compiler, and writes all four into it (vllm 0.33 compilation/backends.py).

_FILE_BYTES = 1 << 20
_MOST = 8


def restored_places(receipt: Receipt, family: Family) -> tuple[str, ...]:
    """The directories that were restored: each group of files, or the root if there are no groups."""
    if not family.group:
        return (receipt.root,)
    groups = dict.fromkeys(family.group_of(file.path) for file in receipt.files)
    return tuple(f"{receipt.root}/{group}" for group in groups)


def chosen_beside(files: Iterable[ScannedFile], family: Family, receipt: Receipt) -> str | None:
    """A directory that vLLM has made after the restore, beside the restored ones; None if there is none."""
    if FILE_NAME not in family.markers:
        return None
    groups = {family.group_of(file.path) for file in receipt.files}
    for file in files:
        directory, _, name = file.path.rpartition("/")
        is_new = file.mtime_ns > receipt.installed_ns and family.group_of(file.path) not in groups
        if name == FILE_NAME and is_new:
            return f"{receipt.root}/{directory}"
    return None


def causes_of_choice(chosen: str, family: Family, receipt: Receipt) -> tuple[str, ...]:
    """The factors of vLLM's digest in which `chosen` differs from the nearest restored directory."""
    if FILE_NAME not in family.markers:
        return ()
    here = _content(Path(chosen, FILE_NAME))
    # Of the same rank and the same part of the model, if several were restored.
    tail = PurePosixPath(chosen).parts[-2:]
    nearest: tuple[str, ...] | None = None
    for file in receipt.files:
        path = PurePosixPath(file.path)
        if path.name != FILE_NAME or path.parent.parts[-2:] != tail:
            continue
        try:
            differences = factor_differences(_content(Path(receipt.root, path)), here)
        except ValueError:
            continue
        words = tuple(each.describe() for each in differences)
        if nearest is None or len(words) < len(nearest):
            nearest = words
    return (nearest or ())[:_MOST]


def _content(path: Path) -> bytes:
    """Nothing if it cannot be read; a pipe in its place is at its end."""
    try:
        with os.fdopen(open_at_once(path, follow=False), "rb") as file:
            return file.read(_FILE_BYTES)
    except OSError:
        return b""


# --- whether what was restored has paid ---

_SILENT = LogWords()


class ProofWork(Struct, frozen=True, kw_only=True):
    """What is judged: the targets of the job, its receipts and its id, and what its log says of each family."""

    targets: tuple[CacheTarget, ...]
    state: Path
    job: str | None
    logs: Mapping[str, LogWords]


def prove_all(work: ProofWork) -> tuple[CacheEffect, ...]:
    """The effect of each target that has a receipt."""
    effects = []
    for target in work.targets:
        receipt = _receipt(work, target)
        if receipt is not None:
            effects.append(_prove(work, target, receipt))
    return tuple(effects)


def _receipt(work: ProofWork, target: CacheTarget) -> Receipt | None:
    """That of the target's directory, else the newest of this job: its library chose another."""
    receipt = read_receipt(work.state, target.family.name, target.directory)
    if receipt is not None:
        return receipt
    receipts = receipts_of(work.state, target.family.name)
    return next((each for each in receipts if each.job == work.job), None)


def _prove(work: ProofWork, target: CacheTarget, receipt: Receipt) -> CacheEffect:
    family = target.family
    words = work.logs.get(family.name, _SILENT)
    root = Path(receipt.root)
    files = scan(root, family)
    elsewhere = _compiled_elsewhere(target, receipt)
    written = _written_after(files, family, receipt)
    known = {file.path: file for file in receipt.files}
    again = [file for file in written if not _is_as_restored(known.get(file.path), file, root)]
    compiled = [*again, *elsewhere]
    gpus = receipt.cold.gpus if receipt.cold is not None else 0
    warm = cost_of([file.mtime_ns for file in compiled], compile_seconds(words), gpus)
    read = _read(files, family, receipt) if receipt.job == work.job else None
    places = restored_places(receipt, family)
    chosen = words.chose_other_than(places)
    if chosen is None and elsewhere:
        chosen = str(target.directory)
    if chosen is None and read == 0:
        chosen = chosen_beside(files, family, receipt)
    counts = _counted(receipt, read_counts(family, root))
    # Whether the cold cost was measured on a CPU as this one.
    saved = receipt.saved_soft.facts.get("cpu.model")
    use = Use(
        restored=sum(family.is_compiled(file.path) for file in receipt.files),
        compiled=len(compiled),
        warm=warm,
        read=read,
        installed=receipt.installed / len(receipt.files) if receipt.files else 1.0,
        chosen=chosen,
        used=words.uses(places),
        touched=len(written) - len(again),
        is_disabled=words.is_disabled,
        is_counted=keeps_counts(family) and receipt.job == work.job,
        counts=counts,
        is_same_cpu=saved is not None and saved == receipt.soft.facts.get("cpu.model"),
    )
    choice = causes_of_choice(chosen, family, receipt) if chosen is not None else ()
    return _fact(receipt, use, judge(use, receipt.cold), choice)


def _written_after(
    files: tuple[ScannedFile, ...], family: Family, receipt: Receipt
) -> list[ScannedFile]:
    """Compiled files that were written after the restore, and have not the time of the restored one."""
    installed = {file.path: file.mtime_ns for file in receipt.files}
    return [
        file
        for file in compiled_files(files, family)
        if file.mtime_ns > receipt.installed_ns and installed.get(file.path) != file.mtime_ns
    ]


def _is_as_restored(known: InstalledFile | None, file: ScannedFile, root: Path) -> bool:
    """Whether a file has the content that was restored: a hit may touch it, a compile may repeat it."""
    if known is None or not known.digest or known.bytes != file.bytes:
        return False
    try:
        with (
            opened_quietly(root / file.path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor,
            os.fdopen(descriptor, "rb", closefd=False) as content,
        ):
            return digest_of_file(content) == known.digest
    except OSError:
        return False


def _compiled_elsewhere(target: CacheTarget, receipt: Receipt) -> list[ScannedFile]:
    """What the job wrote to the directory that its library would use now, if that is another."""
    if target.directory == Path(receipt.root):
        return []
    files = scan(target.directory, target.family)
    return _written_after(files, target.family, receipt)


def _read(files: tuple[ScannedFile, ...], family: Family, receipt: Receipt) -> int | None:
    """The restored compiled files that were read; None if nobody knows.

    Somebody who reads every file (`grep -r`, tar) proves nothing.
    """
    root = Path(receipt.root)
    if not keeps_read_times(root):
        return None
    restored = {file.path for file in receipt.files}
    compiled = (file for file in compiled_files(files, family) if file.path in restored)
    count = sum(file.atime_ns > receipt.installed_ns for file in compiled)
    return count if not count or not was_walked(root) else None


def _fact(receipt: Receipt, use: Use, effect: FamilyEffect, choice: tuple[str, ...]) -> CacheEffect:
    cold, warm = receipt.cold, use.warm
    return CacheEffect(
        family=receipt.family,
        directory=receipt.root,
        effect=effect.effect.value,
        reason=effect.reason,
        causes=(*choice, *_causes(receipt))
        if effect.effect in {RestoreEffect.INERT, RestoreEffect.PARTLY}
        else (),
        compiled=use.compiled,
        read=use.read,
        fetched_bytes=receipt.fetched_bytes,
        cold_s=cold.seconds if cold is not None else None,
        warm_s=_warm_seconds(warm, cold),
        source=cold.source if cold is not None else None,
        saved_s=effect.saved_s,
        saved_gpu_s=effect.saved_gpu_s,
    )


def _warm_seconds(warm: ColdCost | None, cold: ColdCost | None) -> float | None:
    """Seconds of compiling after the restore, if they can be compared with the cold ones."""
    if warm is None:
        return 0.0
    return warm.seconds if cold is None or warm.source == cold.source else None


def _counted(receipt: Receipt, now: dict[str, int] | None) -> tuple[int, int] | None:
    """Hits and misses that the library has counted since the restore; None if nobody can read them."""
    before = receipt.counts
    if before is None or now is None:
        return None
    return max(0, now[HITS] - before[HITS]), max(0, now[MISSES] - before[MISSES])


def _causes(receipt: Receipt) -> tuple[str, ...]:
    """In what this job differs from the one that saved: paths first, they are in the keys."""
    path = differences(identity_of(receipt.saved_path), identity_of(receipt.path))
    soft = differences(identity_of(receipt.saved_soft), identity_of(receipt.soft))
    return tuple(each.describe() for each in (*path, *soft))
