# SPDX-License-Identifier: Apache-2.0
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.diagnosis.log_end import read_log_end
from ci_doctor.system.files.bounded_log import BLOCK_BYTES, LogBound, free_range, is_sparse


def test_a_freed_range_reads_as_zeros_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w+b", buffering=0) as file:
        assert not is_sparse(file.fileno()), "an empty file"
        file.write(b"x" * (4 * BLOCK_BYTES))
        assert not is_sparse(file.fileno())
        if not free_range(file.fileno(), BLOCK_BYTES, 3 * BLOCK_BYTES):
            pytest.skip("this file system frees no ranges")
        assert is_sparse(file.fileno())
    content = path.read_bytes()
    assert len(content) == 4 * BLOCK_BYTES
    assert content.count(b"\0") == 2 * BLOCK_BYTES
    assert content.strip(b"x") == b"\0" * (2 * BLOCK_BYTES)


def test_a_closed_descriptor_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        descriptor = file.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        free_range(descriptor, 0, BLOCK_BYTES)


KIB = 1024
LIMIT = 256 * KIB
Free = Callable[[int, int, int], bool]


def unable(*_: int) -> bool:
    """A file system without holes: NFS 4.1 and some of FUSE answer EOPNOTSUPP (fallocate(2))."""
    return False


any_file_system = pytest.mark.parametrize("free", [free_range, unable])


def number_lines(path: Path, first: int, last: int) -> None:
    """Append numbered lines of 64 bytes."""
    with path.open("ab") as file:
        for number in range(first, last + 1):
            file.write(b"%-63d\n" % number)


def numbers(path: Path) -> list[int]:
    return [
        int(line) for line in path.read_text().splitlines() if not line.startswith("[ci-doctor")
    ]


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    number_lines(log, 1, LIMIT // 64)
    before = log.stat()
    bound = LogBound(log, LIMIT)
    bound.check()
    assert bound.finish() == ""
    assert log.stat() == before
    assert log.read_bytes().count(b"\n") == LIMIT // 64


def test_disk_space_is_given_back_while_the_log_is_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    bound = LogBound(log, LIMIT)
    for block in range(64):
        number_lines(log, block * 1000 + 1, block * 1000 + 1000)
        bound.check()
        assert log.stat().st_blocks * 512 <= LIMIT + 8 * KIB
    assert log.stat().st_size == 64_000 * 64, "whoever appends sees nothing of it"


@any_file_system
def test_a_bounded_log_keeps_its_head_and_its_end_and_says_what_is_gone(
    tmp_path: Path, free: Free
) -> None:
    log = tmp_path / "log"
    bound = LogBound(log, LIMIT, free)
    for block in range(20):
        number_lines(log, block * 1000 + 1, block * 1000 + 1000)
        bound.check()
    sentence = bound.finish()
    text = log.read_text()
    note = re.search(
        r"^\[ci-doctor: ([\d,]+) bytes were cut here; log_limit is 262,144 bytes\]$",
        text,
        re.MULTILINE,
    )
    assert note is not None
    cut = int(note[1].replace(",", ""))
    assert (
        sentence == f"{note[1]} bytes were cut from the middle of log; log_limit is 262,144 bytes"
    )
    kept = numbers(log)
    assert len(kept) * 64 + cut == 20_000 * 64, "every byte is there, or is told to be gone"
    gap = text[: note.start()].count("\n")
    assert kept == [*range(1, gap + 1), *range(20_000 - (len(kept) - gap) + 1, 20_001)]
    assert gap * 64 >= LIMIT // 4 - 4 * KIB
    assert (len(kept) - gap) * 64 >= LIMIT // 2 - 4 * KIB
    assert log.stat().st_size <= LIMIT + 200
    assert "\0" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_log_that_outgrew_its_limit_between_two_looks_is_cut_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    number_lines(log, 1, 20_000)
    log.chmod(0o640)
    assert LogBound(log, LIMIT).finish().startswith("1,01")
    kept = numbers(log)
    assert (kept[0], kept[-1]) == (1, 20_000)
    assert LIMIT - 4 * KIB <= log.stat().st_size <= LIMIT + 200
    assert log.stat().st_mode & 0o777 == 0o640


@any_file_system
def test_a_log_without_a_single_newline_is_cut_all_the_same(tmp_path: Path, free: Free) -> None:
    log = tmp_path / "log"
    bound = LogBound(log, LIMIT, free)
    for letter in b"abcdefgh":
        with log.open("ab") as file:
            file.write(bytes([letter]) * LIMIT)
        bound.check()
    assert bound.finish()
    lines = log.read_bytes().split(b"\n")
    assert len(lines) == 3
    assert (set(lines[0]), lines[2][-1:]) == (set(b"a"), b"h")
    assert log.stat().st_size <= LIMIT + 200


def test_a_log_that_is_gone_or_was_truncated_by_its_writer_breaks_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    bound = LogBound(log, LIMIT)
    bound.check()
    number_lines(log, 1, 20_000)
    bound.check()
    log.write_text("a new beginning\n")
    bound.check()
    assert bound.finish() == ""
    assert log.read_text() == "a new beginning\n"
    log.unlink()
    assert bound.finish() == ""


def test_a_disk_too_full_to_write_the_log_anew_leaves_it_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    number_lines(log, 1, 20_000)
    bound = LogBound(log, LIMIT)
    bound.check()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (32 * KIB, before[1])
    )  # Python ignores SIGXFSZ: an OSError, as ENOSPC
    try:
        assert "bytes were cut" in bound.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    excerpt = read_log_end(log).excerpt
    assert (excerpt.lines[-1].strip(), excerpt.line) == ("20000", None)
