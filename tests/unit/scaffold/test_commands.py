# SPDX-License-Identifier: Apache-2.0
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.scaffold.commands import ServerCommand, server_commands
from ci_doctor.scaffold.servers import SourceFile, TextKind, place_of_file, text_kind
from ci_doctor.scaffold.words import is_opaque, unknown_variables

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
        ("a.sh", f'CMD="{VLLM}"\n$CMD &'),
        ("a.sh", f'CMD="{VLLM}"\neval "$CMD"'),
        ("a.sh", 'ARGS=(--port 1)\nvllm serve acme/a "${ARGS[@]}"'),
        ("a.sh", 'ARGS=(\n  acme/a  # the model\n)\nARGS+=(--port 1)\nvllm serve "${ARGS[@]}" &'),
        ("a.sh", f"docker exec -i box bash <<EOF\n{VLLM}\nEOF"),
        ("a.sh", f"docker exec box {VLLM}"),
        ("Makefile", f"run:\n\t@{VLLM}"),
        ("justfile", f"run:\n    {VLLM}"),
        ("Dockerfile", f"CMD {VLLM}"),
        ("a.dockerfile", 'ENTRYPOINT ["vllm", "serve", "acme/a", "--port", "1"]'),
        ("compose.yml", f"services:\n  a:\n    command: {VLLM}"),
        ("compose.yml", "    command: ['vllm', 'serve', 'acme/a', '--port', 1]"),
        ("k8s.yaml", "  command:\n  - vllm\n  - serve\n  args:\n  - acme/a\n  - --port\n  - '1'"),
        ("a.yml", "  command: >\n    vllm serve acme/a\n    --port 1"),
        ("a.yml", f'  - command: "{VLLM}"'),
        (".github/workflows/a.yml", f"      - run: {VLLM}"),
        ("README.md", f"    $ {VLLM}"),
        ("README.md", f"text\n```sh\n$ {VLLM}\n```\n"),
    ],
)
def test_a_command_is_read_in_every_kind_of_file(path: str, text: str) -> None:
    # A list of Kubernetes is read as two lists, the second one with the first.
    command = found(text, path)[-1]
    assert command.kind.name == "vllm"
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
        ("a.yml", "  - name: Start vllm serve with a model"),
    ],
)
def test_what_only_speaks_of_a_server_is_no_command(path: str, text: str) -> None:
    assert found(text, path) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("values.yaml", "command: vllm serve {{ .Values.model }}"),
        (".github/workflows/a.yml", "run: vllm serve ${{ matrix.model }}"),
    ],
)
def test_what_a_template_fills_in_is_a_command_to_name_and_not_to_start(
    path: str, text: str
) -> None:
    (command,) = found(text, path)
    assert command.is_template


def test_the_environment_the_directory_and_the_machine_of_a_command_are_known() -> None:
    text = "cd sub/dir\nA=1 B='x y' vllm serve acme/a &\ndocker run img vllm serve acme/b\n"
    first, second = found(text)
    assert (first.env, first.directory, first.line) == ({"A": "1", "B": "x y"}, "sub/dir", 2)
    assert (first.in_container, second.in_container) == (False, True)


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


@given(st.text(alphabet="vllm serv-mpython$'\"{}[]:>|&\\\n ", max_size=200), st.sampled_from(["a.sh", "a.yml", "Makefile", "README.md", "Dockerfile"]))  # fmt: skip
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


RUN = """\
MODEL=${1:-"acme/a"}
LENGTH=${2:-6000}
OFF=${3:-0}
ID=$(sudo docker run -d --gpus all \\
    --env "HF_TOKEN=$HF_TOKEN" -e "OFF=$OFF" --env=A=b -p 8000:8000 --name x \\
    acme/vllm-openai:latest \\
    $MODEL --max-model-len $LENGTH --port 8000)
"""


def test_the_words_behind_an_image_are_arguments_of_the_server_that_it_starts() -> None:
    (command,) = found(RUN)
    assert command.kind.name == "vllm"
    assert command.words == (
        "vllm", "serve", "acme/a", "--max-model-len", "6000", "--port", "8000"
    )  # fmt: skip
    assert command.in_container
    assert command.env == {"OFF": "0", "A": "b"}


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("vllm/vllm-openai:v0.9", "vllm"),
        ("ghcr.io/huggingface/text-generation-inference:3", "text-generation-launcher"),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1", "text-embeddings-router"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server"),
        ("registry.example:5000/team/vllm-openai@sha256:abc", "vllm"),
    ],
)
def test_images_are_known_by_their_names(image: str, program: str) -> None:
    (command,) = found(f"docker run --rm {image} --model-id m")
    assert command.words[0] == program


@pytest.mark.parametrize(
    "text",
    [
        "docker run python:3.12 --model m",
        "docker build vllm/vllm-openai",
        "docker run -v vllm/vllm-openai:/x busybox",
        "docker run --entrypoint bash vllm/vllm-openai -x",
        "docker pull vllm/vllm-openai:latest",
    ],
)
def test_what_starts_another_program_is_none(text: str) -> None:
    assert found(text) == []


def test_a_program_in_a_variable_is_the_program() -> None:
    text = (
        'VENV="${VENV:-/opt/venv/}"\nVENV="${VENV%/}"\nBIN="${VENV}/bin"\n'
        'VLLM_BIN="${VLLM_BIN:-${BIN}/vllm}"\nPY=$BIN/python\n'
        '"${VLLM_BIN}" serve --model m --port 1\n"$PY" -m sglang.launch_server --model-path m\n'
    )
    first, second = found(text)
    assert first.words[:4] == ("/opt/venv/bin/vllm", "serve", "--model", "m")
    assert second.words[0] == "/opt/venv/bin/python"
    assert (first.arguments, second.arguments) == (2, 3)


