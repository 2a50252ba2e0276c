from collections.abc import Sequence

import msgspec
import pytest

from ci_doctor.checks.python.python_state import PythonState
from ci_doctor.checks.python.stub.interpreter_probe import describe
from ci_doctor.checks.python.wheel_tags import misfit, misnamed


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


@pytest.mark.parametrize(
    "tags",
    [
        ["py3-none-any"],
        ["py2-none-any", "py3-none-any"],
        ["cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux2014_x86_64"],
        ["cp312-cp312-linux_x86_64"],
        ["cp38-abi3-manylinux_2_28_x86_64"],
        ["cp38-abi3-manylinux1_x86_64"],
        ["py3-none-manylinux_2_18_x86_64"],
        ["cp311-none-any"],
        ["no tag"],
        [],
    ],
)
def test_tags_that_fit(tags: Sequence[str]) -> None:
    assert misfit(tags, _state()) is None


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("cp310-cp310-manylinux_2_17_x86_64", "built for Python 3.10"),
        ("cp313-abi3-manylinux_2_17_x86_64", "built for Python 3.13"),
        ("cp312-cp312-manylinux_2_17_aarch64", "this machine is x86_64"),
        ("cp312-cp312-musllinux_1_2_x86_64", "built for musl"),
        ("cp312-cp312-macosx_11_0_arm64", "built for macosx_11_0_arm64"),
        ("cp312-cp312-manylinux_2_39_x86_64", "needs glibc 2.39"),
        ("cp312-cp312t-manylinux_2_17_x86_64", "interface cp312t"),
    ],
)
def test_tags_that_do_not_fit(tag: str, reason: str) -> None:
    assert reason in (misfit([tag], _state()) or "")


def test_wheels_for_glibc_do_not_fit_an_interpreter_of_musl() -> None:
    tag = "cp312-cp312-manylinux_2_17_x86_64"

    assert "another C library" in (misfit([tag], _state(glibc="")) or "")


def test_an_interpreter_without_the_global_lock_needs_wheels_of_its_own() -> None:
    state = _state(suffixes=[".cpython-312t-x86_64-linux-gnu.so", ".so"])

    assert misfit(["cp312-cp312t-linux_x86_64"], state) is None
    assert misfit(["cp312-cp312-linux_x86_64"], state) is not None


def test_modules_for_another_python_are_misnamed_unless_there_is_one_for_this() -> None:
    paths = [
        "one.cpython-310-x86_64-linux-gnu.so",
        "two.cpython-310-x86_64-linux-gnu.so",
        "two.cpython-312-x86_64-linux-gnu.so",
        "three.abi3.so",
        "libplain.so",
    ]

    assert misnamed(paths, _state()) == ["one.cpython-310-x86_64-linux-gnu.so"]
