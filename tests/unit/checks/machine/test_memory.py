# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.memory import CHECK, memory_severity
from ci_doctor.checks.settings import Workload
from ci_doctor.model.finding import Severity
from tests.support.checks import check_context
from tests.support.machine_trees import GIB, MIB, write_tree


def meminfo(root: Path, available: int, **others: int) -> Path:
    lines = {"MemTotal": 16 * GIB, "MemAvailable": available, **others}
    text = "".join(f"{name}:  {count // 1024} kB\n" for name, count in lines.items())
    return write_tree(root, {"proc/meminfo": text})


def test_this_machine_has_memory(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path))

    assert result.unknown is None
    assert int(str(result.figures["available"])) <= int(str(result.figures["total"]))


def test_a_machine_with_nothing_left_is_not_fit(tmp_path: Path) -> None:
    result = CHECK.run(check_context(tmp_path, root=meminfo(tmp_path, 100 * MIB)))

    assert result.status is CheckStatus.ERROR
    assert result.summary == "104.9 MB of 17.2 GB memory are available"


def test_swap_in_use_is_said(tmp_path: Path) -> None:
    root = meminfo(tmp_path, 9 * GIB, SwapTotal=2 * GIB, SwapFree=1 * GIB)

    result = CHECK.run(check_context(tmp_path, root=root))

    assert result.summary.endswith("1.1 GB of 2.1 GB swap are in use")


@pytest.mark.parametrize(
    ("available", "workload", "severity"),
    [
        (200 * MIB, None, Severity.ERROR),
        (900 * MIB, None, Severity.WARNING),
        (2 * GIB, None, None),
        (2 * GIB, Workload.VLLM, Severity.WARNING),
        (2 * GIB, Workload.CORRECTNESS, None),
        (5 * GIB, Workload.SGLANG, None),
    ],
)
def test_what_is_little_depends_on_the_workload(
    available: int, workload: Workload | None, severity: Severity | None
) -> None:
    assert memory_severity(available, workload) is severity


def test_a_meminfo_without_the_figure_is_unknown(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/meminfo": "MemTotal: 5 kB\nMemFree: x kB\n"})

    with pytest.raises(UndeterminedError, match="does not say"):
        CHECK.run(check_context(tmp_path, root=root))
