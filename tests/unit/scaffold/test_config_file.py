# SPDX-License-Identifier: Apache-2.0
import subprocess
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.candidates import ServerCandidate, engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind
from ci_doctor.scaffold.texts import (
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
