# SPDX-License-Identifier: Apache-2.0
"""Mends are run: each script before and after, with commands that succeed and fail in every order of three calls.

Acts on processes: bash, with functions in the place of the commands that the scripts call.
"""

import itertools
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
pytest() { stub pytest "$@"; }
curl() { stub curl "$@"; }
check() { stub check "$@"; }
sleep() { stub sleep "$@"; }
python3() { cat > /dev/null; stub python3 "$@"; }
"""
CONDITIONS = (
    "! pytest a",
    "! check a | cat",
    "!  pytest a && check b",
    "! { check a; pytest b; }",
    "! python3 - <<EOF\nraise SystemExit\nEOF",
)
BODIES = (
    "exit $?",
    'rc=$?\n  exit "$rc"',
    "rc=$?\n  echo failed\n  exit $rc",
    'rc=$?\n  echo "rc=$rc"',
    'rc=$?\n  echo "rc=$rc"\n  exit $rc',
    "rc=$?\n  check c\n  exit $rc",
    'rc=$?\n  [ "$rc" -ne 0 ] || exit 9',
    "rc=$?; exit $rc",
    "return $?",
)
FRAMES = (
    "{if}\necho done\n",
    "rc=0\ncheck z || rc=$?\n{if}\nexit $rc\n",
    "set -e\ncheck z\n{if}\ncheck y\n",
    "f() {{\n  {if}\n}}\nf || echo no\n",
    "( {if} ) && echo yes\n",
    "trap 'echo left' EXIT\n{if}\n",
    "while :; do\n  {if}\n  break\ndone\n",
)
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
SCRIPTS = (
    *(
        frame.replace("{if}", f"if {condition}\nthen\n  {body}\nfi")
        .replace("{{", "{")
        .replace("}}", "}")
        for frame, condition, body in itertools.product(FRAMES, CONDITIONS, BODIES)
    ),
    *LOOPS,
    *OTHERS,
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


@pytest.mark.slow
def test_a_mend_turns_no_failure_into_success_and_changes_no_run_that_passes(
    tmp_path: Path,
) -> None:
    changed = [(text, after) for text in SCRIPTS if (after := mended(text)) != text]
    wrong = []
    became_red = 0
    for before, after in changed:
        for mask in range(2**CALLS):
            first, second = ran(before, mask, tmp_path), ran(after, mask, tmp_path)
            is_known = first == second or (
                first[0] == 0 and second[0] != 0 and second[2] == first[2][: len(second[2])]
            )
            became_red += first[0] == 0 and second[0] != 0
            if not is_known:
                wrong.append((before, mask, first, second))

    assert len(changed) >= 15
    assert became_red
    assert wrong == []


@pytest.mark.parametrize("text", OTHERS)
def test_where_the_effect_is_not_known_there_is_no_mend(text: str) -> None:
    assert mended(text) == text


def test_a_mend_of_a_negation_keeps_the_status_of_an_earlier_command() -> None:
    text = "rc=0\npytest a || rc=$?\nif ! pytest b; then\n  rc=$?\nfi\nexit $rc\n"

    assert mended(text) == text
