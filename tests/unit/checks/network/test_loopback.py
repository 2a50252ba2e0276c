"""A connection over the loopback interface."""

import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.network.loopback import CHECK
from tests.support.checks import check_context

PROGRAM = """
import pathlib
from ci_doctor.checks.network.loopback import CHECK
from tests.support.checks import check_context
result = CHECK.run(check_context(pathlib.Path("/")))
print(result.status, result.problems[0].finding.remedy)
"""


def test_this_machine_can_connect_to_itself(tmp_path: Path) -> None:
    assert CHECK.run(check_context(tmp_path)).status is CheckStatus.OK


def test_a_new_network_namespace_has_its_loopback_interface_down() -> None:
    """As in a container that is started with `--network none` by some runtimes."""
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespace can be made here")

    ran = subprocess.run(
        [*alone, sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert ran.stdout == "error ip link set lo up\n", ran.stderr
