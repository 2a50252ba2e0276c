# SPDX-License-Identifier: Apache-2.0
import tomllib

import pytest

from ci_doctor.scaffold.arms import ArmsKind, ProposedArms, choose_arms, chosen_arms, ranked
from ci_doctor.scaffold.candidates import (
    ServerCandidate,
    engine_candidate,
    without_connector,
    without_secrets,
)
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.servers import (
    KINDS,
    SourceFile,
    TextKind,
    kind_at,
    place_of_file,
)
from ci_doctor.scaffold.texts import config_text
from tests.support.cli import ROOT


def started(path: str, text: str) -> list[ServerCandidate | None]:
    """What each server of a shell script can be started as."""
    place = place_of_file(path, TextKind.SHELL)
    source = SourceFile(path=path, kind=TextKind.SHELL, place=place, text=text)
    return [engine_candidate(command) for command in server_commands(source)]


def made(text: str) -> ServerCandidate | None:
    (one,) = started("a.sh", f"{text}\n")
    return one


def server(text: str) -> ServerCandidate:
    candidate = made(text)
    assert candidate is not None
    return candidate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve m", "vllm serve m --port {port}"),
        ("vllm serve m --port=8000", "vllm serve m --port={port}"),
        ("vllm serve m --port", "vllm serve m --port {port}"),
        ("vllm serve m --port $P --x", "vllm serve m --port {port} --x"),
        ("lmdeploy serve api_server m --server-port 1", "lmdeploy serve api_server m --server-port {port}"),
        ("text-generation-launcher --model-id m -p 80", "text-generation-launcher --model-id m -p {port}"),
        ("trtllm-serve m --port 1", "trtllm-serve m --port {port}"),
        ("trtllm-serve serve m", "trtllm-serve serve m --port {port}"),
        ("python -m llama_cpp.server --model m", "python -m llama_cpp.server --model m --port {port}"),
        ("lmcache_server localhost 65432", "lmcache_server localhost {port}"),
        ("python3 -m lmcache.v1.server 0.0.0.0 1 cpu", "python3 -m lmcache.v1.server 0.0.0.0 {port} cpu"),
        ("lmcache server --port 1", "lmcache server --port {port}"),
        ("lmcache_vllm serve m --port 1", "lmcache_vllm serve m --port {port}"),
        ("sglang serve --model-path m", "sglang serve --model-path m --port {port}"),
        ("vllm serve m --host $HOST --port 1", "vllm serve m --host 127.0.0.1 --port {port}"),
    ],
)  # fmt: skip
def test_the_port_of_each_server_becomes_a_free_one(text: str, expected: str) -> None:
    assert " ".join(server(text).words) == expected


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve --port 1",
        "text-generation-launcher",
        "vllm serve $(pick) --port 1",
        "vllm serve m --x ${A##*/}",
        "vllm serve m --kv-transfer-config",
        "lmcache_server localhost",
    ],
)
def test_what_cannot_be_started_as_it_stands_is_none(text: str) -> None:
    assert made(text) is None


def test_a_variable_that_nobody_sets_is_one_that_the_job_must_bring() -> None:
    candidate = server('X="$Y" vllm serve "$MODEL" --port 1')
    assert candidate.unknown == ("MODEL", "Y")
    assert candidate.model is None


@pytest.mark.parametrize(
    ("text", "apis"),
    [
        ("vllm serve acme/base", ["completions"]),
        ("vllm serve acme/a-Instruct", ["completions", "chat"]),
        ("vllm serve acme/base --chat-template t.jinja", ["completions", "chat"]),
        ("vllm serve acme/e --task embed", ["embeddings"]),
        ("vllm serve acme/e --runner pooling", ["embeddings"]),
        ("llama-server -m e.gguf --embedding", ["embeddings"]),
        ("text-embeddings-router --model-id e", ["embeddings"]),
        ("lmcache server", []),
    ],
)
def test_what_a_server_answers_is_known_by_its_command(text: str, apis: list[str]) -> None:
    assert [str(api) for api in server(text).apis] == apis


def test_requests_name_the_model_as_it_is_served() -> None:
    assert server("vllm serve /models/a --served-model-name short long").model == "short"


