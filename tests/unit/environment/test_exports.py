# SPDX-License-Identifier: Apache-2.0
"""Exports read back by those who read them: real shells, python-dotenv, GitHub's rules, a JSON parser."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import dotenv
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ci_doctor.environment.exports import (
    MARKER,
    ExportFormat,
    failing_statement,
    lost,
    marker,
    ours,
    render,
)
from ci_doctor.errors import UsageError

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"no {name}"))
    for name in ("bash", "dash", "zsh")
]
NASTY = "'\"`$\\!#&;|<>(){}[]*?~=%^, \t\n\r-aZ0é€𝄞\x01\x7f"
VALUES = st.one_of(
    st.text(st.sampled_from(NASTY)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
# Not names that a shell gives a meaning of its own.
NAMES = st.from_regex(r"[A-Z_][A-Za-z0-9_]{0,20}", fullmatch=True).map(lambda name: f"X_{name}")
VARIABLES = st.dictionaries(NAMES, VALUES, max_size=16)

DUMP = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.environb[n.encode()] for n in sys.argv[1:]) + b'\\0')"


def evaluated(shell: str, text: str, names: Mapping[str, str]) -> dict[str, str]:
    """The values of `names` after `eval "$(…)"`, which drops newlines at the end, as a job does it."""
    program = f'eval "$1"; shift; exec "{sys.executable}" -I -S -c "$@"'
    ended = subprocess.run(
        [shell, "-c", program, shell, text.rstrip("\n"), DUMP, *names],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        check=True,
        capture_output=True,
    )
    assert ended.stderr == b""
    return dict(zip(names, map(os.fsdecode, ended.stdout.split(b"\0")), strict=False))


@pytest.mark.parametrize("shell", SHELLS)
# Many variables in each of few starts.
@settings(max_examples=12, deadline=None)
@given(variables=VARIABLES)
@example(
    variables={
        "X_A": "",
        "X_B": "-n",
        "X_C": "it's\n'",
        "X_D": "$(touch /tmp/pwned)`id`\\",
        "X_E": "!!\n\n",
        "X_F": "=ls '",
    }
)
def test_a_shell_reads_exactly_the_value(shell: str, variables: dict[str, str]) -> None:
    assert evaluated(shell, render(variables, ExportFormat.SHELL), variables) == variables


FISH = """
set exports (cat $argv[1]); and test -n "$exports"; and eval $exports; or exit
exec $argv[2] -I -S -c $argv[3..]
"""


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
# Many variables in each of few starts.
@settings(max_examples=12, deadline=None)
@given(variables=VARIABLES)
@example(
    variables={"X_A": "", "X_B": "it's\n'\\n\\'", "X_C": "$(id);(id)\\", "X_D": "\n\n", "X_E": "\r"}
)
def test_fish_reads_exactly_the_value(
    variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    exports = tmp_path_factory.mktemp("fish") / "exports"
    text = render({**variables, "X_LAST": "1"}, ExportFormat.FISH)
    exports.write_text(text, encoding="utf-8", newline="")
    ended = subprocess.run(
        ["fish", "--no-config", "-c", FISH, exports, sys.executable, DUMP, *variables],
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(exports.parent)},
        check=True,
        capture_output=True,
    )
    values = map(os.fsdecode, ended.stdout.split(b"\0"))
    assert dict(zip(variables, values, strict=False)) == variables


def from_github(text: str) -> dict[str, str]:
    """As the runner does (actions/runner, FileCommandManager.cs): `name=value` lines, or `name<<delimiter` blocks."""
    found = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, equals, value = line.partition("=")
        if equals and "<<" not in name:
            found[name] = value
            continue
        name, _, delimiter = line.partition("<<")
        block = []
        while (inner := next(lines)) != delimiter:
            block.append(inner)
        found[name] = "\n".join(block)
    return found


@given(VARIABLES)
def test_the_readers_of_the_other_formats_read_exactly_the_value(variables: dict[str, str]) -> None:
    text = io.StringIO(render(variables, ExportFormat.DOTENV), newline="")
    assert dotenv.dotenv_values(stream=text, interpolate=False) == variables
    assert from_github(render(variables, ExportFormat.GITHUB)) == variables
    assert json.loads(render(variables, ExportFormat.JSON)) == variables


@pytest.mark.parametrize("form", ExportFormat)
def test_order_is_kept_and_nothing_is_nothing(form: ExportFormat) -> None:
    text = render({"B": "1", "A": "2"}, form)
    assert text.index("B") < text.index("A")
    assert render({}, form).strip("{}\n") == ""


@pytest.mark.parametrize("name", ["", "1A", "A B", "A-B", "A$(id)", "A\n", "Ä", "A=B"])
@pytest.mark.parametrize("form", ExportFormat)
def test_what_is_no_name_is_refused(name: str, form: ExportFormat) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a variable"):
        render({name: "1"}, form)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [1, 2, 70, 143])
def test_the_failing_statement_fails_with_the_code(shell: str, code: int) -> None:
    for options in ("-c", "-ec"):
        ended = subprocess.run(
            [shell, options, 'eval "$1"', shell, failing_statement(code)], check=False
        )
        assert ended.returncode == code


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_the_failing_statement_of_fish_fails_with_the_code(tmp_path: Path) -> None:
    text = failing_statement(70, ExportFormat.FISH)
    ended = subprocess.run(
        ["fish", "--no-config", "-c", "eval $argv[1]", text],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        check=False,
    )
    assert ended.returncode == 70


@pytest.mark.parametrize("style", [ExportFormat.DOTENV, ExportFormat.GITHUB, ExportFormat.JSON])
def test_a_format_that_nobody_evaluates_has_no_statement(style: ExportFormat) -> None:
    assert failing_statement(2, style) == ""


def test_what_is_gone_or_changed_since_is_told_apart() -> None:
    variables = {"A": "1", "B": "2", "C": "3"}
    job = {"A": "1", "B": "0", MARKER: marker(variables, {})}
    assert lost(job) == (["C"], ["B"])
    assert lost({**variables, MARKER: marker(variables, {})}) == ([], [])


@given(st.dictionaries(NAMES, VALUES, min_size=1), VALUES)
def test_only_what_nobody_changed_since_is_ours(variables: dict[str, str], other: str) -> None:
    job = {**variables, MARKER: marker(variables, {})}
    assert ours(job) == variables
    changed = next(iter(variables))
    expected = {
        name: value for name, value in variables.items() if name != changed or value == other
    }
    assert ours({**job, changed: other}) == expected
    del job[changed]
    assert changed not in ours(job)


def test_what_an_earlier_run_exported_stays_ours() -> None:
    earlier = {"A": "1", "B": "2"}
    again = {"B": "3"}
    job = {**earlier, **again, MARKER: marker(again, earlier)}
    assert ours(job) == {"A": "1", "B": "3"}


@pytest.mark.parametrize("text", ["", ",", "A", "A:", ":x", "A:x:y", "nonsense,A:zzz"])
def test_a_marker_that_is_none_makes_nothing_ours(text: str) -> None:
    assert ours({"A": "1", MARKER: text}) == {}
