# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.diagnosis.log_end import read_log_end
from ci_doctor.services.logs import open_log
from ci_doctor.system.files.bounded_log import LogBound

pytestmark = pytest.mark.integration

POURS = Path(__file__).parents[1] / "support" / "programs" / "pours.py"
MIB = 2**20


def pour(directory: Path, *arguments: str) -> tuple[Path, subprocess.Popen[bytes]]:
    log, output = open_log(directory, "vllm")
    try:
        return log, subprocess.Popen([sys.executable, str(POURS), *arguments], stdout=output)
    finally:
        os.close(output)


@pytest.mark.parametrize("newlines", [(), ("newlines",)], ids=["one endless line", "many lines"])
def test_a_process_that_prints_without_measure_fills_no_disk(
    tmp_path: Path, newlines: tuple[str, ...]
) -> None:
    log, process = pour(tmp_path, "300", *newlines)
    bound = LogBound(log, 8 * MIB)
    freed = 0
    while process.poll() is None:
        before = log.stat().st_blocks
        bound.check()
        freed += max(0, before - log.stat().st_blocks) * 512
    assert freed > 100 * MIB, "given back while it was written"
    assert read_log_end(log).excerpt.lines[-1].endswith("the last words")
    assert "bytes were cut from the middle of vllm-1.log; log_limit is 8 MiB" in bound.finish()
    assert 4 * MIB < log.stat().st_size <= 8 * MIB + 200
    assert log.read_bytes().endswith(b"the last words")
    assert b"\0" not in log.read_bytes()


def test_a_survivor_that_writes_on_while_the_log_is_finished_breaks_nothing(tmp_path: Path) -> None:
    log, process = pour(tmp_path, "400", "newlines")
    bound = LogBound(log, MIB)
    while log.stat().st_size < 8 * MIB:
        bound.check()
    told = bound.finish()
    bound.check()
    assert process.wait(60) == 0
    assert "bytes were cut" in told
    assert read_log_end(log).excerpt.lines[-1] == "x" * 127
