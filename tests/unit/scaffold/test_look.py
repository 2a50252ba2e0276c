# SPDX-License-Identifier: Apache-2.0
import json
import tomllib
from pathlib import Path

import pytest

from ci_doctor.config.loading import load_config
from ci_doctor.errors import ConfigError
from ci_doctor.load.requests import read_requests
from ci_doctor.scaffold.arms import ScaffoldFacts, ToolOrigin, choose_arms
from ci_doctor.scaffold.look import install_command, look, read_files
from ci_doctor.scaffold.propose import ProposalRequest, propose, request_lines
from ci_doctor.scaffold.texts import config_text
from ci_doctor.services.spec import service_specs
from tests.support.repository_layouts import ENGINE, FULL_STACK, KV_CACHE, LAYOUTS, Layout, build

CODES = {
    "pass": 0, "regression": 1, "failed": 1, "flaky": 7, "nondeterministic": 85, "infra": 75, "inconclusive": 86, "void": 86,
}  # fmt: skip


def facts_of(directory: Path, layout: Layout) -> ScaffoldFacts:
    return look(read_files(build(directory, layout)))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_server_of_each_layout_is_proposed_as_it_is_started_there(
    layout: Layout, tmp_path: Path
) -> None:
    arms = choose_arms(facts_of(tmp_path, layout).servers)
    if layout.baseline is None:
        assert arms is None
        return
    assert arms is not None
    server = arms.baseline
    assert (server.origin, arms.candidate.origin) == (
        layout.baseline,
        layout.candidate or layout.baseline,
    )
    assert server.words == layout.command
    assert (server.ready, server.cwd, server.env) == (layout.ready, layout.cwd, layout.env)
    assert tuple(map(str, server.apis)) == layout.apis
    assert (arms.kind.value, server.model) == (layout.arms, layout.model)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_what_is_proposed_for_each_layout_is_read_without_an_error(
    layout: Layout, tmp_path: Path
) -> None:
    facts = facts_of(tmp_path, layout)
    arms = choose_arms(facts.servers)
    text = config_text(arms)
    assert text.startswith("#:schema ./ci-doctor.schema.json\n")
    (tmp_path / "ci-doctor.toml").write_text(text)
    specs = service_specs(load_config(None, tmp_path))
    assert bool(specs) == (layout.baseline is not None)
    for spec in specs.values():
        assert "{port}" in " ".join(spec.words()), spec
    if arms is None:
        return
    lines = request_lines(arms)
    (tmp_path / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    requests = read_requests(tmp_path / "requests.jsonl")
    assert len(requests) == len({request.id for request in requests})
    assert len(requests) == (1 if "routes" in layout.apis else 20)


def test_two_arms_with_a_store_start_it_first_and_know_its_free_port(tmp_path: Path) -> None:
    arms = choose_arms(facts_of(tmp_path, KV_CACHE).servers)
    document = tomllib.loads(config_text(arms))
    assert document["correctness"]["candidate"]["services"] == ["kv", "vllm-lmcache"]
    assert document["services"]["kv"]["command"] == "lmcache_server localhost {port}"
    assert document["services"]["kv"]["ready"] == "tcp://127.0.0.1:{port}"
    candidate = document["services"]["vllm-lmcache"]
    assert candidate["env"] == {"LMCACHE_REMOTE_URL": "lm://localhost:{kv.port}"}
    assert '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}' in candidate["command"]
    assert "kv" not in document["services"]["vllm-plain"]["command"]


def test_the_facts_name_pipelines_and_queues(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, ENGINE)
    assert facts.pipelines == (".buildkite/pipeline.yaml",)
    assert facts.queues == ("gpu_1",)
    assert facts.existing.has_buildkite


def test_an_application_is_installed_from_its_own_directory(tmp_path: Path) -> None:
    assert facts_of(tmp_path, FULL_STACK).install == "python -m pip install ./backend"


def test_a_configuration_that_cannot_be_read_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "ci-doctor.toml").write_text("[services\n")
    with pytest.raises(ConfigError, match=r"ci-doctor\.toml:1"):
        facts_of(tmp_path, ENGINE)


def test_with_a_configuration_only_what_is_missing_is_proposed(tmp_path: Path) -> None:
    directory = build(tmp_path, ENGINE)
    (directory / "ci-doctor.toml").write_text('[correctness]\nrequests = "mine/r.jsonl"\n')
    facts = look(read_files(directory))
    request = ProposalRequest(
        facts=facts, arms=choose_arms(facts.servers), schema="{}", origin=ToolOrigin(), codes=CODES
    )
    proposal = propose(request)
    paths = [file.path for file in proposal.files]
    assert paths == [".ci-doctor/pre-commit.yaml", ".ci-doctor/.gitignore"]
    assert proposal.kept[0].startswith("ci-doctor.toml exists and is not changed")


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("./sub/", "sub"),
        ("sub/deep", "sub/deep"),
        (".", ""),
        ('"$ROOT"', ""),
        ('"$(dirname "$0")"', ""),
        ("~/x", ""),
        ("-", ""),
        ("..", ""),
        ("/workspace/x", ""),
    ],
)
def test_a_server_runs_in_a_directory_of_the_repository_or_beside_the_configuration(
    directory: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "a.txt").touch()
    (tmp_path / "run.sh").write_text(f"cd {directory} && vllm serve m\n")
    (tmp_path / "other.sh").write_text(f"cd {directory}\nvllm serve n\n")
    servers = look(read_files(tmp_path)).servers
    assert [server.cwd for server in servers] == [expected] * 2


