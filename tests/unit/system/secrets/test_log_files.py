# SPDX-License-Identifier: Apache-2.0
"""No log keeps a secret, and one without any stays as it is."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_doctor.errors import UsageError
from ci_doctor.system.secrets import redaction as log_files
from ci_doctor.system.secrets.redaction import Redactor, redact_file, redact_files

SECRET = "hf_a/b+c'd\"e ö$"
REDACTOR = Redactor.from_environment({"HF_TOKEN": SECRET, "PATH": "/usr/bin:/bin"})


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(
    pieces=st.lists(
        st.sampled_from(["S3CRET-S3CRET", "S3CRET-", "x", "\n", "abcdefgh", "gh12345678"]),
        max_size=40,
    )
)
def test_file_loses_secrets_over_the_borders_of_its_chunks(
    pieces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "_CHUNK_BYTES", 7)
    redactor = Redactor(["S3CRET-S3CRET", "abcdefgh", "gh12345678"])
    log = tmp_path / "server.log"
    log.write_text("".join(pieces))
    changed = redact_file(log, redactor)
    assert changed == ("[redacted]" in log.read_text())
    assert log.read_text() == redactor.without_values("".join(pieces))


def test_file_without_secrets_is_not_touched(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff\xfe nothing here\n" * 10)
    before = log.stat()
    assert redact_file(log, REDACTOR) is False
    assert redact_file(log, Redactor([])) is False
    assert log.stat().st_ino == before.st_ino


def test_file_keeps_its_mode_and_its_other_bytes(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff" + SECRET.encode() + b"\x00\r\n")
    log.chmod(0o640)
    assert redact_file(log, REDACTOR) is True
    assert log.read_bytes() == b"\xff[redacted]\x00\r\n"
    assert log.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [log]


def test_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text(SECRET)
    link = tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(UsageError, match="not a regular file"):
        redact_file(link, REDACTOR)
    assert target.read_text() == SECRET


def test_missing_file_is_an_error_and_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        redact_file(tmp_path / "absent.log", REDACTOR)


class TestManyFiles:
    def test_each_that_exists_loses_its_secrets(self, tmp_path: Path) -> None:
        logs = [tmp_path / f"{name}.log" for name in ("one", "absent", "two")]
        logs[0].write_text(f"got {SECRET}\n")
        logs[2].write_text("nothing here\n")
        assert redact_files(logs, REDACTOR) == ()
        assert logs[0].read_text() == "got [redacted]\n"
        assert logs[2].read_text() == "nothing here\n"
        assert not logs[1].exists()

    def test_one_that_cannot_be_redacted_is_removed_and_the_next_is_still_done(
        self, tmp_path: Path
    ) -> None:
        target = tmp_path / "target"
        target.write_text(SECRET)
        link = tmp_path / "link.log"
        link.symlink_to(target)
        log = tmp_path / "server.log"
        log.write_text(SECRET)
        (warning,) = redact_files([link, log], REDACTOR)
        assert warning.startswith(f"removed {link}: cannot take secrets out of ")
        assert not link.is_symlink()
        assert (target.read_text(), log.read_text()) == (SECRET, "[redacted]")
