# SPDX-License-Identifier: Apache-2.0
"""Acts on files and reads cache directories: what was compiled, whether that has paid, and why vLLM chose another directory."""

import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath

from msgspec import Struct

from ci_doctor.caches.families import CacheLineKind, Family
from ci_doctor.identity.identity import Difference, Identity, differences
from ci_doctor.store.manifest import ColdCost
from ci_doctor.system.files.access import own_directory

# --- whether a restored cache has paid: what was compiled all the same, and how long it took ---
# Hit counters are no evidence: TorchInductor counts a hit and runs the compiler for each kernel. Files
# that a compiler wrote after the restore are, and so is a tree of which nobody has read a file.


class RestoreEffect(StrEnum):
    """What a restored cache was worth; `unproven` if nothing shows that it was used."""

    PAID = "paid"
    PARTLY = "partly"
    INERT = "inert"
    UNPROVEN = "unproven"


# Shares of what the cold job compiled. The first covers a probe of a compiler at each start.
_PAID_SHARE = 0.1
_INERT_SHARE = 0.5
# Without seconds of a log: 8 of torch's 18 files again took longer than all of them
# (benchmarks/RESULTS.md, 2026-11-23), because the times of files leave out the first compile.
_INERT_SHARE_UNTIMED = 1 / 3
# Shares of the seconds that the cold job compiled.
_PAID_TIME = 0.25
_INERT_TIME = 0.75


class Use(Struct, frozen=True, kw_only=True):
    """What a job did with a restored tree.

    restored: its compiled files. compiled: those written after the restore, there or in the directory
    that the library chose instead. warm: what compiling them cost, None if nothing was compiled. read:
    restored compiled files that this job read; None if nobody knows. installed: the share of the saved
    files that the restore put there, 0 if all of them were there before. chosen: another directory that
    the library used. used: the log shows that the restored directory was used. touched: compiled files
    that were written after the restore with the content that was restored. is_disabled: the log
    says that the library uses no cache. is_counted: the library counts hits and misses itself; then
    `counts`, those since the restore, decide; None if they cannot be read. is_same_cpu: the cold cost is of a CPU as this one.
    """

    restored: int
    compiled: int
    warm: ColdCost | None
    read: int | None
    installed: float = 1.0
    chosen: str | None = None
    used: bool = False
    touched: int = 0
    is_disabled: bool = False
    is_counted: bool = False
    counts: tuple[int, int] | None = None
    is_same_cpu: bool = False

    @property
    def share(self) -> float:
        """The part of the cold cost, from 0 to 1, that can be saved at most: what was restored and read."""
        if self.read is None or self.used or not self.restored:
            return self.installed
        return min(self.installed, self.read / self.restored)


class FamilyEffect(Struct, frozen=True, kw_only=True):
    """The effect and its reason. saved_s and saved_gpu_s are None if they were not measured.

    Both are differences of two times of the same source, and never negative. They are no more than the
    share of the cold time that stands for the files that were restored and read.
    """

    effect: RestoreEffect
    reason: str
    saved_s: float | None = None
    saved_gpu_s: float | None = None


def judge(use: Use, cold: ColdCost | None) -> FamilyEffect:  # noqa: C901, PLR0911 - a reason each
    """The effect of a restored cache, given what it cost to make it; None if nobody knows that."""
    if use.chosen is not None:
        return FamilyEffect(
            effect=RestoreEffect.INERT,
            reason=f"restored, but the library chose another directory: {use.chosen}",
        )
    if use.is_disabled:
        reason = "the log says that the library's cache was disabled"
        return FamilyEffect(effect=RestoreEffect.INERT, reason=reason)
    if use.is_counted:
        return _by_counts(use)
    if use.installed == 0:
        reason = "all of it was in the directory before the restore"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    before = cold.compiled if cold is not None else use.restored
    compiled = (
        f"{use.compiled} compiled again, of {before}" if use.compiled else "nothing was compiled"
    )
    if use.read == 0 and not use.used:
        reason = f"{compiled}, and not one restored file was read"
        return FamilyEffect(effect=RestoreEffect.INERT, reason=reason)
    effect = _by_compiling(use, before, cold)
    if effect is RestoreEffect.INERT:
        return FamilyEffect(effect=effect, reason=compiled)
    if use.touched and not use.used:
        reason = f"{compiled}; {use.touched} have a new time and the restored content, by a hit or by a compile"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    if use.read is None and not use.used:
        reason = f"{compiled}, and nothing shows that this job read the cache"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    return _with_saving(effect, compiled if use.compiled else f"{compiled} again", use, cold)


