# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from ci_doctor.scaffold.agents import PipelineStep, Tags
from ci_doctor.scaffold.arms import ExistingFiles, ScaffoldFacts, ToolOrigin, choose_arms
from ci_doctor.scaffold.candidates import engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.propose import ProposalRequest, propose
from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind

CODES = {
    "pass": 0, "regression": 1, "failed": 1, "flaky": 7, "nondeterministic": 85, "infra": 75, "inconclusive": 86, "void": 86,
}  # fmt: skip
_SOURCE = SourceFile(
    path="a.sh", kind=TextKind.SHELL, place=ScriptPlace.SCRIPT, text="vllm serve acme/a\n"
)
_SERVER = engine_candidate(server_commands(_SOURCE)[0])
assert _SERVER is not None
ARMS = choose_arms([_SERVER])
FACTS = ScaffoldFacts(servers=(_SERVER,))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PLUGIN = f"https://git.somewhere.org/ci-doctor.git/buildkite_plugins/ci-doctor#{COMMIT}"
REQUIREMENT = f"git+https://git.somewhere.org/ci-doctor.git@{COMMIT}"
ORIGIN = ToolOrigin(requirement=REQUIREMENT, plugin=PLUGIN)
OF_THIS_MACHINE = ToolOrigin(missing="was installed from /here", program=("/a b/ci-doctor",))


def request(
    facts: ScaffoldFacts = FACTS, origin: ToolOrigin = ORIGIN, **more: Any
) -> ProposalRequest:
    given = {"arms": ARMS, **more}
    return ProposalRequest(facts=facts, schema="{}\n", origin=origin, codes=CODES, **given)


def texts(given: ProposalRequest) -> dict[str, str]:
    return {file.path: file.text for file in propose(given).files}


def step(given: ProposalRequest) -> dict[str, Any]:
    (only,) = yaml.safe_load(texts(given)[".buildkite/ci-doctor.yml"])["steps"]
    made: dict[str, Any] = only
    return made


def existing(**given: Any) -> ScaffoldFacts:
    return replace(FACTS, existing=ExistingFiles(**given))


def test_the_step_installs_the_commit_and_loads_the_plugin_of_the_same() -> None:
    made = step(request())
    assert made["command"] == "ci-doctor correctness"
    assert made["plugins"] == [{PLUGIN: {"install": REQUIREMENT}}]
    assert made["retry"]["automatic"][0] == {"exit_status": 75, "limit": 2}
    assert made["soft_fail"] == [{"exit_status": 85}]
    assert "agents" not in made


def test_a_vendored_plugin_is_used_where_it_lies() -> None:
    made = step(request(existing(plugin="ci/plugins/ci-doctor", has_buildkite=True)))
    assert list(made["plugins"][0]) == ["./ci/plugins/ci-doctor"]


@pytest.mark.parametrize(
    ("agents", "queues", "expected"),
    [
        ((("queue", "gpu"), ("os", "a: b")), ("cpu", "gpu"), {"queue": "gpu", "os": "a: b"}),
        # Its own step says nothing: the default queue.
        ((), ("cpu",), None),
        (None, (), None),
        (None, ("gpu",), {"queue": "gpu"}),
        (None, ("a", "b"), None),
    ],
)
def test_the_agents_are_those_of_the_step_that_runs_the_server_or_the_only_queue(
    agents: Tags | None, queues: tuple[str, ...], expected: object
) -> None:
    steps = {}
    if agents is not None:
        line = PipelineStep(file="p.yml", line=3, end_line=9, commands="bash a.sh", agents=agents)
        steps = {"a.sh:1": line}
    given = request(replace(FACTS, queues=queues, steps=steps))
    assert step(given).get("agents") == expected
    text = texts(given)[".buildkite/ci-doctor.yml"]
    assert ("# as the step at p.yml:3" in text) == bool(agents)
    assert ("    # a, b\n" in text) == (queues == ("a", "b"))


@pytest.mark.parametrize("has_hooks", [False, True])
def test_without_an_address_only_what_stays_on_this_machine_is_written(has_hooks: bool) -> None:
    facts = existing(has_workflows=True, has_buildkite=True, pre_commit=has_hooks)
    proposal = propose(request(facts, OF_THIS_MACHINE))
    made = {file.path: file.text for file in proposal.files}
    (hook,) = yaml.safe_load(made.pop(".ci-doctor/pre-commit.yaml"))["repos"][0]["hooks"]
    assert (hook["entry"], hook["language"]) == ("'/a b/ci-doctor' lint", "system")
    assert made.pop(".ci-doctor/.gitignore").endswith("\n*\n")
    assert list(made) == ["ci-doctor.toml", "ci-doctor.schema.json", "ci-doctor-requests.jsonl"]
    assert not any("a b/ci-doctor" in text for text in made.values())
    (sentence,) = proposal.kept
    both = ".buildkite/ci-doctor.yml and .github/workflows/ci-doctor.yml"
    assert sentence == f"{both} are not proposed: this ci-doctor was installed from /here"
    assert any("git+ADDRESS@COMMIT" in step for step in proposal.steps)
    assert proposal.to_paste == {}


def test_a_wheel_brings_no_plugin() -> None:
    wheel = ToolOrigin(requirement="https://h/ci_doctor_toolkit-1-py3-none-any.whl#sha256=0")
    (sentence,) = propose(request(origin=wheel)).kept
    assert "a wheel does not bring the plugin" in sentence
    vendored = request(existing(plugin="p/ci-doctor", has_buildkite=True), wheel)
    assert step(vendored)["plugins"] == [{"./p/ci-doctor": {"install": wheel.requirement}}]