def test_no_character_of_a_repository_becomes_a_live_variable(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("vllm serve m --x '\ue001(id)' --y '\ue000HOME'\n")
    listed = 'CMD ["vllm", "serve", "n", "--x", "\\ue001HOME"]\n'
    (tmp_path / "Dockerfile").write_text(listed)
    (tmp_path / "deep.yml").write_text(f"command: {'[' * 9_999}]\n# vllm\n")
    (tmp_path / "\ue001HOME.sh").write_text("vllm serve o\n")
    facts = look(read_files(tmp_path))
    assert [server.unknown for server in facts.servers] == [(), ()]
    assert not {"\ue000", "\ue001"} & set("".join(map(str, facts.servers)))
    assert "\ue001HOME.sh" not in read_files(tmp_path).files


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        ("agents: {queue: gpu}", {"queue": "gpu"}),
        ('agents: {queue: "gpu", gpu: h100}', {"queue": "gpu", "gpu": "h100"}),
        ("agents:\n      queue: gpu", {"queue": "gpu"}),
        ('agents: ["queue=gpu", "os=linux"]', {"queue": "gpu", "os": "linux"}),
        ("agents: *gpu", {"queue": "anchored"}),
        ("agents:\n      <<: *gpu\n      os: linux", {"queue": "anchored", "os": "linux"}),
        ("agents: {queue: $QUEUE}", {"queue": "$QUEUE"}),
        # Those of the pipeline.
        ("label: x", {"queue": "default"}),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "command: bash ../.ci/serve.sh",
        "commands:\n      - cd x\n      - ./.ci/serve.sh --quick",
        "command: $ROOT/.ci/serve.sh",
        "command: make test",  # whose Makefile calls it
        "command: sh outer.sh",  # which calls it
    ],
)
def test_the_agents_are_those_of_the_step_that_runs_the_script(
    agents: str, expected: dict[str, str], command: str, tmp_path: Path
) -> None:
    written = "x-gpu: &gpu {queue: anchored}\nagents: {queue: default}\nsteps:\n"
    written += "  - command: bash ci/lint.sh\n    agents: {queue: cpu}\n  - wait\n"
    written += f"  - {agents}\n    {command}\n"
    files = {
        ".buildkite/pipeline.yml": written,
        "Makefile": "test:\n\tbash outer.sh\n",
        "outer.sh": "set -e\n(cd .ci && ./serve.sh)\n",
        ".ci/serve.sh": "vllm serve m --port 1 &\n",
        "ci/lint.sh": "ruff check\n",
    }
    facts = look(read_files(build(tmp_path, Layout(files=files, baseline=None))))
    assert dict(facts.steps[".ci/serve.sh:1"].agents) == expected
    assert "cpu" in facts.queues


def test_a_step_of_a_group_may_start_the_server_itself_and_one_that_nothing_runs_has_no_step(
    tmp_path: Path,
) -> None:
    pipeline = (
        "steps:\n  - group: g\n    steps:\n      - {command: pytest, agents: {queue: cpu}}\n"
        "      - agents: {queue: gpu}\n        command: |\n          vllm serve m --port 1 &\n"
    )
    files = {".buildkite/p.yml": pipeline, "other.sh": "vllm serve n\n"}
    facts = look(read_files(build(tmp_path, Layout(files=files, baseline=None))))
    assert {origin: dict(step.agents) for origin, step in facts.steps.items()} == {
        ".buildkite/p.yml:7": {"queue": "gpu"}
    }
    assert facts.queues == ("cpu", "gpu")


def test_each_server_that_is_left_out_is_named_with_the_reason(tmp_path: Path) -> None:
    lines = {
        "vllm serve $(pick)": "arguments of the script or the output of a command are a part of it",
        'vllm serve "$1"': "arguments of the script or the output of a command are a part of it",
        "vllm serve {{ model }}": "a template fills in a part of it",
        "vllm serve --port 1": "it names no model",
        "uvicorn other.place:app": "the program that it names is not in the repository",
        "lmcache_server localhost": "a value is missing",
        "vllm serve m --hf-token abcdef123456": "it holds a secret",
    }
    (tmp_path / "run.sh").write_text("\n".join(lines) + "\n")
    facts = look(read_files(tmp_path))
    assert facts.servers == ()
    assert {each.origin: each.why for each in facts.left_out} == {
        f"run.sh:{at}": why for at, why in enumerate(lines.values(), start=1)
    }


@pytest.mark.parametrize(
    ("files", "text", "expected"),
    [
        (["pyproject.toml"], "a = [", None),
        (["pyproject.toml"], '[project]\nname = "a"\n', "python -m pip install ."),
        (["setup.py"], "", "python -m pip install ."),
        (["requirements.txt", "setup.py"], "", "python -m pip install -r requirements.txt"),
    ],
)
def test_what_installs_a_project_is_known_by_its_files(
    files: list[str], text: str, expected: str | None
) -> None:
    assert install_command("", files, {"pyproject.toml": text}, "") == expected
