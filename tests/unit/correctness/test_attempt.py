# SPDX-License-Identifier: Apache-2.0
"""Tests of the directories of a start."""

# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.correctness.attempt import (
    copy_restored,
    fresh_caches,
)
from ci_doctor.correctness.settings import CopiedCache
from ci_doctor.environment.cache_table import TABLE


def test_every_cache_gets_an_empty_directory_of_its_own(tmp_path: Path) -> None:
    variables = fresh_caches(tmp_path / "a", {})
    variables = {key: path for key, path in variables.items() if path.startswith(str(tmp_path))}

    assert set(variables) == {*(row.variable for row in TABLE), "XDG_CACHE_HOME"}
    assert len(set(variables.values())) == len(TABLE) + 1
    assert all(
        Path(path).is_dir() and Path(path).is_relative_to(tmp_path / "a")
        for path in variables.values()
    )


def test_what_is_downloaded_stays_where_it_is(tmp_path: Path) -> None:
    variables = fresh_caches(tmp_path, {"HOME": "/home/ci"})

    assert variables["FLASHINFER_CUBIN_DIR"] == "/home/ci/.cache/flashinfer/cubins"
    assert variables["HF_HOME"] == "/home/ci/.cache/huggingface"
    assert variables["PIP_CACHE_DIR"] == "/home/ci/.cache/pip"
    assert not {"HOME", "SGLANG_CACHE_DIR"} & set(variables)
    own = fresh_caches(tmp_path, {"HOME": "/h", "HF_HOME": "/hf", "XDG_CACHE_HOME": "/x"})
    assert "HF_HOME" not in own
    assert own["TORCH_HOME"] == "/x/torch"
    assert "FLASHINFER_CUBIN_DIR" not in fresh_caches(
        tmp_path, {"HOME": "/h", "FLASHINFER_CUBIN_DIR": "/cubins"}
    )


def test_a_start_gets_a_copy_with_its_times_whose_paths_lead_into_it(tmp_path: Path) -> None:
    tree = tmp_path / "restored"
    (tree / "k").mkdir(parents=True)
    (tree / "k" / "__grp__k.json").write_text(str(tree))
    (tree / "k" / "k.cubin").write_bytes(b"code")
    os.utime(tree / "k" / "k.cubin", ns=(5, 7))
    copied = CopiedCache(
        variable="TRITON_CACHE_DIR",
        subdirectory="",
        tree=tree,
        rewrite=lambda root: (
            lambda _path, content: content.replace(str(tree).encode(), root.encode())
        ),
    )

    copy_restored([copied], {"TRITON_CACHE_DIR": str(tmp_path / "start-1")})

    start = tmp_path / "start-1" / "k"
    assert (start / "__grp__k.json").read_text() == str(tmp_path / "start-1")
    assert (start / "k.cubin").stat().st_mtime_ns == 7
    assert (tree / "k" / "__grp__k.json").read_text() == str(tree)
