# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus, UndeterminedError
from ci_doctor.checks.machine.directories import DirectoryRole
from ci_doctor.checks.machine.disks import Disks, UnansweredDirectory
from ci_doctor.checks.machine.mounts import Mount
from ci_doctor.checks.machine.network_disks import network_result
from ci_doctor.model.finding import Severity
from tests.support.placed_directories import disks_of, placed


def test_compiled_kernels_on_a_network_disk_are_a_note() -> None:
    kernels = placed(name="TRITON_CACHE_DIR", role=DirectoryRole.JIT_CACHE, kind="nfs4")
    models = placed(name="HF_HOME", role=DirectoryRole.DOWNLOAD_CACHE, kind="nfs4")

    result = network_result(disks_of(kernels, models))

    assert result.status is CheckStatus.OK
    (finding,) = [each.finding for each in result.problems]
    assert finding.severity is Severity.NOTE
    assert finding.summary == (
        "TRITON_CACHE_DIR lies on a network file system: /scratch disk (nfs4)"
    )


def test_models_on_a_network_disk_are_usual_and_named_only() -> None:
    result = network_result(
        disks_of(placed(name="HF_HOME", role=DirectoryRole.DOWNLOAD_CACHE, kind="lustre"))
    )

    assert result.problems == ()
    assert result.summary == "on a network: /scratch disk (lustre)"


def test_a_server_that_does_not_answer_is_still_known_to_be_one() -> None:
    mount = Mount(point=Path("/models"), kind="nfs", source="server:/models")
    dead = UnansweredDirectory(directory=placed().directory, reason="no answer", mount=mount)

    result = network_result(Disks(directories=(placed(),), unanswered=(dead,)))

    assert result.summary == "on a network: /models (nfs)"


def test_without_mountinfo_it_is_unknown() -> None:
    with pytest.raises(UndeterminedError, match="mountinfo"):
        network_result(Disks(directories=(), unanswered=()))