@pytest.mark.parametrize(
    ("options", "connector", "role"),
    [
        ("", None, None),
        ("""--kv-transfer-config '{"kv_connector":"C","kv_role":"kv_both"}'""", "C", None),
        ("""--kv-transfer-config '{"kv_connector":"C","kv_role":"kv_producer"}'""", "C", "kv_producer"),
        ("""--kv-transfer-config "{\\"kv_connector\\":\\"C\\",\\"kv_rank\\":$R}" """, "C", None),
        ("""--kv-transfer-config='{"a":1}'""", "a KV connector", None),
        ("--kv-offloading-size 4", "KV offloading", None),
        ("--disaggregation-mode prefill", None, "--disaggregation-mode"),
        ("--headless", None, "--headless"),
    ],
)  # fmt: skip
def test_a_connector_and_a_part_of_several_are_known(
    options: str, connector: str | None, role: str | None
) -> None:
    candidate = server(f"LMCACHE_CHUNK_SIZE=8 vllm serve m {options} --port 1")
    assert (candidate.connector, candidate.role) == (connector, role)
    bare = without_connector(candidate)
    assert bare.connector is None
    if connector is not None:
        assert " ".join(bare.words) == "vllm serve m --port {port}"
        assert bare.env == {}


def test_a_small_context_gets_short_prompts() -> None:
    assert server("llama-server -m a -c 512").short_prompts
    assert not server("vllm serve m --max-model-len 8192").short_prompts


@pytest.mark.parametrize(
    ("text", "env", "notes"),
    [
        ("HF_TOKEN=abc TOKENIZERS_PARALLELISM=false vllm serve m --api-key k --port 1", {"TOKENIZERS_PARALLELISM": "false"}, 2),
        ("vllm serve m --api-key k1 k2 --port 1 --api_keys k3 k4", {}, 2),
        ("DB_PASS=hunter2 vllm serve m", {}, 1),
    ],
)  # fmt: skip
def test_keys_and_variables_named_like_secrets_are_left_out(
    text: str, env: dict[str, str], notes: int
) -> None:
    safe = without_secrets(server(text))
    assert safe is not None
    assert (" ".join(safe.words), safe.env) == ("vllm serve m --port {port}", env)
    assert len(safe.notes) == notes


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --hf-token abcdef123456 --port 1",
        "vllm serve m --url https://u:secret12@host/ --port 1",
        "vllm serve m --x ghp_" + "a1B2" * 9 + " --port 1",
        "vllm serve m --db-pass hunter4",
        # Beside a variable.
        "vllm serve m --db-pass=hunter4$X",
        "vllm serve m --lora postgres://u:hunter2@$HOST/db",
        "DB=postgres://u:hunter2@$HOST/db vllm serve m",
        "vllm serve m --hf-token hf_" + "abcdefghijklmnopqrstuvwxyz012345$X",
    ],
)
def test_a_command_with_another_secret_is_not_proposed(text: str) -> None:
    assert without_secrets(server(text)) is None


@pytest.mark.parametrize("option", ["--hf-token $HF_TOKEN", "--db-pass=$P", "--x $A/b"])
def test_a_value_that_only_names_variables_is_no_secret(option: str) -> None:
    assert without_secrets(server(f"vllm serve m {option}")) is not None


@pytest.mark.parametrize("length", ["²", "9" * 5_000, "x"])
def test_a_length_that_is_no_number_is_no_error(length: str) -> None:
    assert not server(f"vllm serve m --max-model-len {length}").short_prompts


