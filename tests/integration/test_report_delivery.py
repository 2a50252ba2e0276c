# SPDX-License-Identifier: Apache-2.0
"""A report that cannot be written or printed: files, text and status of the process say one thing."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import Ran, doctor, environment, words

pytestmark = pytest.mark.integration

SERVICE = ("--service", "sleeper=sleep 600", "--ready", "sleeper=exec:true")


def launch(tmp_path: Path, client: str, *options: str) -> Ran:
    """A launch with the report directory `r`, whose client is a line of a shell."""
    return doctor(
        "launch", *SERVICE, "--report-dir", "r", *options, "--", "sh", "-c", client, cwd=tmp_path
    )


def shell(line: str, tmp_path: Path, *arguments: str) -> Ran:
    """Run `line`, in which $DOCTOR is ci-doctor with `arguments`."""
    command = line.replace("$DOCTOR", shlex.join(words(*arguments)))
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr, (command,), tmp_path)


def on_a_small_disk(tmp_path: Path, before: str, *client: str) -> Ran:
    """A launch whose report directory is a file system of its own, once `before` has been run."""
    (tmp_path / "m").mkdir()
    command = words("launch", *SERVICE, "--report-dir", "m", "--json", "--", *client)
    inner = f"mount -t tmpfs -o size=64k tmpfs m && {before}; exec {shlex.join(command)}"
    return shell(f"unshare -rm sh -c {shlex.quote(inner)}", tmp_path)


def written(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "r" / "report.json").read_text())


# What a client can do to the directory, and the forms that can be written all the same.
DAMAGES = {
    "r is a file": "rm -rf r; echo mine >r",
    "report.json is a directory": "mkdir -p r/report.json/x",
    "junit.xml is a directory": "mkdir -p r/junit.xml/x",
    "report.md is a pipe": "mkfifo r/report.md",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.gate(1)
def test_a_pass_that_cannot_be_written_is_infra_in_the_json_and_in_the_status(
    damage: str, tmp_path: Path
) -> None:
    ran = launch(tmp_path, DAMAGES[damage], "--json")

    printed = json.loads(ran.out)
    assert (ran.code, printed["exit_code"], printed["verdict"]) == (75, 75, "infra"), ran
    assert "cannot write " in printed["error"]["message"]
    assert "the verdict was pass" in printed["error"]["detail"]
    assert "report/not-delivered" in [each["rule"] for each in printed["findings"]]
    for path in tmp_path.glob("r/report.json"):
        assert path.is_dir() or written(tmp_path)["exit_code"] == 75


def test_the_same_as_text_and_in_the_forms_that_could_be_written(tmp_path: Path) -> None:
    ran = launch(tmp_path, DAMAGES["report.json is a directory"])

    assert ran.code == 75, ran
    assert "INFRA" in ran.err, ran
    assert "PASS" not in ran.err, ran
    assert "INFRA" in (tmp_path / "r" / "report.md").read_text()
    assert "<error" in (tmp_path / "r" / "junit.xml").read_text()


def test_a_directory_that_the_client_removed_is_made_again(tmp_path: Path) -> None:
    ran = launch(tmp_path, "rm -rf r")

    assert (ran.code, written(tmp_path)["exit_code"]) == (0, 0), ran


def test_a_file_that_would_be_too_large_fails_the_run_and_leaves_no_pass_behind(
    tmp_path: Path,
) -> None:
    # In blocks of 1024 bytes: the JSON is larger than one, junit.xml is not.
    ran = shell("ulimit -f 1; $DOCTOR", tmp_path, "config", "show", "--json", "--report-dir", "r")

    printed = json.loads(ran.out)
    assert (ran.code, printed["exit_code"], printed["verdict"]) == (75, 75, "infra"), ran
    left = {path.name: path.read_text() for path in (tmp_path / "r").iterdir()}
    assert "report.json" not in left
    assert "report/not-delivered" in left.get("junit.xml", "report/not-delivered")


@pytest.mark.parametrize("options", [("--json",), ()])
@pytest.mark.gate(1)
def test_a_full_stdout_is_infra_on_disk_too(options: tuple[str, ...], tmp_path: Path) -> None:
    ran = shell("$DOCTOR >/dev/full", tmp_path, "config", "show", "--report-dir", "r", *options)

    report = written(tmp_path)
    assert (ran.code, report["exit_code"], report["verdict"]) == (75, 75, "infra"), ran
    assert "No space left on device" in report["error"]["message"]
    assert "the report cannot be printed" in ran.err, ran


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("config", "show", "--report-dir", "r"), 141),
        # It takes no verdict away.
        (("launch", *SERVICE, "--report-dir", "r", "--json", "--", "sh", "-c", "exit 3"), 3),
    ],
)
def test_a_reader_that_leaves_is_in_the_report_as_in_the_status(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        words(*arguments),
        cwd=tmp_path,
        env=environment(),
        stdout=writer,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    os.close(writer)

    report = written(tmp_path)
    assert (ended.returncode, report["exit_code"]) == (code, code)
    assert report["verdict"] != "pass"


@needs_mounts
@pytest.mark.parametrize(
    ("fill", "code"),
    [("head -c 1M /dev/zero >m/full || :", 75), ("mount -o remount,ro,bind m", 2)],
    ids=["full", "read-only"],
)
def test_a_disk_that_cannot_be_written_is_found_before_anything_starts(
    fill: str, code: int, tmp_path: Path
) -> None:
    ran = on_a_small_disk(tmp_path, f"{fill} 2>/dev/null", "touch", "started")

    assert (ran.code, json.loads(ran.out)["exit_code"]) == (code, code), ran
    assert not (tmp_path / "started").exists()


@needs_mounts
def test_a_disk_that_fills_up_during_the_run(tmp_path: Path) -> None:
    client = "head -c 1M /dev/zero >m/full; true"
    ran = on_a_small_disk(tmp_path, "true", "sh", "-c", client)

    printed = json.loads(ran.out)
    assert (ran.code, printed["exit_code"], printed["verdict"]) == (75, 75, "infra"), ran
    assert "No space left" in printed["error"]["message"]


def test_json_that_nobody_can_read_is_infra_on_disk_too(tmp_path: Path) -> None:
    ran = shell("$DOCTOR --json -- true >&-", tmp_path, "launch", *SERVICE, "--report-dir", "r")

    assert ran.code == 75
    assert "stdout is closed" in ran.err
    assert (written(tmp_path)["verdict"], written(tmp_path)["exit_code"]) == ("infra", 75)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.gate(1)
def test_closed_streams_are_no_file_of_ours_to_a_command(closed: str, tmp_path: Path) -> None:
    look = "import json, os; [os.fstat(n) for n in range(3)]; print(os.readlink('/proc/self/fd/2'))"
    ran = shell(
        f"$DOCTOR -- python3 -c {shlex.quote(look + '; open(2, chr(119)).write(chr(120))')} {closed}",
        tmp_path,
        *("import-race", "--report-dir", "r"),
    )

    assert ran.code == 0
    assert written(tmp_path)["verdict"] == "pass"


def test_a_report_that_another_put_in_the_place_of_ours_is_not_overwritten(
    tmp_path: Path,
) -> None:
    (tmp_path / "other").mkdir()
    theirs = tmp_path / "other" / "report.json"
    theirs.write_text("theirs")

    ran = launch(tmp_path, "rm -rf r; ln -s other r", "--json")

    assert theirs.read_text() == "theirs"
    assert (ran.code, json.loads(ran.out)["verdict"]) == (75, "infra")
    assert "with the report of another run" in ran.err + ran.out
