# SPDX-License-Identifier: Apache-2.0
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.python.packages import (
    FILES_MISSING,
    PACKAGE_MODIFIED,
    TORCH_WITHOUT_CUDA,
    WHEEL_OF_ANOTHER_PLATFORM,
    files,
    fitting_tags,
    is_cut_off,
    is_misfit,
    misnamed,
    wheels,
)
from ci_doctor.machine.interpreters import PythonState
from ci_doctor.machine.stub.interpreter_probe import describe
from ci_doctor.model.outcome import Rule
from tests.support.packages import install, site_of
from tests.unit.checks.python.conftest import Examine


def test_files_as_recorded_are_ok_and_removed_tests_and_data_are_not_missed(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    content = {"big/__init__.py": b"1", "big/tests/test_it.py": b"1", "big/data.txt": b"1"}
    install(site, "big", "1", files=content)
    # An image has removed them.
    (site / "big" / "tests" / "test_it.py").unlink()
    (site / "big" / "data.txt").unlink()

    result = examine(files, python)

    assert (result.status, result.problems) == (CheckStatus.OK, ())
    assert result.summary.endswith(" installed files compared with RECORD")


def test_a_missing_file_is_an_error(python: Path, examine: Examine) -> None:
    (site_of(python) / "engine" / "__init__.py").unlink()

    (found,) = examine(files, python).problems

    assert found.finding.rule == FILES_MISSING.id
    assert found.finding.severity == "error"
    assert "engine 1.0 has installed engine/__init__.py" in found.finding.summary
    assert str(found.finding.remedy).endswith("--no-deps engine==1.0")


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("VALUE = 2  # patched\n", PACKAGE_MODIFIED, ""),
        ("", None, "without their end: engine/__init__.py"),
    ],
    ids=["edited in place", "emptied by a full disk"],
)
def test_a_file_that_was_edited_is_a_warning_and_an_emptied_one_an_error(
    text: str, rule: Rule | None, words: str, python: Path, examine: Examine
) -> None:
    (site_of(python) / "engine" / "__init__.py").write_text(text)

    result = examine(files, python)

    assert result.status is (CheckStatus.WARNING if rule else CheckStatus.ERROR)
    assert rule is None or result.problems[0].finding.rule == rule.id
    assert words in result.problems[0].finding.summary


def test_a_file_far_below_is_looked_at_too_and_one_with_a_comma_is_read_as_csv_has_it(
    python: Path, examine: Examine
) -> None:
    site = site_of(python)
    content = {"large/a/b/c/core.abi3.so": b"1", "large/__init__.py": b""}
    install(site, "large", "1", files=content)
    (site / "large/a/b/c/core.abi3.so").unlink()
    (install(site, "odd", "1") / "RECORD").write_text('"odd/a,b.py",sha256=x,3\n')

    large, odd = examine(files, python).problems

    assert "large/a/b/c/core.abi3.so, which no longer exists" in large.finding.summary
    assert "odd/a,b.py" in odd.finding.summary


_ELF = b"\x7fELF\x02\x01" + bytes(12)


def test_a_wheel_and_modules_of_another_python_are_errors(python: Path, examine: Examine) -> None:
    tag = f"cp38-cp38-linux_{platform.machine()}"
    install(site_of(python), "fast", "1", tags=[tag])
    compiled = {"untagged/_C.cpython-38-x86_64-linux-gnu.so": _ELF}
    install(site_of(python), "untagged", "1", files=compiled, tags=[])

    fast, untagged = examine(wheels, python).problems

    assert fast.finding.rule == WHEEL_OF_ANOTHER_PLATFORM.id
    assert fast.finding.severity == "error"
    assert f"its wheel is for {tag}" in fast.finding.summary
    assert "it has 1 module for another Python" in untagged.finding.summary


@pytest.mark.parametrize(
    ("machine", "status"),
    [(platform.machine(), CheckStatus.OK), ("other", CheckStatus.ERROR)],
)
def test_a_wheel_of_the_stable_interface_fits_other_pythons_of_its_machine(
    python: Path, examine: Examine, machine: str, status: CheckStatus
) -> None:
    tags = [f"cp399-cp399-linux_{machine}"]
    install(site_of(python), "stable", "1", files={"stable/_C.abi3.so": _ELF}, tags=tags)

    assert examine(wheels, python).status is status