def test_each_server_stands_on_the_page() -> None:
    page = (ROOT / "docs" / "init.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"`{kind.name}`" in page, kind.name


def test_each_start_is_its_own_row_and_no_other() -> None:
    for kind in KINDS:
        for start in kind.starts:
            found = kind_at(["x", *start, "y"], 1)
            assert found == (kind, 1 + len(start)), start


# Which of a repository's servers are the two arms.

KV = """--kv-transfer-config '{"kv_connector": "LMCacheConnectorV1"}'"""


def servers(**texts: str) -> tuple[ServerCandidate, ...]:
    """The servers of shell scripts, by the path with `__` for a slash."""
    scripts = {f"{name.replace('__', '/')}.sh": text for name, text in texts.items()}
    made = [each for path, text in scripts.items() for each in started(path, text)]
    return ranked(each for each in made if each is not None)


def arms_of(**texts: str) -> ProposedArms:
    arms = choose_arms(servers(**texts))
    assert arms is not None
    return arms


def test_what_ci_runs_comes_before_scripts_and_those_before_examples() -> None:
    order = [each.command.file for each in servers(
        examples__a="vllm serve a\n", run="vllm serve b\n", ci__c="vllm serve c\n"
    )]  # fmt: skip
    assert order == ["ci/c.sh", "run.sh", "examples/a.sh"]


def test_a_server_in_a_container_or_with_missing_variables_comes_later() -> None:
    text = 'docker run x vllm serve a\nvllm serve "$M"\nvllm serve c --seed 1\n'
    assert [each.command.line for each in servers(run=text)] == [3, 2, 1]


def test_the_same_command_counts_once() -> None:
    (server,) = servers(b="vllm serve a --port 1\n", a="vllm serve a --port 2\n")
    assert (server.count, server.origin) == (2, "a.sh:1")


def test_without_a_server_that_answers_there_are_no_arms() -> None:
    assert choose_arms(()) is None
    assert choose_arms(servers(a="lmcache server --port 1\n")) is None
    assert choose_arms(servers(a="vllm serve a --headless\n")) is None


def test_the_plain_command_that_differs_least_is_the_baseline() -> None:
    text = f"vllm serve a --seed 1 {KV}\nvllm serve a --x 1 --y 2\nvllm serve a --seed 1 --z\nvllm serve b\n"
    arms = arms_of(run=text)
    assert arms.kind is ArmsKind.TWO_COMMANDS
    assert arms.candidate.command.line == 1
    assert (arms.baseline.command.line, arms.also) == (3, ("--z",))
    assert "# the two differ besides the connector by" in config_text(arms)


@pytest.mark.parametrize(
    ("other", "lines"),
    [
        ("vllm serve a --port 2 --enforce-eager", (1, 2)),
        ("FLAG=1 vllm serve a --port 2", (1, 2)),
        ("vllm serve a --x 2 --port 2", (1, 2)),
        # A copy of it, a part of the same, another model, too many settings.
        ("CUDA_VISIBLE_DEVICES=1 vllm serve a --port 2 --metrics-port 4", None),
        ("vllm serve a --port 2 --my-role decode", None),
        ("vllm serve b --port 2 --enforce-eager", None),
        ("vllm serve a --b 1 --c 2 --d 3 --e 4", None),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_twin_in_the_same_script_is_the_other_arm(
    other: str, lines: tuple[int, int] | None, order: int
) -> None:
    commands = ["vllm serve a --port 1", other]
    arms = arms_of(run="\n".join(commands[::order]) + "\n")
    if lines is None:
        assert arms.kind is ArmsKind.SAME
        return
    assert arms.kind is ArmsKind.TWO_COMMANDS
    # The plainer one is the baseline.
    assert (arms.baseline.command.line, arms.candidate.command.line) == lines[::order]


def test_a_command_of_another_script_is_no_twin() -> None:
    assert arms_of(a="vllm serve a\n", b="vllm serve a --enforce-eager\n").kind is ArmsKind.SAME


def test_a_store_whose_address_stands_in_a_file_keeps_its_port() -> None:
    text = f"lmcache_server localhost 65432 &\nLMCACHE_CONFIG_FILE=c.yaml vllm serve a {KV}\n"
    arms = arms_of(run=text)
    assert arms.store is not None
    document = tomllib.loads(config_text(arms))
    assert document["services"]["kv"]["command"] == "lmcache_server localhost 65432"
    assert document["services"]["kv"]["ready"] == "tcp://127.0.0.1:65432"
    assert document["services"]["vllm-plain"].get("env") is None


def test_two_chosen_servers_are_the_arms_and_one_is_compared_with_itself() -> None:
    one, other = servers(run="vllm serve a\nvllm serve a --dtype half\n")
    arms = chosen_arms((one, other), one, other)
    assert arms.also == ("--dtype", "half")
    names = tomllib.loads(config_text(arms))["services"]
    assert list(names) == ["vllm", "vllm-candidate"]
    assert chosen_arms((one, other), one, one).kind is ArmsKind.SAME


def test_the_port_of_a_store_is_no_beginning_of_another() -> None:
    text = (
        "lmcache_server localhost 655 &\n"
        f"STORE=lm://localhost:655 OTHER=http://localhost:6550 vllm serve a {KV}\n"
    )
    arms = arms_of(run=text)
    assert arms.candidate.env == {
        "STORE": "lm://localhost:{kv.port}",
        "OTHER": "http://localhost:6550",
    }
