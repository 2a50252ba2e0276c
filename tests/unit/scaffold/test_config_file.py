# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import textwrap
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.candidates import ServerCandidate, engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind
from ci_doctor.scaffold.texts import (
    hook_place,
    pre_commit_entry,
    service_table,
    toml_key,
    toml_list,
    toml_string,
    toml_table,
)


def made(text: str) -> ServerCandidate:
    source = SourceFile(path="a.sh", kind=TextKind.SHELL, place=ScriptPlace.SCRIPT, text=text)
    candidate = engine_candidate(server_commands(source)[0])
    assert candidate is not None
    return candidate


def table(candidate: ServerCandidate, *comments: str) -> dict[str, Any]:
    text = service_table("a b", candidate, *comments)
    parsed: dict[str, Any] = tomllib.loads(text)["services"]["a b"]
    return parsed


def test_a_simple_command_is_one_text_and_one_with_quotes_is_a_list() -> None:
    assert table(made("vllm serve m"))["command"] == "vllm serve m --port {port}"
    command = table(made("""vllm serve m --x '{"a": "b c"}'"""))["command"]
    assert command == ["vllm", "serve", "m", "--x", '{"a": "b c"}', "--port", "{port}"]


def test_variables_of_the_job_are_expanded_by_a_shell_that_fails_without_them() -> None:
    candidate = made("""A=$B C=d vllm serve "$MODEL/x" --y '$z "q"' --port 1""")
    written = table(candidate)
    assert written["env"] == {"C": "d"}
    shell, flags, script = written["command"]
    assert (shell, flags) == ("bash", "-uc")
    shown = script.replace("exec env", "exec env -i PATH=$PATH").replace(" vllm ", " printf '%s|' ")
    ran = subprocess.run(
        [shell, flags, shown], env={"MODEL": "m o", "B": "b", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout == 'serve|m o/x|--y|$z "q"|--port|{port}|', ran.stderr
    refused = subprocess.run([shell, flags, script], env={"PATH": "/bin"}, capture_output=True, text=True, check=False)  # fmt: skip
    assert "unbound variable" in refused.stderr


def test_a_comment_ends_with_its_line_whatever_a_file_is_called() -> None:
    assert table(made("vllm serve m"), "from a\nready = 'x'.sh:1")["ready"] == "/health"


@given(st.text(max_size=40))
def test_every_text_is_written_as_toml(text: str) -> None:
    document = f"{toml_key(text)} = {toml_string(text)}\nlist = {toml_list([text] * 3)}\ntable = {toml_table({text: text})}\n"
    values = tomllib.loads(document) if text not in {"list", "table"} else {}
    if values:
        assert values[text] == text
        assert values["list"] == [text] * 3
        assert values["table"] == {text: text}


HOOKS = "- repo: https://github.com/a/b\n  rev: v1\n  hooks:\n  - id: c\n    args: [x,\n      y]\n"
BLOCK = HOOKS + "  - id: d\n    exclude: |\n      # text\n      b\n"


@pytest.mark.parametrize("indent", [0, 2, 4, 7])
@pytest.mark.parametrize("hooks", [HOOKS, BLOCK, HOOKS.rstrip("\n")])
@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("", ""),
        ("---\n# hooks\nfail_fast: true\n", "\n# the end\n"),
        ("default_stages: [commit]\n\n", "\n\n# of ci\nci:\n  autofix_prs: false\n"),
        ("", "\nfail_fast: true"),
        ("", "\n...\n"),
    ],
)
def test_the_hook_is_an_item_of_the_list_that_is_there(
    indent: int, hooks: str, head: str, tail: str
) -> None:
    before = f"{head}repos:\n{textwrap.indent(hooks, ' ' * indent)}{tail}"
    place = hook_place(before.replace("\n", "\r\n") if indent == 2 else before)
    block = pre_commit_entry("git+https://a/b@0", place)
    line = int(re.match(r"after line (\d+), ", place.words)[1])  # type: ignore[index]
    lines = before.split("\n")
    after = yaml.safe_load("\n".join([*lines[:line], *block.rstrip().split("\n"), *lines[line:]]))
    assert len(after["repos"]) == 2
    assert after["repos"].pop()["hooks"][0]["id"] == "ci-doctor-lint"
    assert after == yaml.safe_load(before)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repos: []\nfail_fast: true\n", "in place of line 1"),
        ("ci: {}\nrepos:\n", "in place of line 2"),
        ("# nothing yet\n", "at its end"),
        ("", "at its end"),
        ("fail_fast: true\n", "at its end"),
    ],
)
def test_a_file_without_hooks_gets_the_list_too(text: str, words: str) -> None:
    place = hook_place(text)
    assert place.words == words
    block = pre_commit_entry("git+https://a/b@0", place)
    kept = [line for line in text.split("\n") if not line.startswith("repos")]
    assert len(yaml.safe_load("\n".join([*kept, block]))["repos"]) == 1


@pytest.mark.parametrize(
    "text", ["repos: [{repo: local, hooks: []}]\n", "{fail_fast: true}\n", "repos: [\n", "- a\n"]
)
def test_no_block_is_offered_that_would_not_fit(text: str) -> None:
    assert hook_place(text).indent is None
