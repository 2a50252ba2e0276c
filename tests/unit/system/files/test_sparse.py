# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.system.files.sparse import BLOCK_BYTES, free_range, is_sparse


def test_a_freed_range_reads_as_zeros_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (4 * BLOCK_BYTES))
    with path.open("r+b") as file:
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


def test_an_empty_file_is_not_sparse(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        assert not is_sparse(file.fileno())
