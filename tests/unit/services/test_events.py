# SPDX-License-Identifier: Apache-2.0
import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.errors import UsageError
from ci_doctor.services.events import EventLog
from ci_doctor.services.outcome import EventKind, ServiceEvent
from ci_doctor.system.secrets.redaction import Redactor

STARTED = ServiceEvent(
    kind=EventKind.STARTED, service="vllm", at=12.5, start=1, pid=4242, log="/logs/vllm-1.log"
)
DIED = replace(STARTED, kind=EventKind.DIED, signal="SIGKILL", duration_s=2.0, peak_rss=1024)


def written(
    path: Path, *events: ServiceEvent, secrets: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    warnings: list[str] = []
    with EventLog(path, Redactor(secrets), warnings.append) as log:
        for event in events:
            log(event)
    assert warnings == []
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_is_one_line_of_json(tmp_path: Path) -> None:
    started, died = written(tmp_path / "deep" / "events.jsonl", STARTED, DIED)
    assert started.pop("time").endswith("Z")
    assert started == {"t": 12.5, "event": "started", "service": "vllm", "start": 1, "pid": 4242, "log": "/logs/vllm-1.log"}  # fmt: skip
    assert (died["event"], died["exit_code"], died["signal"], died["peak_rss"]) == (
        "died",
        None,
        "SIGKILL",
        1024,
    )


def test_a_line_is_there_before_the_next_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, Redactor(()), print) as log:
        log(STARTED)
        assert path.read_text().count("\n") == 1


def test_the_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("of yesterday\n")
    assert len(written(path, STARTED)) == 1


def test_secrets_stay_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    written(path, replace(STARTED, log="/logs/hunter22-1.log"), secrets=("hunter22",))
    assert "hunter22" not in path.read_text()
    assert "[redacted]" in path.read_text()


def test_a_full_disk_is_told_once_and_stops_nobody() -> None:
    warnings: list[str] = []
    with EventLog(Path("/dev/full"), Redactor(()), warnings.append) as log:
        log(STARTED)
        log(DIED)
    assert warnings == ["cannot write events to /dev/full: No space left on device"]


def test_a_reader_that_leaves_stops_nobody(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    warnings: list[str] = []
    with EventLog(pipe, Redactor(()), warnings.append) as log:
        log(STARTED)
        assert json.loads(os.read(reader, 4096))["event"] == "started"
        os.close(reader)
        log(DIED)
    assert len(warnings) == 1


def test_a_reader_that_stalls_gets_whole_lines_later(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    warnings: list[str] = []
    with EventLog(pipe, Redactor(()), warnings.append) as log:
        while not warnings:
            log(STARTED)
        while len(os.read(reader, 1 << 16)) == 1 << 16:
            pass
        log(DIED)
        last = os.read(reader, 4096).decode().splitlines()[-1]
    os.close(reader)
    assert json.loads(last)["event"] == "died"


@pytest.mark.parametrize("name", ["", "file/events.jsonl"])
def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write events"):
        EventLog(tmp_path / name, Redactor(()), print)


def test_a_pipe_that_nobody_reads_is_a_usage_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot write events"):
        EventLog(tmp_path / "pipe", Redactor(()), print)
