import platform
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.python.elf_header import defect


def _head(machine: int) -> bytes:
    return b"\x7fELF\x02\x01" + bytes(12) + machine.to_bytes(2, "little")


def test_the_running_interpreter_was_built_for_this_machine() -> None:
    assert defect(str(Path(sys.executable).resolve()), platform.machine()) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "no shared library"),
        (_head(183), "built for aarch64, and this machine is x86_64"),
    ],
)
def test_what_does_not_load(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(content)

    assert reason in (defect(str(tmp_path / "a.so"), "x86_64") or "")


@pytest.mark.parametrize("content", [_head(62), _head(9999), b"INPUT(libc.so.6)\n"])
def test_what_may_load(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(content)

    assert defect(str(tmp_path / "a.so"), "x86_64") is None


def test_a_module_that_a_full_disk_has_cut_off_does_not_load(tmp_path: Path) -> None:
    module = tmp_path / "a.so"
    module.write_bytes(Path(sys.executable).resolve().read_bytes()[:5000])

    assert "cut off" in (defect(str(module), platform.machine()) or "")
