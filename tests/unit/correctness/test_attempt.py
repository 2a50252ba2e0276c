# SPDX-License-Identifier: Apache-2.0
"""Tests of the directories of a start."""

# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from ci_doctor.correctness.attempt import (
    cache_places,
    copy_restored,
    count_files,
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
    assert count_files(tmp_path / "a") == 0


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


def test_the_caches_of_an_environment_are_found(tmp_path: Path) -> None:
    places = cache_places({"HOME": str(tmp_path), "TRITON_CACHE_DIR": "/elsewhere"})

    assert {Path("/elsewhere"), tmp_path / ".cache/vllm", tmp_path / ".cache/flashinfer"} <= set(
        places
    )
    assert tmp_path / ".triton/cache" not in places


def test_without_a_home_directory_only_what_lies_in_the_temporary_one_is_counted() -> None:
    assert set(cache_places({"TMPDIR": "/t", "USER": "ci"})) == {
        Path("/t/torchinductor_ci"),
        Path("/t/ci/cutlass_python_cache"),
    }


def test_files_are_counted_at_every_depth_once_and_without_locks(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("a/x.so", "a/b/y.cubin", "a/b/y.lock"):
        (tmp_path / name).write_text("")
    (tmp_path / "again").symlink_to(tmp_path / "a")

    assert count_files(tmp_path / "a") == 2
    assert (
        count_files(tmp_path / "a", tmp_path / "a/b", tmp_path / "again", tmp_path / "nowhere") == 2
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
