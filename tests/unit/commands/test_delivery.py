# SPDX-License-Identifier: Apache-2.0
import io
import json
import os
from pathlib import Path

import pytest

from ci_doctor.commands.delivery import WRITTEN, claim, deliver, show
from ci_doctor.errors import UsageError
from ci_doctor.system.secrets.redaction import Redactor
from tests.support.builders import a_report as report


class TestClaiming:
    def test_takes_away_what_an_earlier_run_left_and_nothing_else(self, tmp_path: Path) -> None:
        for name in (*WRITTEN, "notes.txt"):
            (tmp_path / name).write_text("old")
        claim(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

    def test_makes_the_directory(self, tmp_path: Path) -> None:
        claim(tmp_path / "a" / "b")
        assert list((tmp_path / "a" / "b").iterdir()) == []

    def test_of_no_directory_is_nothing(self) -> None:
        claim(None)

    def test_fails_early_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "r" / "report.json").mkdir(parents=True)
        for directory in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "r"):
            with pytest.raises(UsageError) as caught:
                claim(directory)
            assert caught.value.hint


class TestDelivering:
    def test_writes_all_forms_and_gives_the_reports_code(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert deliver(report(exit_code=86), as_json=False, directory=tmp_path) == 86
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WRITTEN)
        out, err = capsys.readouterr()
        assert (out, bool(err)) == ("", True)

    def test_json_goes_to_stdout_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        deliver(report(), as_json=True, directory=None)
        out, err = capsys.readouterr()
        assert (json.loads(out)["schema"], err) == ("ci-doctor/report/2", "")

    @pytest.mark.parametrize(("code", "then"), [(0, 75), (1, 1), (86, 86)])
    def test_a_directory_that_is_gone_fails_what_had_passed(
        self, code: int, then: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")
        assert deliver(report(exit_code=code), as_json=False, directory=tmp_path / "file") == then
        assert "cannot write" in capsys.readouterr().err

    def test_secrets_are_in_no_form(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hunter2hunter2")
        told = report(summary="with hunter2hunter2 and swordfish1", facts={"x": "swordfish1"})
        deliver(
            told,
            as_json=True,
            directory=tmp_path,
            redactor=Redactor.from_environment(os.environ, {"API_KEY": "swordfish1"}),
        )
        everything = capsys.readouterr().out + "".join(
            path.read_text() for path in tmp_path.iterdir()
        )
        assert "hunter2hunter2" not in everything
        assert "swordfish1" not in everything


def test_a_stream_that_was_closed_is_shown_nothing() -> None:
    show(report(), None)


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    stream = io.StringIO()
    show(report(summary="word " * 100), stream)
    assert "\x1b" not in stream.getvalue()
    assert max(map(len, stream.getvalue().splitlines())) <= 80