TEXT = """\
MODEL="acme/a"
export PORT=${PORT:-8000}
EXTRA='--a 1 --b 2'
COUNT=$(nproc)
FIRST="${1:-one}"
NEXT=$MODEL-next
"""


def filled(line: str, text: str = TEXT) -> tuple[str, ...]:
    """The words of `line`, which begins with `serve`, as a script with `text` above it gives them."""
    return found(f"{text}\nvllm {line}\n")[-1].words[1:]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('serve "$MODEL"', ("serve", "acme/a")),
        ("serve $PORT", ("serve", "8000")),
        ("serve $EXTRA", ("serve", "--a", "1", "--b", "2")),
        ('serve "$EXTRA"', ("serve", "--a 1 --b 2")),
        ('serve "$@" $*', ("serve",)),
        ("serve $FIRST $NEXT", ("serve", "one", "acme/a-next")),
        ("serve ${OTHER:-x}", ("serve", "x")),
    ],
)
def test_variables_have_the_values_that_the_script_gives_them(
    line: str, expected: tuple[str, ...]
) -> None:
    assert filled(line) == expected


def test_what_nobody_sets_is_named_and_what_a_command_prints_is_opaque() -> None:
    made = filled('serve "$NOBODY" ${NOBODY} $ELSE')
    assert unknown_variables(made) == ("NOBODY", "ELSE")
    assert not is_opaque(made)
    for line in ("serve $COUNT", "serve $1", "serve ${MODEL##*/}", "serve $(id)"):
        assert is_opaque(filled(line)), line
    for default in ("$(cat model.txt)", "`cat model.txt`", "${B:-${C:-{d}}}"):
        assert is_opaque(filled(f"serve ${{UNSET:-{default}}}")), default


def test_a_variable_that_is_set_by_itself_does_not_go_round_in_a_circle() -> None:
    assert unknown_variables(filled("serve $A", "A=$B\nB=$A")) == ("A",)


def test_a_suffix_is_cut_and_a_default_may_hold_another_one() -> None:
    assert filled("serve ${A%/} ${B:-${C:-x}}", "A=/a/") == ("serve", "/a", "x")
    assert is_opaque(filled("serve ${A%%*}", "A=/a/"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Makefile", "A ?= x\nrun:\n\tvllm serve $(A)"),
        ("Dockerfile", "ENV A=x\nCMD vllm serve $A"),
        ("Dockerfile", "ARG A x\nCMD vllm serve $A"),
        ("a.yml", "env:\n  A: 'x'\nrun: vllm serve $A"),
        ("a.yml", "environment:\n  - A=x\ncommand: vllm serve $$A"),
    ],
)
def test_each_kind_of_file_sets_variables_in_its_own_way(path: str, text: str) -> None:
    assert found(text, path)[-1].words == ("vllm", "serve", "x")


def test_values_that_double_are_opaque_and_take_no_time() -> None:
    doubling = "A0=\n" + "".join(f'A{at}="$A{at - 1}$A{at - 1}"\n' for at in range(1, 40))
    assert is_opaque(filled("serve $A39", doubling))
    assert is_opaque(filled("serve $A", "A=x\n" + 'A="$A$A"\n' * 40))
    assert is_opaque(filled("serve $A", f"B={'x' * 20_001}\nA=$B"))
    chain = "A0=x\n" + "".join(f"A{at}=$A{at - 1}\n" for at in range(1, 2_000))
    assert is_opaque(filled("serve $A1999", chain))


def test_a_dollar_that_names_nothing_is_one() -> None:
    assert filled('serve "$RE"', 'RE="^foo$"') == ("serve", "^foo$")
    assert filled('serve "${RE:-a$}"') == ("serve", "a$")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("serve b > log 2>&1 &", ("serve", "b")),
        ("serve>log b", ("serve", "b")),
        ("serve 'b c' \"d e\" f\\ g", ("serve", "b c", "d e", "f g")),
        ('serve --x=\'{"b": "$c"}\'', ("serve", '--x={"b": "$c"}')),
        ('serve "it\'s" "\\"q\\"" "\\$x"', ("serve", "it's", '"q"', "$x")),
        ('serve "" $ 5$', ("serve", "", "$", "5$")),
    ],
)
def test_words_are_those_that_a_shell_makes(line: str, expected: tuple[str, ...]) -> None:
    assert filled(line) == expected


def test_what_a_substitution_prints_is_opaque_and_what_it_runs_is_a_command() -> None:
    (command,) = found("ID=$(vllm serve $(id) `id` $((1 + 2)))")
    assert [is_opaque([word]) for word in command.words] == [False, False, True, True, True]


def test_a_cd_holds_to_the_end_of_its_parentheses() -> None:
    inside, outside = found("(cd a; vllm serve m)\nvllm serve n\n")
    assert (inside.directory, outside.directory) == ("a", "")


@given(st.lists(st.text(min_size=1, max_size=12).filter(lambda word: not {"\0", "\n"} & set(word)), min_size=1))  # fmt: skip
def test_words_that_a_shell_quotes_come_back(given_words: list[str]) -> None:
    quoted = shlex.join(["vllm", "serve", *given_words])
    for command in found(quoted):
        assert command.words[2:] == tuple(given_words)