def _by_counts(use: Use) -> FamilyEffect:
    """By what the library counted; a hit of what was there before the restore is none of it."""
    if use.counts is None:
        reason = "the library's own count of hits and misses cannot be read"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    hits, misses = use.counts
    reason = f"{hits} hits and {misses} misses by the library's own count"
    if not hits and not misses:
        reason = "the library has counted neither a hit nor a miss since the restore"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    if use.installed == 0:
        reason = "all of it was in the directory before the restore"
        return FamilyEffect(effect=RestoreEffect.UNPROVEN, reason=reason)
    if not hits:
        return FamilyEffect(effect=RestoreEffect.INERT, reason=reason)
    is_paid = misses <= _PAID_SHARE * (hits + misses)
    effect = RestoreEffect.PAID if is_paid else RestoreEffect.PARTLY
    return FamilyEffect(effect=effect, reason=reason)


def _by_compiling(use: Use, before: int, cold: ColdCost | None) -> RestoreEffect:
    if not use.compiled:
        return RestoreEffect.PAID
    share = use.compiled / before if before else 1.0
    inert = (
        _INERT_SHARE if use.warm is not None and use.warm.source == LOG else _INERT_SHARE_UNTIMED
    )
    one = _by_share(share, _PAID_SHARE, inert)
    other = _by_time(use.warm, cold)
    order = (RestoreEffect.PAID, RestoreEffect.PARTLY, RestoreEffect.INERT)
    return max(one, other, key=order.index)


def _with_saving(
    effect: RestoreEffect, reason: str, use: Use, cold: ColdCost | None
) -> FamilyEffect:
    """With the seconds saved, if both times come from the same source.

    Of what was partly compiled again, the times of files say too little; of a single file, nothing.
    """
    warm = use.warm
    # Seconds of another CPU are none of this job.
    if not use.is_same_cpu or cold is None or not cold.seconds:
        return FamilyEffect(effect=effect, reason=reason)
    if warm is not None and warm.source != cold.source:
        return FamilyEffect(effect=effect, reason=reason)
    if effect is RestoreEffect.PARTLY and cold.source != LOG:
        return FamilyEffect(effect=effect, reason=reason)
    spent = warm.seconds if warm is not None else 0.0
    saved = max(0.0, min(cold.seconds - spent, cold.seconds * use.share))
    gpu = saved * cold.gpus if cold.gpus else None
    return FamilyEffect(effect=effect, reason=reason, saved_s=saved, saved_gpu_s=gpu)


def _by_time(warm: ColdCost | None, cold: ColdCost | None) -> RestoreEffect:
    if warm is None or cold is None or warm.source != cold.source or cold.seconds <= 0:
        return RestoreEffect.PAID  # it says nothing, and the count decides
    return _by_share(warm.seconds / cold.seconds, _PAID_TIME, _INERT_TIME)


def _by_share(share: float, paid: float, inert: float) -> RestoreEffect:
    if share <= paid:
        return RestoreEffect.PAID
    return RestoreEffect.PARTLY if share < inert else RestoreEffect.INERT


# --- why vLLM chose another directory: two of its cache_key_factors.json, compared ---
# vLLM writes one into each directory of its torch.compile cache: `env` (its variables), and digests
# of the configuration, the compiler and the traced code.

FILE_NAME = "cache_key_factors.json"
_DEPTH = 20


