# SPDX-License-Identifier: Apache-2.0

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from ci_doctor.caches.families import (
    INDUCTOR,
    INDUCTOR_CPU,
    TRITON,
    CacheLine,
    CacheLineKind,
    OwnFamily,
    own_family,
    relocate,
)
from ci_doctor.errors import UsageError
from tests.support.jit_caches import make_triton_cache, triton_finds


def test_an_unknown_cache_is_bound_to_its_machine_its_python_and_its_directory() -> None:
    family = own_family("kernels")

    assert {"cpu.isa", "gpu.names", "driver", "compiler"} <= set(family.hard)
    assert {"python.abi", "python.packages", "compiler.native"} <= set(family.hard)
    assert "cache.root" in family.path
    assert family.rewrite is None


def test_the_configuration_has_the_fields_of_a_family() -> None:
    settings = msgspec.convert(
        {"hard": ["os.architecture", "package.mylib"], "path": [], "compiled": ["*.so"]}, OwnFamily
    )

    family = own_family("mine", settings)

    assert family.hard == ("os.architecture", "package.mylib")
    assert family.path == ()
    assert family.is_compiled("a/b.so")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("../up", OwnFamily()),
        ("Mine", OwnFamily()),
        ("mine", OwnFamily(hard=("gpu.colour",))),
        ("mine", OwnFamily(path=("package.",))),
        ("mine", OwnFamily(subdirectory="../up")),
        ("mine", OwnFamily(subdirectory="/up")),
        (
            "mine",
            OwnFamily(lines=(CacheLine(kind=CacheLineKind.LOADED, literal="a", pattern="("),)),
        ),
    ],
)
def test_what_can_be_no_family_is_a_usage_error(name: str, settings: OwnFamily) -> None:
    with pytest.raises(UsageError):
        own_family(name, settings)


def test_a_fallback_without_files_is_an_error() -> None:
    with pytest.raises(UsageError, match="files"):
        own_family("mine", OwnFamily(fallback=True))


KERNELS = ("add", "softmax")


def move(old: Path, new: Path) -> None:
    """As a restore does: each file, rewritten, in the new place."""
    rewrite = relocate(TRITON, str(new))
    assert rewrite is not None
    for path in [path for path in old.rglob("*") if path.is_file()]:
        target = new / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(rewrite(path.relative_to(old).as_posix(), path.read_bytes()))
    shutil.rmtree(old)


def test_every_kernel_is_found_after_a_move(tmp_path: Path) -> None:
    make_triton_cache(tmp_path / "old", KERNELS)

    move(tmp_path / "old", tmp_path / "new")

    for kernel in KERNELS:
        found = triton_finds(tmp_path / "new", kernel)
        assert found is not None
        assert all(Path(path).is_relative_to(tmp_path / "new") for path in found)


def test_without_relocation_a_moved_cache_has_no_hit(tmp_path: Path) -> None:
    make_triton_cache(tmp_path / "old", KERNELS)

    (tmp_path / "old").rename(tmp_path / "new")

    assert [triton_finds(tmp_path / "new", kernel) for kernel in KERNELS] == [None, None]


def test_kernels_nested_in_the_cache_of_another_library_are_found_too(tmp_path: Path) -> None:
    make_triton_cache(tmp_path / "old" / "triton" / "0", KERNELS)

    move(tmp_path / "old", tmp_path / "new")

    assert triton_finds(tmp_path / "new" / "triton" / "0", "add") is not None
    assert relocate(INDUCTOR, "/new") is not None
    assert relocate(INDUCTOR_CPU, "/new") is None


def test_a_path_out_of_the_kernels_directory_stays_as_it_is() -> None:
    rewrite = relocate(TRITON, "/new")
    assert rewrite is not None
    group = json.dumps(
        {"child_paths": {"a.cubin": "/old/KEY/a.cubin", "b": "/etc/passwd"}}
    ).encode()

    paths = json.loads(rewrite("KEY/__grp__a.json", group))["child_paths"]

    assert paths == {"a.cubin": "/new/KEY/a.cubin", "b": "/etc/passwd"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"child_paths": ["a"]}',
        b'{"child_paths": {"a": 1}}',
        b"[" * 9999,
    ],
)
def test_what_is_no_group_stays_as_it_is(content: bytes) -> None:
    rewrite = relocate(TRITON, "/new")
    assert rewrite is not None

    assert rewrite("KEY/__grp__a.json", content) == content
    assert rewrite("KEY/a.json", b'{"child_paths": {}}') == b'{"child_paths": {}}'
