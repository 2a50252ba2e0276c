# SPDX-License-Identifier: Apache-2.0
"""Which entry point of an interpreter a workload starts."""

from pathlib import Path

import pytest

from ci_doctor.checks.entry_points.of_workload import PACKAGES, entry_point_of
from ci_doctor.checks.settings import SERVING, Workload


def words(workload: Workload, directory: Path) -> tuple[str, ...]:
    return entry_point_of(PACKAGES[workload], directory / "python").words


def test_the_console_script_beside_the_interpreter_stands_first(tmp_path: Path) -> None:
    (tmp_path / "vllm").touch()
    (tmp_path / "lmcache").touch()

    assert words(Workload.VLLM, tmp_path) == (f"{tmp_path}/vllm", "--help")
    assert words(Workload.LMCACHE, tmp_path) == (f"{tmp_path}/lmcache", "--help")


def test_without_it_the_module_is_run_or_imported(tmp_path: Path) -> None:
    python = f"{tmp_path}/python"

    assert words(Workload.VLLM, tmp_path) == (
        python,
        "-m",
        "vllm.entrypoints.cli.main",
        "--help",
    )
    assert words(Workload.LMCACHE, tmp_path)[3] == "lmcache.v1.cache_engine"


def test_sglang_is_asked_for_the_help_of_its_server(tmp_path: Path) -> None:
    # The script's own --help imports nothing of the server.
    (tmp_path / "sglang").touch()

    assert words(Workload.SGLANG, tmp_path)[1:] == ("-m", "sglang.launch_server", "--help")


@pytest.mark.parametrize("workload", sorted(SERVING))
def test_every_served_workload_has_an_entry_point(workload: Workload) -> None:
    assert workload in PACKAGES
