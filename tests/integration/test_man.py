# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor man`, as a person runs it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import doctor, environment, words
from tests.support.terminal import read_to_end

pytestmark = pytest.mark.integration


def on_terminal(cwd: Path, *arguments: str, **changes: str | None) -> tuple[int, str]:
    """The exit code, and what a terminal gets."""
    leader, follower = os.openpty()
    variables = {"TERM": "xterm", "MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "80", **changes}
    started = subprocess.Popen(
        words("man", *arguments),
        cwd=cwd,
        env=environment(variables),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    written = read_to_end(leader)
    # A pager that is cat(1) gets bold as a typewriter made it: each letter twice.
    plain = re.sub(".\x08", "", written.decode())
    return started.wait(), plain.replace("\r\n", "\n")


def test_a_page_is_printed_as_roff_if_nobody_looks(tmp_path: Path) -> None:
    ran = doctor("man", "cache", "restore", cwd=tmp_path)

    assert ran.code == 0, ran
    assert '\n.TH "CI\\-DOCTOR\\-CACHE\\-RESTORE" 1 ' in ran.out, ran


def test_the_name_of_a_page_is_taken_too(tmp_path: Path) -> None:
    ran = doctor("man", "ci-doctor-cache-restore", "--json", cwd=tmp_path)

    (page, *rest) = json.loads(ran.out)["facts"]["pages"]
    assert (ran.code, page["name"], rest) == (0, "ci-doctor-cache-restore", []), ran
    assert ".SH NAME" in page["text"]


def test_an_unknown_command_is_a_usage_error_with_the_nearest_one(tmp_path: Path) -> None:
    ran = doctor("man", "cache", "restor", cwd=tmp_path)

    assert ran.code == 2, ran
    assert "did you mean `cache restore`?" in ran.err, ran


@pytest.mark.skipif(shutil.which("man") is None, reason="needs man(1)")
def test_on_a_terminal_man_shows_the_page(tmp_path: Path) -> None:
    code, written = on_terminal(tmp_path, "wait")

    assert code == 0, written
    assert "EXIT STATUS" in written, written
    assert ".TH" not in written, written


def test_without_man_the_help_text_is_printed(tmp_path: Path) -> None:
    code, written = on_terminal(tmp_path, "wait", PATH=str(tmp_path))

    assert code == 0, written
    assert "man(1) cannot show the page here" in written, written
    assert "Usage: ci-doctor wait [OPTIONS]" in written, written


class TestDirectory:
    def test_all_pages_of_a_command_are_written_and_a_second_run_changes_nothing(
        self, tmp_path: Path
    ) -> None:
        pages = tmp_path / "share" / "man1"
        first = doctor("man", "env", "--directory", pages, cwd=tmp_path)
        names = sorted(each.name for each in pages.iterdir())
        times = {each: each.stat().st_mtime_ns for each in pages.iterdir()}
        second = doctor("man", "env", "--directory", pages, "--json", cwd=tmp_path)

        assert (first.code, second.code) == (0, 0), first
        assert names == ["ci-doctor-env-diff.1", "ci-doctor-env-snapshot.1", "ci-doctor-env.1"]
        assert {each["state"] for each in json.loads(second.out)["facts"]["pages"]} == {"unchanged"}
        assert times == {each: each.stat().st_mtime_ns for each in pages.iterdir()}

    def test_a_dry_run_writes_nothing(self, tmp_path: Path) -> None:
        ran = doctor("man", "wait", "--directory", tmp_path / "man1", "--dry-run", cwd=tmp_path)

        assert ran.code == 0, ran
        assert "would write 1 page to" in ran.out, ran
        assert not (tmp_path / "man1").exists()

    def test_a_page_that_it_did_not_write_stays_and_no_other_is_written(
        self, tmp_path: Path
    ) -> None:
        foreign = tmp_path / "ci-doctor-env-diff.1"
        foreign.write_text(".TH OTHER 1\n")
        ran = doctor("man", "env", "--directory", tmp_path, cwd=tmp_path)

        assert ran.code == 2, ran
        assert "is not a page that `ci-doctor man` wrote" in ran.err, ran
        assert foreign.read_text() == ".TH OTHER 1\n"
        assert list(tmp_path.iterdir()) == [foreign]

    def test_a_directory_that_cannot_be_made_is_a_usage_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        ran = doctor("man", "wait", "--directory", tmp_path / "file" / "man1", cwd=tmp_path)

        assert ran.code == 2, ran
        assert "hint: " in ran.err, ran

    @pytest.mark.skipif(shutil.which("man") is None, reason="needs man(1)")
    def test_man_finds_the_pages_beside_a_directory_of_path(self, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        pages = tmp_path / "share" / "man" / "man1"
        doctor("man", "wait", "--directory", pages, cwd=tmp_path)

        ran = subprocess.run(
            ["man", "-w", "ci-doctor-wait"],
            env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.stdout.strip() == str(pages / "ci-doctor-wait.1"), ran.stderr
