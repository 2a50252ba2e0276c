# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.correctness.evidence.run_identity import clear, clear_unfinished, redact_logs
from ci_doctor.errors import UsageError
from ci_doctor.system.secrets.redaction import Redactor

OURS = (
    "samples.jsonl",
    ".samples.jsonl.partial",
    "logs/A1/vllm-1.log",
    "logs/B12/kv.cache-10.log",
    "localise/samples.jsonl",
    "localise/smallest-request.jsonl",
    "localise/logs/A5/vllm-1.log",
)
FOREIGN = (
    "notes.txt",
    "logs/notes.log",
    "logs/A1/notes.txt",
    "logs/A1/notes.log",
    "logs/A1b/vllm-1.log",
    "other/A1/x-1.log",
    "localise/notes.txt",
    "localise/logs/notes.log",
)


def fill(directory: Path, content: str = "x") -> None:
    for name in (*OURS, *FOREIGN):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def left(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_what_an_earlier_run_left_goes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    fill(tmp_path)
    clear(tmp_path)
    assert left(tmp_path) == set(FOREIGN)
    clear(tmp_path)


def test_a_folder_that_somebody_linked_in_is_not_entered(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere")
    (tmp_path / "out" / "logs").mkdir(parents=True)
    (tmp_path / "out" / "logs" / "A1").symlink_to(tmp_path / "elsewhere" / "logs" / "A1")
    clear(tmp_path / "out")
    assert left(tmp_path / "elsewhere") == {*OURS, *FOREIGN}


def test_evidence_that_cannot_be_removed_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot remove what"):
        clear(tmp_path)


def test_secrets_leave_our_logs_and_foreign_files_are_untouched(tmp_path: Path) -> None:
    fill(tmp_path, "key: sk-123456789")
    assert list(redact_logs(tmp_path, Redactor(["sk-123456789"]))) == []
    assert (tmp_path / OURS[2]).read_text() == "key: [redacted]"
    assert (tmp_path / FOREIGN[3]).read_text() == "key: sk-123456789"


def test_a_log_that_secrets_cannot_be_taken_out_of_is_removed_and_told(tmp_path: Path) -> None:
    fill(tmp_path)
    log = tmp_path / OURS[2]
    log.unlink()
    log.symlink_to(tmp_path / "notes.txt")
    (told,) = redact_logs(tmp_path, Redactor(["sk-123456789"]))
    assert "not a regular file" in told
    assert not log.is_symlink()
    assert (tmp_path / "notes.txt").exists()


BEGINNINGS = {
    "run.json": '{"schema": "ci-doctor/run/1", "version"',
    "starts.jsonl": '{"schema": "ci-doctor/start/1", "arm"',
    "report.html": '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="generator" content="ci-doctor 1.0">',
}


@pytest.mark.parametrize("content", [BEGINNINGS, {"starts.jsonl": ""}], ids=["whole", "empty"])
def test_a_run_and_a_page_of_ours_go(tmp_path: Path, content: dict[str, str]) -> None:
    for name, beginning in content.items():
        (tmp_path / name).write_text(beginning)
    clear(tmp_path)
    assert left(tmp_path) == set()


def test_what_others_wrote_under_our_names_stays(tmp_path: Path) -> None:
    for name in BEGINNINGS:
        (tmp_path / name).write_text("<html>of pytest-html</html>")
    clear(tmp_path)
    assert left(tmp_path) == set(BEGINNINGS)


def test_before_a_run_goes_on_only_finished_starts_keep_their_logs(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "report.html").write_text(BEGINNINGS["report.html"])
    clear_unfinished(tmp_path, {"B12"})
    assert left(tmp_path) == {*OURS, *FOREIGN} - {"logs/A1/vllm-1.log"}