def test_an_editable_installation_that_was_built_for_another_python_is_an_error(
    python: Path, tmp_path: Path, examine: Examine
) -> None:
    package = tmp_path / "source" / "fast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_C.cpython-38-x86_64-linux-gnu.so").write_bytes(_ELF)
    folder = install(site_of(python), "fast", "1", files={"fast.pth": b"\n"})
    url = {"url": (tmp_path / "source").as_uri(), "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(url))

    (found,) = examine(wheels, python).problems

    assert "has compiled modules for another Python" in found.finding.summary
    assert str(found.finding.remedy).endswith(f"--no-deps -e {tmp_path}/source")


def test_a_torch_for_the_cpu_beside_packages_of_cuda_is_a_warning(
    python: Path, examine: Examine
) -> None:
    install(site_of(python), "torch", "2.9.0+cpu")
    install(site_of(python), "flash-attn", "2.8")

    result = examine(wheels, python)

    assert result.status is CheckStatus.WARNING
    assert result.problems[0].finding.rule == TORCH_WITHOUT_CUDA.id


# From within the directory: other directories above it may be private, too.


def test_a_module_that_a_full_disk_has_cut_off_does_not_load(tmp_path: Path) -> None:
    module = tmp_path / "a.so"
    module.write_bytes(Path(sys.executable).resolve().read_bytes()[:5000])

    assert is_cut_off(str(module))
    assert not is_cut_off(str(Path(sys.executable).resolve()))


def _state(**fields: object) -> PythonState:
    known = {
        "version": "3.12.4",
        "implementation": "cpython",
        "platform": "linux",
        "machine": "x86_64",
        "glibc": "glibc 2.36",
        "suffixes": [".cpython-312-x86_64-linux-gnu.so", ".abi3.so", ".so"],
    }
    return msgspec.convert({**describe(), **known, **fields}, PythonState)


def _is_misfit(tags: Sequence[str], state: PythonState) -> bool:
    fitting = fitting_tags(state)
    assert fitting is not None
    return is_misfit(tags, fitting)


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ("py3-none-any", True),
        ("py2-none-any py3-none-any", True),
        ("cp312-cp312-manylinux_2_17_x86_64 cp312-cp312-manylinux2014_x86_64", True),
        ("cp312-cp312-linux_x86_64", True),
        ("cp38-abi3-manylinux_2_28_x86_64", True),
        ("cp38-abi3-manylinux1_x86_64", True),
        ("py3-none-manylinux_2_18_x86_64", True),
        ("cp311-none-any", True),
        ("notag", True),
        ("", True),
        ("cp310-cp310-manylinux_2_17_x86_64", False),
        ("cp313-abi3-manylinux_2_17_x86_64", False),
        ("cp312-cp312-manylinux_2_17_s390x", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("cp312-cp312-macosx_11_0_arm64", False),
        ("cp312-cp312-manylinux_2_99_x86_64", False),
        ("cp312-cp312t-manylinux_2_17_x86_64", False),
    ],
)
def test_tags_fit_a_python_and_its_machine(tags: str, fits: bool) -> None:
    assert _is_misfit(tags.split(), _state()) is not fits


def test_the_tags_of_another_c_library_or_implementation_are_not_judged() -> None:
    assert fitting_tags(_state(glibc="")) is None
    assert fitting_tags(_state(implementation="pypy")) is None


def test_an_interpreter_without_the_global_lock_needs_wheels_of_its_own() -> None:
    state = _state(suffixes=[".cpython-312t-x86_64-linux-gnu.so", ".so"])

    assert not _is_misfit(["cp312-cp312t-linux_x86_64"], state)
    assert _is_misfit(["cp312-cp312-linux_x86_64"], state)


def test_modules_for_another_python_are_misnamed_unless_there_is_one_for_this() -> None:
    paths = [
        "one.cpython-310-x86_64-linux-gnu.so",
        "two.cpython-310-x86_64-linux-gnu.so",
        "two.cpython-312-x86_64-linux-gnu.so",
        "three.abi3.so",
        "libplain.so",
    ]

    assert misnamed(paths, _state()) == ["one.cpython-310-x86_64-linux-gnu.so"]
