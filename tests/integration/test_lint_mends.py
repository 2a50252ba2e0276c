# SPDX-License-Identifier: Apache-2.0
"""Mends are run: each script before and after, with commands that succeed and fail in every order of three calls.

Acts on processes: bash, with functions in the place of the commands that the scripts call.
"""

import subprocess
from pathlib import Path

import pytest

from ci_doctor.lint.shell.check import check_shell
from ci_doctor.lint.source_files import ShellSource

CALLS = 3
# Each call notes its name and takes the next bit of MASK for its status; behind the last bit all succeed.
STUBS = """
stub() {
  local name=$1 count=0 word kept=()
  shift
  for word; do case $word in -f|--max-time|60) ;; *) kept+=("$word") ;; esac; done
  [ -e "$LOG" ] && count=$(wc -l < "$LOG")
  echo "$name ${kept[*]}" >> "$LOG"
  [ "$count" -lt 3 ] && [ $(( MASK >> count & 1 )) = 1 ] && return $(( count + 3 ))
  return 0
}
curl() { stub curl "$@"; }
check() { stub check "$@"; }
sleep() { stub sleep "$@"; }
"""
LOOPS = (
    "until curl -s localhost/health; do sleep 1; done\necho up\n",
    "while ! curl -s -m 5 localhost/ready; do sleep 1; done\necho up\n",
    "for i in 1 2 3; do\n  if curl -s localhost/health; then echo up; exit 0; fi\n  sleep 1\ndone\nexit 1\n",
    "for i in 1 2 3; do\n  curl -s localhost/health && break\n  sleep 1\ndone\necho on\n",
    'until "curl" -s localhost/health; do sleep 1; done\n',
    "until curl -s localhost/v1/completions; do sleep 1; done\n",
    'until [ "$(curl -s localhost/health)" = "" ]; do sleep 1; done\necho up\n',
    "until curl -s localhost/health | grep -q x || check; do sleep 1; done\n",
)
OTHERS = (
    'n=$(grep -c FAILED missing || echo 0)\necho "[$n]"\n',
    'n=$(printf "" | grep -c x || echo 0)\nif [ "$n" = 0 ]; then echo none; else exit 1; fi\n',
    "echo a\r\ncheck b\r\n",
    "cat <<EOF\r\nx\r\nEOF\r\n",
    "set -e\nexport A=$(check a)\ncheck b\n",
    "pytest a | tee log\n",
)


def mended(text: str) -> str:
    violations = check_shell(ShellSource(file="run.sh", text=text), lambda _: None).violations
    edits = {edit for violation in violations for edit in violation.edits}
    for edit in sorted(edits, key=lambda each: -each.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def ran(text: str, mask: int, directory: Path) -> tuple[int, str, str]:
    """The status, the output, and the calls in their order."""
    log = directory / "log"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        ["bash", "-c", STUBS + text],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "LOG": str(log), "MASK": str(mask)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stdout, log.read_text() if log.exists() else ""


def test_a_mend_changes_no_run(
    tmp_path: Path,
) -> None:
    changed = [(text, after) for text in LOOPS if (after := mended(text)) != text]
    wrong = []
    for before, after in changed:
        for mask in range(2**CALLS):
            first, second = ran(before, mask, tmp_path), ran(after, mask, tmp_path)
            if first != second:
                wrong.append((before, mask, first, second))

    assert len(changed) >= 4
    assert [after for _, after in changed if mended(after) != after] == []
    assert wrong == []


@pytest.mark.parametrize("text", OTHERS)
def test_where_the_effect_is_not_known_there_is_no_mend(text: str) -> None:
    assert mended(text) == text
