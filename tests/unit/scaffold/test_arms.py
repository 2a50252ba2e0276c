# SPDX-License-Identifier: Apache-2.0
import tomllib

from ci_doctor.scaffold.arms import ArmsKind, choose_arms, chosen_arms, ranked
from ci_doctor.scaffold.candidates import ServerCandidate, engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.servers import SourceFile, TextKind, place_of_file
from ci_doctor.scaffold.texts import config_text

KV = """--kv-transfer-config '{"kv_connector": "LMCacheConnectorV1"}'"""


def servers(**texts: str) -> tuple[ServerCandidate, ...]:
    """The servers of shell scripts, by the path with `__` for a slash."""
    made = []
    for name, text in texts.items():
        path = f"{name.replace('__', '/')}.sh"
        place = place_of_file(path, TextKind.SHELL)
        source = SourceFile(path=path, kind=TextKind.SHELL, place=place, text=text)
        made += [engine_candidate(command) for command in server_commands(source)]
    return ranked(each for each in made if each is not None)


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
    arms = choose_arms(servers(run=text))
    assert arms is not None
    assert arms.kind is ArmsKind.TWO_COMMANDS
    assert arms.candidate.command.line == 1
    assert (arms.baseline.command.line, arms.also) == (3, ("--z",))
    assert "# the two differ besides the connector by" in config_text(arms)


def test_a_store_whose_address_stands_in_a_file_keeps_its_port() -> None:
    text = f"lmcache_server localhost 65432 &\nLMCACHE_CONFIG_FILE=c.yaml vllm serve a {KV}\n"
    arms = choose_arms(servers(run=text))
    assert arms is not None
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
    arms = choose_arms(servers(run=text))
    assert arms is not None
    assert arms.candidate.env == {
        "STORE": "lm://localhost:{kv.port}",
        "OTHER": "http://localhost:6550",
    }
