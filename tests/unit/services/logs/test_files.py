# SPDX-License-Identifier: Apache-2.0
import os
import resource
from pathlib import Path

import pytest

from ci_doctor.errors import InfraError, UsageError
from ci_doctor.services.logs.files import open_log


def test_each_start_has_a_log_of_its_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path, descriptor = open_log(tmp_path / "logs", "vllm")
        os.close(descriptor)
        names.append(path.name)
    assert names == ["vllm-1.log", "vllm-2.log", "vllm-3.log"]


def test_a_log_directory_that_is_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(UsageError, match="cannot write logs"):
        open_log(tmp_path / "logs", "vllm")


def test_a_machine_without_room_for_a_log_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(InfraError, match="cannot write logs"):
            open_log(tmp_path, "vllm")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
