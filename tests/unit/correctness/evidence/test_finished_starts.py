# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.evidence.finished_starts import (
    StartWriter,
    read_starts,
    write_starts,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.tally import Tally
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.model.facts.launch import ServiceRun
from ci_doctor.model.service import FailureKind, NamedProcess, ServiceFailure, StopResult
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.recording import IDS, PASSES, result

SECRET = "sk-123456789"


def stopped(name: str) -> StopResult:
    return StopResult(duration_s=1.0, killed=(NamedProcess(pid=7, name=name),))


def write(directory: Path, name: str, **changes: Any) -> None:
    arm = Arm.BASELINE if name[0] == "A" else Arm.CANDIDATE
    tally = Tally(arm=arm, number=int(name[1:]), ids=IDS, passes=PASSES)
    with StartWriter(directory, Redactor([SECRET]), append=True) as writer:
        writer.write(result(tally, directory, **{"samples": 6, **changes}))


def test_each_finished_start_is_a_line_and_the_unfinished_is_none(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    write(tmp_path, "B1", cut_short=True)
    write(tmp_path, "A0", warm_up=True)
    write(tmp_path, "B2")
    assert [record.start.name for record in read_starts(tmp_path)] == ["A1", "B2"]


def test_a_new_run_begins_with_an_empty_record(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    with StartWriter(tmp_path, Redactor(())):
        pass
    assert read_starts(tmp_path) == []


def test_logs_are_told_relative_to_the_report_directory(tmp_path: Path) -> None:
    failure = ServiceFailure(
        kind=FailureKind.DIED,
        service="v",
        message="m",
        log=str(tmp_path / "logs/A1/v-1.log"),
        duration_s=1.0,
    )
    write(
        tmp_path,
        "A1",
        failure=failure,
        services=(
            ServiceRun(name="v", log=str(tmp_path / "logs/A1/v-1.log")),
            ServiceRun(name="w", log="/elsewhere/v.log"),
        ),
    )
    (record,) = read_starts(tmp_path)
    assert record.logs == (str(tmp_path / "logs/A1/v-1.log"), "/elsewhere/v.log")
    assert record.failure == failure
    line = json.loads((tmp_path / "starts.jsonl").read_text())["result"]
    assert [each["log"] for each in line["services"]] == ["logs/A1/v-1.log", "/elsewhere/v.log"]
    assert line["failure"]["log"] == "logs/A1/v-1.log"


def test_no_secret_of_a_log_or_a_command_line_is_kept(tmp_path: Path) -> None:
    failure = ServiceFailure(
        kind=FailureKind.DIED, service="v", message="m", tail=(f"key {SECRET}",), duration_s=1.0
    )
    write(
        tmp_path,
        "A1",
        failure=failure,
        facts={"argv": f"--api-key {SECRET}"},
        stopped=stopped(SECRET),
    )
    assert SECRET not in (tmp_path / "starts.jsonl").read_text()
    assert read_starts(tmp_path)[0].samples == 6


def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "A1")
    path = tmp_path / "starts.jsonl"
    line = path.read_bytes()
    path.write_bytes(b"{}\n[\n\xff\n" + line + line[:-1])
    assert [record.start.name for record in read_starts(tmp_path)] == ["A1"]
    write_starts(tmp_path, read_starts(tmp_path))
    assert path.read_bytes() == line


def test_a_record_that_cannot_be_read_or_written_is_a_mistake(tmp_path: Path) -> None:
    assert read_starts(tmp_path) == []
    (tmp_path / "starts.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        read_starts(tmp_path)
    with pytest.raises(UsageError, match="cannot write"):
        write(tmp_path, "A1")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_nobodys_fault(tmp_path: Path) -> None:
    (tmp_path / "starts.jsonl").symlink_to("/dev/full")
    with pytest.raises(InfraError, match="No space left"):
        write(tmp_path, "A1")


def test_a_record_is_one_line_of_json(tmp_path: Path) -> None:
    write(tmp_path, "A1", stopped=stopped("a\nb \udc80"))
    (line,) = (tmp_path / "starts.jsonl").read_text().splitlines()
    assert json.loads(line)["result"]["stopped"]["killed"][0]["name"] == "a\nb \udc80"
