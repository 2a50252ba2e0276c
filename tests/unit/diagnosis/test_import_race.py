# SPDX-License-Identifier: Apache-2.0
"""Which errors of imports are recognised, and which step is named."""

import pytest

from ci_doctor.services.findings import import_race_sign, is_import_race, next_step

WHY = "(most likely due to a circular import)"
PARTIAL = (
    "ImportError: cannot import name 'sub' from partially initialized module 'pkg.core' "
    f"{WHY} (/site-packages/pkg/core.py)"
)
ATTRIBUTE = f"AttributeError: partially initialized module 'json' has no attribute 'loads' {WHY}"
SUBMODULE = f"AttributeError: cannot access submodule 'sub' of module 'pkg' {WHY}"
DEADLOCK = "_frozen_importlib._DeadlockError: deadlock detected by _ModuleLock('pkg.a') at 14"
LAZY = "ImportError: cannot import name 'GenerationConfig' from 'transformers' (/x/__init__.py)"


@pytest.mark.parametrize(
    ("line", "module", "name", "is_partial"),
    [
        (PARTIAL, "pkg.core", "sub", True),
        (LAZY, "transformers", "GenerationConfig", False),
        (ATTRIBUTE, "json", "loads", True),
        (SUBMODULE, "pkg", "sub", True),
        (DEADLOCK, "pkg.a", None, True),
    ],
)
def test_errors_of_imports_that_can_be_lost_to_a_thread_are_recognised(
    line: str, module: str, name: str | None, is_partial: bool
) -> None:
    sign = import_race_sign(["serving", f"(worker pid=7) {line}", "bye"])

    assert sign is not None
    assert (sign.module, sign.name, sign.is_partial) == (module, name, is_partial)
    assert is_import_race(line)


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'transformers'",
        "AttributeError: module 'numpy' has no attribute 'float'",
        "ImportError: libcudart.so.12: cannot open shared object file",
        "",
    ],
)
def test_other_errors_are_not(line: str) -> None:
    assert import_race_sign([line]) is None
    assert next_step([line]) is None


def test_a_module_that_may_replace_itself_is_probed() -> None:
    assert "`ci-doctor import-race probe transformers:GenerationConfig`" in (
        next_step([LAZY]) or ""
    )


def test_an_incomplete_module_is_explained_because_a_probe_covers_no_cycles() -> None:
    step = next_step([PARTIAL]) or ""

    assert "`ci-doctor explain import-race`" in step
    assert "probe" not in step


def test_the_last_error_counts() -> None:
    sign = import_race_sign([PARTIAL, LAZY])

    assert sign is not None
    assert sign.module == "transformers"
