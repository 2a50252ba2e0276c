# SPDX-License-Identifier: Apache-2.0
"""What is offered at the cursor; tests/integration/test_completion.py types it into the real shells."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor import cli
from ci_doctor.commands.completion import VARIABLE, complete
from ci_doctor.commands.listing import COMMANDS
from ci_doctor.errors import UsageError

Offered = Callable[..., list[str]]
CONFIGURATION = """
[services.kv]
command = "x {port}"
[services.vllm]
command = "x {port}"
needs = ["kv"]
[doctor.checks.scratch]
command = "true"
"""

STARTS = ("failing", "shadowed", "printing", "cost", "preload-shim")


@pytest.fixture
def offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Offered:
    """What bash gets for a line whose last word is at the cursor."""
    (tmp_path / "ci-doctor.toml").write_text(CONFIGURATION)
    monkeypatch.chdir(tmp_path)

    def of(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", "\n".join(("ci-doctor", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert complete(cli.root, "bash_complete") == 0
        out = capsys.readouterr()
        assert out.err == ""
        return [line.removeprefix("plain,") for line in out.out.splitlines()]

    return of


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["la"], ["launch"]),
        (["pre"], ["preload"]),
        (["--ver"], ["--version"]),
        (["nonsense", "la"], ["launch"]),
        (["preload", "ver"], ["verify"]),
        (["doctor", "star"], ["starts", *(f"starts/{each}" for each in STARTS)]),
        (["doctor", "own/"], ["own/scratch"]),
        (["doctor", "--skip", "imports/s"], ["imports/services"]),
        (["correctness", "re"], ["replay"]),
        (["config", "sh"], ["show"]),
        (["launch", "--fol"], ["--follow"]),
        (["setup-env", "--determinism", "s"], ["strict"]),
        (["setup-env", "--determinism", "=", "s"], ["strict"]),
        (["setup-env", "--determinism", "="], ["off", "default", "strict"]),
        (["setup-env", "--format", "f"], ["fish"]),
        (["setup-env", "--project", "x"], ["dir,x"]),
        (["setup-env", "--report-dir", "x"], ["dir,x"]),
        (["setup-env", "--config", "x"], ["file,x"]),
        (["setup-env", "--preload", "v"], ["vllm"]),
        (["setup-env", "--python", "./x"], ["file,./x"]),
        (["preload", "install", "v"], ["vllm"]),
        (["launch", "--service", ""], ["kv", "vllm"]),
        (["launch", "--ready", "v"], ["vllm="]),
        (["launch", "--needs", "vllm=", ""], ["--"]),
        (["launch", "--needs", "vllm=k"], ["vllm=kv"]),
        (["restart-check", "--kill", "k"], ["kv"]),
        (["restart-check", "--signal", "SIGK"], ["SIGKILL"]),
        (["correctness", "--requests", "p"], ["file,p"]),
        (["correctness", "replay", "--run", "p"], ["dir,p"]),
        (["explain", "setup-env/not"], ["setup-env/not-prepared"]),
        (["explain", "8"], ["85", "86"]),
        (["explain", "flak"], ["flaky"]),
        (["launch", ""], ["--"]),
        (["run", ""], ["--"]),
        (["import-race", ""], ["--", "probe"]),
        (["launch", "--", ""], ["file,"]),
        (["launch", "--service", "kv", "--", "cat", "fi"], ["file,fi"]),
        (["run", "--", "cat", "--project", "fi"], ["file,fi"]),
        (["run", "--", "./to"], ["file,./to"]),
        (["import-race", "--", "python", "a"], ["file,a"]),
        (["report", "d"], ["file,d"]),
        (["diagnose", "ru"], ["rules", "file,ru"]),
        (["diagnose", "job.log", "ru"], ["file,ru"]),
        (["diagnose", "--baseline", "g"], ["file,g"]),
        (["diagnose", "rules", "--ch"], ["--check"]),
    ],
)
def test_what_may_stand_at_the_cursor(
    words: list[str], expected: list[str], offered: Offered
) -> None:
    assert offered(*words) == expected


def test_every_command_and_no_hook_is_offered(offered: Offered) -> None:
    assert offered("") == [name for name, (group, _) in COMMANDS.items() if group]


def test_behind_the_separator_stand_programs(
    offered: Offered,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, mode in (("my-tool", 0o755), ("my-text", 0o644), ("python3.99", 0o755)):
        (tmp_path / name).touch(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'gone'}")

    assert offered("run", "--", "my") == ["my-tool"]
    assert offered("run", "--", "my-tool", "my") == ["file,my"]
    assert offered("setup-env", "--python", "py") == ["python3.99"]


def test_a_broken_configuration_is_no_reason_to_talk(
    offered: Offered,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "ci-doctor.toml").write_text("[")
    with pytest.raises(AssertionError):
        offered("launch", "--service", "")

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("instruction", ["bash", "ksh_source", "bash_install", "nonsense"])
def test_another_instruction_is_refused(instruction: str) -> None:
    with pytest.raises(UsageError, match=f"{VARIABLE}={instruction}") as raised:
        complete(cli.root, instruction)

    assert "bash_source, zsh_source, fish_source" in str(raised.value.hint)


@pytest.mark.parametrize(("version", "is_good"), [("3.2.57(1)-release", False), ("4.3.48(1)-release", False), ("4.4.0(1)-release", True), ("10.0.1", True), ("", False)])  # fmt: skip
def test_a_bash_that_cannot_read_the_script_gets_none(
    version: str,
    is_good: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bash = tmp_path / "bash"
    bash.write_text(f"#!/bin/sh\necho '{version}'\n")
    bash.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    if is_good:
        assert complete(cli.root, "bash_source") == 0
    else:
        with pytest.raises(UsageError, match="completion needs bash"):
            complete(cli.root, "bash_source")

    assert ("complete -o nosort" in capsys.readouterr().out) == is_good
