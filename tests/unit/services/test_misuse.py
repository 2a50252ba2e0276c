# SPDX-License-Identifier: Apache-2.0
"""Whether commands that cannot run are known by what real interpreters and parsers write."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_doctor.services.spec import blamed_words, is_sudden, misuse_of

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser(prog="vllm serve")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--dtype", choices=["auto", "half"])
print("INFO loading the configuration", flush=True)
parser.parse_args()
"""
CLICK = """
import click
@click.group()
def main(): pass
@main.command()
@click.option("--port", type=int)
def serve(port): pass
main()
"""


def ended(words: list[str], cwd: Path) -> tuple[int, list[str]]:
    """The exit code of a command, and the lines of its log."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} here")
    ran = subprocess.run(
        words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    return ran.returncode, ran.stdout.decode().splitlines()


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ([sys.executable, "servr.py"], "servr.py"),
        ([sys.executable, "-u", "no such.py"], "no such.py"),
        ([sys.executable, "-m", "nosuch"], "nosuch"),
        ([sys.executable, "-m", "nosuch.serve"], "nosuch"),
        ([sys.executable, "-m", "logging"], "logging"),
        ([sys.executable, "folder"], "folder"),
        ([sys.executable, "--nosuch"], "--nosuch"),
        (["bash", "servr.sh"], "servr.sh"),
        (["dash", "servr.sh"], "servr.sh"),
        (["zsh", "-f", "servr.sh"], "servr.sh"),
        (["bash", "-c", "exec nosuch-program --port 1"], "nosuch-program"),
        (["dash", "-c", "nosuch-program --port 1"], "nosuch-program"),
        (["zsh", "-fc", "nosuch-program --port 1"], "nosuch-program"),
        (["bash", "-c", "./plain"], "./plain"),
        (["dash", "-c", "./plain"], "./plain"),
        (["env", "nosuch-program"], "nosuch-program"),
        (["nohup", "nosuch-program"], "nosuch-program"),
        (["timeout", "5", "nosuch-program"], "nosuch-program"),
        (["env", "./plain"], "./plain"),
        (["make", "sevre"], "sevre"),
        (["npm", "run", "sevre"], "sevre"),
        (["bash", "-c", "python3 servr.py || exit 1"], "servr.py"),
        (["perl", "servr.pl"], "servr.pl"),
        (["java", "-jar", "servr.jar"], "servr.jar"),
        ([sys.executable, "parser.py", "--port", "1", "--typo"], "--typo"),
        ([sys.executable, "parser.py", "--port", "many"], "many"),
        ([sys.executable, "parser.py", "--port", "1", "--dtype", "hlaf"], "hlaf"),
        (["bash", "-c", "python3 parser.py --port 1 --typo || exit 1"], "--typo"),
        (["taskset", "-c", "0", "nosuch-program"], "nosuch-program"),
        (["setsid", "-w", "nosuch-program"], "nosuch-program"),
        (["numactl", "-N", "0", "nosuch-program"], "nosuch-program"),
        (["sudo", "-n", "nosuch-program"], "nosuch-program"),
        (["strace", "nosuch-program"], "nosuch-program"),
        (["tini", "--", "nosuch-program"], "nosuch-program"),
        (["dumb-init", "nosuch-program"], "nosuch-program"),
        ([sys.executable, "parser.py"], "--port"),
        ([sys.executable, "clicked.py", "serve", "--typo"], "--typo"),
        ([sys.executable, "clicked.py", "sevre"], "sevre"),
        ([sys.executable, "clicked.py", "serve", "--port", "many"], "--port"),
        ([sys.executable, "clicked.py", "serve", "more"], "more"),
    ],
    ids=lambda value: " ".join(value[-3:])[-40:] if isinstance(value, list) else "",
)
def test_a_command_that_cannot_run_is_known_by_what_its_program_says(
    tmp_path: Path, words: list[str], about: str
) -> None:
    (tmp_path / "parser.py").write_text(ARGPARSE)
    (tmp_path / "clicked.py").write_text(CLICK)
    (tmp_path / "plain").write_text("no program\n")
    (tmp_path / "package.json").write_text("{}\n")
    (tmp_path / "folder").mkdir()

    code, lines = ended(words, tmp_path)

    found = misuse_of(code, lines)
    assert found is not None, (code, lines)
    assert about in found.about
    assert found.about in found.line


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (1, "numactl: execution of `pythn': No such file or directory"),
        (1, "sudo: pythn: command not found"),
        (1, 'error: exec: "pythn": executable file not found in $PATH'),
        (127, "[FATAL tini (7)] exec pythn failed: No such file or directory"),
        (2, "[dumb-init] pythn: No such file or directory"),
    ],
)
def test_a_launcher_that_is_not_installed_here_is_known_too(code: int, line: str) -> None:
    found = misuse_of(code, ["starting", line])
    assert found is not None
    assert found.about.strip('"') == "pythn"


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(2)",
        "import nosuch",
        "open('absent.json')",
        "import sys; print('error: the weights are gone'); sys.exit(2)",
        "import sys; print('bash: nosuch: command not found'); sys.exit(1)",
        "import sys; print('python: No module named nosuch'); sys.exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_a_program_that_fails_by_itself_was_called_rightly(tmp_path: Path, program: str) -> None:
    (tmp_path / "server.py").write_text(program)
    assert misuse_of(*ended([sys.executable, "server.py"], tmp_path)) is None


def test_a_sudden_end_is_one_within_a_second_with_a_code_of_misuse() -> None:
    assert is_sudden(2, 0.4)
    assert is_sudden(127, 0.1)
    assert not is_sudden(2, 30.0)
    assert not is_sudden(1, 0.1)
    assert not is_sudden(None, 0.1)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ("--typo", ("--typo",)),
        ("--typo --other", ("--typo",)),
        ("'/srv/app/servr.py'", ("app/servr.py",)),
        ("'hlaf'", ("--dtype=hlaf",)),
        ("argument --dtype: expected one argument", ("--dtype=hlaf",)),
        ("--port-range", ()),
        ("python", ()),
        ("nosuch", ("nosuch",)),
    ],
)
def test_a_command_s_own_words_are_found_in_the_complaint(
    about: str, expected: tuple[str, ...]
) -> None:
    words = ["python", "app/servr.py", "--port", "1", "--dtype=hlaf", "-m", "nosuch", "--typo"]
    assert blamed_words(about, words) == expected
