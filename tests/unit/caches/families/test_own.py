# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from ci_doctor.caches.family import CacheLine, CacheLineKind, OwnFamily, own_family
from ci_doctor.errors import UsageError


def test_an_unknown_cache_is_bound_to_its_machine_and_its_directory() -> None:
    family = own_family("kernels")

    assert {"cpu.isa", "gpu.names", "driver", "compiler"} <= set(family.hard)
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


def test_a_family_of_the_command_line_depends_on_python_its_packages_and_native_code() -> None:
    hard = set(own_family("kernels").hard)

    assert {"python.abi", "python.packages", "compiler.native"} <= hard


def test_a_fallback_without_files_is_an_error() -> None:
    with pytest.raises(UsageError, match="files"):
        own_family("mine", OwnFamily(fallback=True))
