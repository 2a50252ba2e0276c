# SPDX-License-Identifier: Apache-2.0
"""Caches in the formats of real libraries, saved to a directory and restored as their rows say."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ci_doctor.caches.families import FAMILIES, Family, relocate
from ci_doctor.store.directory_store import DirectoryStore
from ci_doctor.store.manifest import Manifest
from ci_doctor.store.restore import RestoreRules, restore_tree
from ci_doctor.store.save import SaveRules, save_tree
from ci_doctor.store.transfer import Deadline
from tests.support.jit_caches import make_inductor_cache, make_triton_cache, triton_finds
from tests.support.saved_trees import header, manifest_of

pytestmark = pytest.mark.integration


def save(family: Family, tree: Path, store: DirectoryStore) -> Manifest:
    rules = SaveRules(
        scope="local", deadline=Deadline(60), exclude=family.excludes, group=family.group_of
    )
    of_family = replace(header(tree), family=family.name)
    return manifest_of(store, save_tree(store, tree, of_family, rules))


def restore(family: Family, manifest: Manifest, target: Path, store: DirectoryStore) -> None:
    rules = RestoreRules(
        deadline=Deadline(60),
        rewrite=relocate(family, str(target)),
        merge=family.merge,
        markers=family.is_marker,
        group=family.group_of,
    )
    restore_tree(store, manifest, target, rules)


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_tritons_kernels_are_found_in_another_directory_beside_those_that_are_there(
    tmp_path: Path,
) -> None:
    store, family = DirectoryStore(tmp_path / "store"), FAMILIES["triton"]
    make_triton_cache(tmp_path / "old", ["add", "softmax"])
    manifest = save(family, tmp_path / "old", store)
    (tmp_path / "old").rename(tmp_path / "gone")
    make_triton_cache(tmp_path / "new", ["here"])

    restore(family, manifest, tmp_path / "new", store)

    assert all(triton_finds(tmp_path / "new", kernel) for kernel in ("add", "softmax", "here"))


def test_inductors_cache_comes_back_without_locks_and_with_its_times(tmp_path: Path) -> None:
    store, family = DirectoryStore(tmp_path / "store"), FAMILIES["inductor-cpu"]
    make_inductor_cache(tmp_path / "old", ["a", "b"])

    restore(family, save(family, tmp_path / "old", store), tmp_path / "new", store)

    restored = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert len(restored) == 10
    for path in restored:
        original = tmp_path / "old" / path.relative_to(tmp_path / "new")
        assert path.stat().st_mtime_ns == original.stat().st_mtime_ns


@pytest.mark.parametrize(
    ("name", "operation"),
    [("flashinfer", "0.6/90/cached_ops/norm"), ("deep-gemm", "cache/kernel.gemm.1f2e")],
)
def test_a_directory_that_is_there_is_kept_whole_and_others_join_it(
    name: str, operation: str, tmp_path: Path
) -> None:
    store, family = DirectoryStore(tmp_path / "store"), FAMILIES[name]
    files = (f"{operation}/build.ninja", f"{operation}/.ninja_log", f"{operation}/a.so")
    write(tmp_path / "old", *files, f"{operation}-2/a.so")
    manifest = save(family, tmp_path / "old", store)
    write(tmp_path / "new", f"{operation}/a.so", text="of this job")

    restore(family, manifest, tmp_path / "new", store)

    kept = [path.name for path in (tmp_path / "new" / operation).iterdir()]
    assert kept == ["a.so"]
    assert (tmp_path / "new" / operation / "a.so").read_text() == "of this job"
    assert (tmp_path / "new" / f"{operation}-2" / "a.so").read_text() == "x"


def test_two_of_vllms_caches_of_one_key_are_never_mixed(tmp_path: Path) -> None:
    store, family = DirectoryStore(tmp_path / "store"), FAMILIES["vllm"]
    index, piece = "1f2e/rank_0_0/backbone/vllm_compile_cache.py", "1f2e/rank_0_0/backbone/a.so"
    write(tmp_path / "old", index, piece, "9abc/rank_0_0/backbone/vllm_compile_cache.py")
    manifest = save(family, tmp_path / "old", store)
    write(tmp_path / "new", index, text="of this job")

    restore(family, manifest, tmp_path / "new", store)

    assert (tmp_path / "new" / index).read_text() == "of this job"
    assert not (tmp_path / "new" / piece).exists()
    assert (tmp_path / "new/9abc/rank_0_0/backbone/vllm_compile_cache.py").exists()


def test_the_compute_cache_of_cuda_is_restored_only_where_there_is_none(tmp_path: Path) -> None:
    store, family = DirectoryStore(tmp_path / "store"), FAMILIES["cuda"]
    write(tmp_path / "old", "index", "a/b/entry")
    manifest = save(family, tmp_path / "old", store)
    write(tmp_path / "new", "index", text="of this job")

    restore(family, manifest, tmp_path / "new", store)
    restore(family, manifest, tmp_path / "empty", store)

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["index"]
    assert (tmp_path / "empty/a/b/entry").exists()
