# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.reading.find_commands import server_commands
from ci_doctor.scaffold.reading.server_command import ServerCommand
from ci_doctor.scaffold.reading.source_file import SourceFile, TextKind, place_of_file, text_kind

VLLM = "vllm serve acme/a --port 1"


def found(text: str, path: str = "run.sh") -> list[ServerCommand]:
    kind = text_kind(path)
    assert kind is not None
    place = place_of_file(path, kind)
    return list(server_commands(SourceFile(path=path, kind=kind, place=place, text=text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", f"nohup {VLLM} &"),
        ("a.sh", f"exec env A=1 {VLLM}"),
        ("a.sh", f"timeout 60 {VLLM}"),
        ("a.sh", f"cd x && {VLLM}"),
        ("a.sh", f'bash -lc "{VLLM}"'),
        ("a.sh", f'CMD="{VLLM}"'),
        ("a.sh", f"docker exec box {VLLM}"),
        ("Makefile", f"run:\n\t@{VLLM}"),
        ("justfile", f"run:\n    {VLLM}"),
        ("Procfile", f"web: {VLLM}"),
        ("Dockerfile", f"CMD {VLLM}"),
        ("a.dockerfile", 'ENTRYPOINT ["vllm", "serve", "acme/a", "--port", "1"]'),
        ("compose.yml", f"services:\n  a:\n    command: {VLLM}"),
        ("compose.yml", "    command: ['vllm', 'serve', 'acme/a', '--port', 1]"),
        ("k8s.yaml", "  command:\n  - vllm\n  - serve\n  args:\n  - acme/a\n  - --port\n  - '1'"),
        ("a.yml", "  command: >\n    vllm serve acme/a\n    --port 1"),
        ("a.yml", f'  - command: "{VLLM}"'),
        (".github/workflows/a.yml", f"      - run: {VLLM}"),
        ("README.md", f"    $ {VLLM}"),
        ("pyproject.toml", f'serve = "{VLLM}"'),
        ("pyproject.toml", f'serve = {{ cmd = "{VLLM}" }}'),
    ],
)
def test_a_command_is_read_in_every_kind_of_file(path: str, text: str) -> None:
    # A list of Kubernetes is read as two lists, the second one with the first.
    command = found(text, path)[-1]
    assert command.kind == "vllm"
    assert command.words == ("vllm", "serve", "acme/a", "--port", "1")
    assert command.words[command.arguments :] == ("acme/a", "--port", "1")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", f"echo '{VLLM}' | tee log"),
        ("a.sh", f"# {VLLM}"),
        ("a.sh", "pkill -f 'vllm serve'"),
        ("a.sh", "pip install vllm uvicorn"),
        ("a.sh", "uv pip install vllm"),
        ("a.sh", "vllm serve --help"),
        ("a.sh", "vllm bench serve"),
        ("README.md", "Start it with vllm serve and wait."),
        ("README.md", "vllm serve <MODEL> --port 1"),
        ("values.yaml", "command: vllm serve {{ .Values.model }}"),
        ("a.yml", "  - name: Start vllm serve with a model"),
        (".github/workflows/a.yml", "run: vllm serve ${{ matrix.model }}"),
    ],
)
def test_what_only_speaks_of_a_server_is_no_command(path: str, text: str) -> None:
    assert found(text, path) == []


def test_the_environment_the_directory_and_the_machine_of_a_command_are_known() -> None:
    text = "cd sub/dir\nA=1 B='x y' vllm serve acme/a &\ndocker run img vllm serve acme/b\n"
    first, second = found(text)
    assert (first.env, first.directory, first.line) == ({"A": "1", "B": "x y"}, "sub/dir", 2)
    assert (first.in_background, first.in_container) == (True, False)
    assert (second.in_background, second.in_container) == (False, True)


def test_what_runs_a_server_in_its_environment_stays_before_it() -> None:
    (command,) = found("uv run --frozen uvicorn web:app --port 1")
    assert command.words[: command.arguments] == ("uv", "run", "--frozen", "uvicorn")
    (command,) = found("python3 -u -m vllm.entrypoints.openai.api_server --model a")
    assert command.arguments == 4


def test_a_command_goes_on_while_its_lines_do() -> None:
    text = "vllm serve acme/a \\\n  --x '{\"a\":\n    1}' \\\n  --port 2\n"
    (command,) = found(text)
    assert command.words == ("vllm", "serve", "acme/a", "--x", '{"a": 1}', "--port", "2")
    assert command.line == 1


def test_variables_above_a_command_count_before_those_below() -> None:
    text = "M=first\nvllm serve $M --port 1\nM=second\nvllm serve $M --port 1\n"
    assert [command.words[2] for command in found(text)] == ["first", "second"]


def test_a_program_of_python_is_a_command_and_its_module_too() -> None:
    program, module = found("python3 web/app.py --x\npython -m web.app --x\n")
    assert program.words[program.arguments - 1] == "web/app.py"
    assert module.words[module.arguments - 1] == "web.app"


@given(st.text(alphabet="vllm serv-mpython$'\"{}[]:>|&\\\n ", max_size=200), st.sampled_from(["a.sh", "a.yml", "Makefile", "README.md", "Dockerfile", "pyproject.toml"]))  # fmt: skip
def test_no_text_is_an_error(text: str, path: str) -> None:
    found(f"{text}\nvllm serve {text}", path)


@pytest.mark.parametrize(
    ("path", "kind", "place"),
    [
        (".buildkite/x/pipeline.yml", TextKind.YAML, "Buildkite pipeline"),
        (".github/actions/a/action.yml", TextKind.YAML, "GitHub workflow"),
        ("tests/run.sh", TextKind.SHELL, "CI script"),
        ("examples/run.sh", TextKind.SHELL, "example"),
        ("tests/Dockerfile.gpu", TextKind.DOCKERFILE, "image"),
        ("run.bash", TextKind.SHELL, "script"),
        ("GNUmakefile", TextKind.MAKEFILE, "task"),
        ("README.rst", TextKind.MARKDOWN, "README"),
    ],
)
def test_a_file_is_known_by_its_name(path: str, kind: TextKind, place: str) -> None:
    assert text_kind(path) is kind
    assert place_of_file(path, kind).value == place


@pytest.mark.parametrize("path", ["sub/README.md", ".github/ISSUE_TEMPLATE/bug.yml", "a.txt", "a"])
def test_other_files_are_not_read(path: str) -> None:
    assert text_kind(path) is None