def test_nothing_is_installed_by_a_name_that_anybody_could_register() -> None:
    for facts in (existing(has_workflows=True, has_buildkite=True), existing(pre_commit=True)):
        proposal = propose(request(facts))
        made = [*(file.text for file in proposal.files), *proposal.to_paste.values()]
        installing = [line for text in made for line in text.split("\n") if "install" in line]
        assert [line for line in installing if REQUIREMENT not in line] == []
        assert len([line for line in "\n".join(made).split("\n") if REQUIREMENT in line]) >= 1


def test_a_directory_with_odd_characters_reaches_the_command_and_the_plugin_as_it_is() -> None:
    facts = replace(FACTS, prefix='a "b" $c')
    made = step(request(facts))
    # `pipeline upload` makes one `$` of two.
    assert made["command"] == """ci-doctor correctness --config 'a "b" $$c/ci-doctor.toml'"""
    assert made["plugins"][0][PLUGIN]["config"] == 'a "b" $$c/ci-doctor.toml'
    assert 'a "b" $c/ci-doctor.toml' in texts(request(facts))


def test_github_gets_a_workflow_where_it_has_some_and_buildkite_none_without_its_folder() -> None:
    made = texts(request(existing(has_workflows=True)))
    assert ".buildkite/ci-doctor.yml" not in made
    workflow = yaml.safe_load(made[".github/workflows/ci-doctor.yml"])
    assert workflow["jobs"]["correctness"]["runs-on"] == ["self-hosted", "gpu"]
    assert workflow[True] == {"workflow_dispatch": None}
    both = texts(request(existing(has_workflows=True, has_buildkite=True)))
    assert ".buildkite/ci-doctor.yml" in both


def test_what_an_application_needs_is_installed_in_the_step() -> None:
    facts = replace(FACTS, install="python -m pip install .")
    assert ARMS is not None
    arms = replace(ARMS, baseline=replace(ARMS.baseline, is_engine=False))
    assert step(request(facts, arms=arms))["command"] == [
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "python -m pip install .",
        "ci-doctor correctness",
    ]
    assert step(request(facts))["command"] == "ci-doctor correctness"


def test_without_a_server_there_is_a_skeleton_and_no_step_that_would_fail() -> None:
    given = request(ScaffoldFacts(), arms=None)
    paths = list(texts(given))
    assert paths == ["ci-doctor.toml", "ci-doctor.schema.json", ".pre-commit-config.yaml"]
    assert "run `ci-doctor init` again" in " ".join(propose(given).steps)
    later = request(replace(ScaffoldFacts(), existing=ExistingFiles(config="ci-doctor.toml")), arms=None)  # fmt: skip
    assert ".buildkite/ci-doctor.yml" in texts(later)


def test_what_is_taken_is_kept_and_named() -> None:
    given = request(taken={"ci-doctor-requests.jsonl": "exists and is not changed"})
    assert "ci-doctor-requests.jsonl" not in texts(given)
    assert propose(given).kept == ("ci-doctor-requests.jsonl exists and is not changed",)


def test_a_configuration_above_is_the_one_of_the_step() -> None:
    facts = replace(existing(config="ci-doctor.toml", pre_commit=True), prefix="sub")
    assert list(texts(request(facts))) == [".buildkite/ci-doctor.yml"]
    assert step(request(facts))["command"] == "ci-doctor correctness"


def test_a_hook_that_is_there_is_not_pasted_again() -> None:
    proposal = propose(request(existing(pre_commit=True, has_hook=True)))
    assert proposal.to_paste == {}
    assert not any("paste" in step for step in proposal.steps)


def test_next_says_what_a_change_in_the_code_needs_and_keeps_reports_out_of_git() -> None:
    steps = propose(request()).steps
    assert any("cwd" in step for step in steps)
    assert any(">> .gitignore" in step for step in steps)

    steps = propose(request(existing(ignores_reports=True))).steps
    assert not any(".gitignore" in step for step in steps)


@pytest.mark.parametrize("name", ["svc${{ github.token }}", "a\nb", "a\x85b", "a$HOME"])
def test_the_name_of_a_directory_is_no_part_of_a_pipeline(name: str) -> None:
    install = f"python -m pip install -r '{name}/requirements.txt'"
    here = ExistingFiles(has_workflows=True, has_buildkite=True)
    facts = replace(FACTS, existing=here, prefix=name, install=install)
    assert ARMS is not None
    arms = replace(ARMS, baseline=replace(ARMS.baseline, is_engine=False))
    proposal = propose(request(facts, arms=arms))
    made = {file.path: file.text for file in proposal.files}
    not_proposed = [line.split()[0] for line in proposal.kept]
    workflow, pipeline = ".github/workflows/ci-doctor.yml", ".buildkite/ci-doctor.yml"
    assert (workflow in made) == (name == "a$HOME")
    assert (pipeline in made) == name.isprintable()
    assert sorted(not_proposed) == sorted({workflow, pipeline} - set(made))
    if pipeline in made:
        # An upload reads `$$` as a plain `$`.
        assert install.replace("$", "$$") in step(request(facts, arms=arms))["command"]


def test_a_name_with_a_line_end_stays_in_its_step() -> None:
    facts = replace(FACTS, prefix="x\ny")
    assert not [step for step in propose(request(facts)).steps if not step.isprintable()]