def factor_differences(saved: bytes, here: bytes) -> tuple[Difference, ...]:
    """Every factor in which two files differ, saved -> here, such as `env.VLLM_USE_V1`.

    Raises ValueError if one of them is no JSON object.
    """
    return differences(_factors(saved), _factors(here))


def _factors(content: bytes) -> Identity:
    try:
        document = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError(f"{FILE_NAME} holds no object")  # noqa: TRY004
    return Identity.of(dict(_flat("", document, _DEPTH)))


def _flat(front: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth:
        for key, each in value.items():
            yield from _flat(f"{front}.{key}" if front else str(key), each, depth - 1)
    else:
        yield front, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# --- how long compiling took: what a log says, else the times of the files that it made ---
# A log's own figure counts all of a compile. The times of files count from the end of the first compile
# to the end of the last one, without pauses: it is less than what the job has waited.

# Between two files of one phase of compiling. A larger kernel takes longer, and then counts as a pause.
_PAUSE_S = 30.0
LOG = "log"
FILE_TIMES = "file times"


def span_s(times_ns: Iterable[int]) -> float:
    """Seconds between files that were written within half a minute of each other, summed."""
    ordered = sorted(times_ns)
    total = 0.0
    for earlier, later in pairwise(ordered):
        gap = (later - earlier) / 1e9
        if gap <= _PAUSE_S:
            total += gap
    return total


def cost_of(times_ns: Iterable[int], log_seconds: Iterable[float], gpus: int) -> ColdCost | None:
    """The cost of compiling files of these times (ns since the epoch); None if nothing was compiled.

    log_seconds: the seconds that a log names for its compiles; without any, the times decide.
    """
    times = list(times_ns)
    logged = list(log_seconds)
    if not times:
        return None
    if logged:
        return ColdCost(seconds=sum(logged), compiled=len(times), gpus=gpus, source=LOG)
    return ColdCost(seconds=span_s(times), compiled=len(times), gpus=gpus, source=FILE_TIMES)


# --- what a job's log says about a family's cache: the directory chosen, loads, compiles ---


class LogWords(Struct, frozen=True, kw_only=True):
    """What the log says. `directories` in order; `seconds` of compiles that name theirs.

    total_s: what the library says that compiling took in all, the last time; None if it says nothing.
    """

    directories: tuple[str, ...] = ()
    loaded: int = 0
    compiled: int = 0
    seconds: tuple[float, ...] = ()
    total_s: float | None = None
    is_disabled: bool = False

    def chose_other_than(self, places: Iterable[str]) -> str | None:
        """The directory that was used in place of `places`; None if none was named, or one below them."""
        if not self.directories:
            return None
        named = [PurePosixPath(each) for each in self.directories]
        if any(each.is_relative_to(place) for place in places for each in named):
            return None
        return self.directories[0]

    def uses(self, places: Iterable[str]) -> bool:
        """Whether something was loaded, and from `places` if a directory is named."""
        return self.loaded > 0 and self.chose_other_than(places) is None


def read_lines(lines: Iterable[str], family: Family) -> LogWords:
    """What `lines` say about this family's cache."""
    patterns = [(line.kind, line.literal, re.compile(line.pattern)) for line in family.lines]
    directories: dict[str, None] = {}
    counts = dict.fromkeys(CacheLineKind, 0)
    seconds: list[float] = []
    total = None
    for line in lines:
        for kind, literal, pattern in patterns:
            match = pattern.search(line) if literal in line else None
            if match is None:
                continue
            groups = match.groupdict()
            counts[kind] += 1
            spent = _number(groups.get("seconds"))
            if groups.get("directory"):
                directories[groups["directory"]] = None
            if kind is CacheLineKind.TOTAL:
                total = spent if spent is not None else total
            elif kind is CacheLineKind.COMPILED and spent is not None:
                seconds.append(spent)
    return LogWords(
        directories=tuple(directories),
        loaded=counts[CacheLineKind.LOADED],
        compiled=counts[CacheLineKind.COMPILED],
        seconds=tuple(seconds),
        total_s=total,
        is_disabled=counts[CacheLineKind.DISABLED] > 0,
    )


def compile_seconds(words: LogWords | None) -> tuple[float, ...]:
    """The seconds that a log names: of each compile, else of all together."""
    if words is None:
        return ()
    return words.seconds or ((words.total_s,) if words.total_s is not None else ())


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


# --- the compiled files with their times, and whether files were read ---

_LONG_AGO_NS = 1_000_000_000


class ScannedFile(Struct, frozen=True, kw_only=True, gc=False):
    """A regular file: its path below the root, its size, and its times (ns since the epoch)."""

    path: str
    bytes: int
    mtime_ns: int
    atime_ns: int


def scan(root: Path, family: Family) -> tuple[ScannedFile, ...]:
    """The files of a cache, without those that are never saved; empty if there is no directory.

    Times of reading stay as they are.
    """
    return tuple(file for file in _files(root, "") if not family.excludes(file.path))


def forget_listings(root: Path) -> None:
    """Give all directories of a tree a time of listing of long ago (`was_walked`)."""
    for directory in _directories(root):
        with contextlib.suppress(OSError):
            status = directory.stat()
            os.utime(directory, ns=(_LONG_AGO_NS, status.st_mtime_ns))


def was_walked(root: Path) -> bool:
    """Whether every directory of the tree was listed since `forget_listings`.

    A library asks for files by their names. Who reads every file (`grep -r`, tar) lists the directories.
    """
    for directory in _directories(root):
        with contextlib.suppress(OSError):  # gone meanwhile
            if directory.stat().st_atime_ns == _LONG_AGO_NS:
                return False
    return True


def compiled_files(files: tuple[ScannedFile, ...], family: Family) -> list[ScannedFile]:
    """Those of which each stands for something compiled."""
    return [file for file in files if family.is_compiled(file.path)]


def keeps_read_times(root: Path) -> bool:
    """Whether the file system notes when a file was read and a directory listed: ours are, to see."""
    with (
        contextlib.suppress(OSError),
        own_directory("times", root.parent) as name,
        tempfile.NamedTemporaryFile(dir=name) as file,
    ):
        file.write(b"x")
        file.flush()
        for path in (file.name, name):
            os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
        Path(file.name).read_bytes()
        os.listdir(name)  # noqa: PTH208 - as os.utime
        times = [os.stat(path).st_atime_ns for path in (file.name, name)]  # noqa: PTH116
        return min(times) > _LONG_AGO_NS
    return False


@contextlib.contextmanager
def opened_quietly(path: Path, flags: int) -> Iterator[int]:
    """A descriptor whose use leaves the time of reading, where the file is ours (open(2), O_NOATIME)."""
    try:
        descriptor = os.open(path, flags | os.O_NOATIME | os.O_CLOEXEC)
    except PermissionError:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _directories(root: Path) -> Iterator[Path]:
    """The root and all directories below it."""
    yield root
    for name, status in _entries(root):
        if stat.S_ISDIR(status.st_mode):
            yield from _directories(root / name)


def _files(directory: Path, front: str) -> Iterator[ScannedFile]:
    for name, status in _entries(directory):
        if stat.S_ISDIR(status.st_mode):
            yield from _files(directory / name, f"{front}{name}/")
        elif stat.S_ISREG(status.st_mode):
            yield ScannedFile(
                path=front + name,
                bytes=status.st_size,
                mtime_ns=status.st_mtime_ns,
                atime_ns=status.st_atime_ns,
            )


def _entries(directory: Path) -> list[tuple[str, os.stat_result]]:
    """What is in a directory; empty if it is gone, or somebody else's."""
    entries = []
    with (
        contextlib.suppress(OSError),
        opened_quietly(directory, os.O_RDONLY | os.O_DIRECTORY) as fd,
        os.scandir(fd) as listed,
    ):
        for entry in listed:
            with contextlib.suppress(OSError):
                entries.append((entry.name, entry.stat(follow_symlinks=False)))
    return entries
