# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from ci_doctor.scaffold.arms import ExistingFiles, ScaffoldFacts, choose_arms
from ci_doctor.scaffold.candidates import engine_candidate
from ci_doctor.scaffold.commands import server_commands
from ci_doctor.scaffold.propose import ProposalRequest, propose
from ci_doctor.scaffold.servers import ScriptPlace, SourceFile, TextKind
from ci_doctor.scaffold.texts import PLUGIN, is_release, release_of, requirement

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


def request(facts: ScaffoldFacts = FACTS, version: str = "1.2.3", **more: Any) -> ProposalRequest:
    given = {"arms": ARMS, **more}
    return ProposalRequest(facts=facts, schema="{}\n", version=version, codes=CODES, **given)


def texts(given: ProposalRequest) -> dict[str, str]:
    return {file.path: file.text for file in propose(given).files}


def step(given: ProposalRequest) -> dict[str, Any]:
    (only,) = yaml.safe_load(texts(given)[".buildkite/ci-doctor.yml"])["steps"]
    made: dict[str, Any] = only
    return made


def existing(**given: Any) -> ScaffoldFacts:
    return replace(FACTS, existing=ExistingFiles(**given))


def test_the_step_installs_the_release_and_uses_the_plugin() -> None:
    made = step(request())
    assert made["command"] == "ci-doctor correctness"
    assert made["plugins"] == [{f"{PLUGIN}#v1.2.3": {"install": "ci-doctor-toolkit==1.2.3"}}]
    assert made["retry"]["automatic"][0] == {"exit_status": 75, "limit": 2}
    assert made["soft_fail"] == [{"exit_status": 85}]
    assert "agents" not in made


def test_a_vendored_plugin_is_used_where_it_lies() -> None:
    made = step(request(existing(plugin="ci/plugins/ci-doctor", has_buildkite=True)))
    assert list(made["plugins"][0]) == ["./ci/plugins/ci-doctor"]
    assert not any(PLUGIN in each for each in propose(request()).steps[:2])


@pytest.mark.parametrize(
    ("queues", "agents"), [((), None), (("gpu",), {"queue": "gpu"}), (("a", "b"), None)]
)
def test_the_queue_is_that_of_the_other_pipelines_if_there_is_one(
    queues: tuple[str, ...], agents: object
) -> None:
    given = request(replace(FACTS, queues=queues))
    assert step(given).get("agents") == agents
    assert ("these queues: a, b" in texts(given)[".buildkite/ci-doctor.yml"]) == (len(queues) == 2)


def test_a_development_version_says_that_it_is_no_release() -> None:
    text = texts(request(version="1.2.4.dev3+gabc"))[".buildkite/ci-doctor.yml"]
    assert 'install: "ci-doctor-toolkit==1.2.4"' in text
    assert "# 1.2.4.dev3+gabc is no release" in text


@pytest.mark.parametrize(
    ("version", "release", "same"),
    [("1.0", "1.0", True), ("0.1.0.dev1+g1", "0.1.0", False), ("0+unknown", "0", False), ("?", "?", True)],
)  # fmt: skip
def test_a_release_is_what_an_index_has(version: str, release: str, same: bool) -> None:
    assert (release_of(version), is_release(version)) == (release, same)
    assert requirement(version) == f"ci-doctor-toolkit=={release}"


def test_a_directory_with_odd_characters_reaches_the_command_and_the_plugin_as_it_is() -> None:
    facts = replace(FACTS, prefix='a "b" $c')
    made = step(request(facts))
    # `pipeline upload` makes one `$` of two.
    assert made["command"] == """ci-doctor correctness --config 'a "b" $$c/ci-doctor.toml'"""
    assert made["plugins"][0][f"{PLUGIN}#v1.2.3"]["config"] == 'a "b" $$c/ci-doctor.toml'
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
    assert list(texts(given)) == [
        "ci-doctor.toml",
        "ci-doctor.schema.json",
        ".pre-commit-config.yaml",
    ]
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


def test_a_version_that_no_index_has_is_a_step_before_anything_is_installed() -> None:
    proposal = propose(request(version="1.2.3.dev4+gabc"))
    (step,) = [step for step in proposal.steps if "no release" in step]
    assert step.endswith("in .buildkite/ci-doctor.yml, .pre-commit-config.yaml")
    hook = texts(request(version="1.2.3.dev4+gabc"))[".pre-commit-config.yaml"]
    assert "is no release" in hook
    assert yaml.safe_load(hook)
    assert not any("no release" in step for step in propose(request()).steps)


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
