# SPDX-License-Identifier: Apache-2.0
"""Pure. A Buildkite step, a GitHub workflow and a pre-commit hook that install ci-doctor and run it.

The hook of pre-commit is a local one, so it needs no address of a repository: https://pre-commit.com/#repository-local-hooks
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from packaging.version import InvalidVersion, Version

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.model.distribution import DISTRIBUTION
from ci_doctor.scaffold.facts import ScaffoldFacts

# `.example` leads nowhere (RFC 2606), so nothing is loaded from a stranger meanwhile.
REPOSITORY: Final = "https://ci-doctor.example/ci-doctor.git"
PLUGIN: Final = f"{REPOSITORY}/buildkite_plugins/ci-doctor"


def release_of(version: str) -> str:
    """The release that a version belongs to: an index has `1.2.0`, and not `1.2.0.dev3+g1234567`."""
    try:
        return Version(version).base_version
    except InvalidVersion:
        return version


def is_release(version: str) -> bool:
    """Whether an index may have this very version."""
    return release_of(version) == version


def requirement(version: str) -> str:
    """The distribution at the release of `version`, as pip and the plugin's `install` take it."""
    return f"{DISTRIBUTION}=={release_of(version)}"


PIPELINE: Final = ".buildkite/ci-doctor.yml"
_MINUTES: Final = 40
_PLAIN: Final = re.compile(r"[\w./-]+")


def upload_line() -> str:
    """The command of a step that adds the written pipeline to a build."""
    return f"buildkite-agent pipeline upload {PIPELINE}"


def can_be_uploaded(facts: ScaffoldFacts, commands: Iterable[str]) -> bool:
    """Whether a pipeline may hold these commands: YAML has no place for what cannot be printed."""
    return all(text.isprintable() for text in (*commands, facts.existing.plugin or ""))


def pipeline_text(
    facts: ScaffoldFacts, commands: Sequence[str], version: str, codes: Mapping[str, int]
) -> str:
    """The whole file. codes: the exit code of each verdict. commands: those of the step."""
    lines = ["steps:", '  - label: "ci-doctor: correctness"', '    key: "ci-doctor-correctness"']
    lines += _command(commands)
    lines += [f"    timeout_in_minutes: {_MINUTES}"]
    lines += _agents(facts.queues)
    lines += ["    plugins:", *_plugin(facts, version)]
    lines += _rules(codes)
    return "\n".join(lines) + "\n"


def _command(commands: Sequence[str]) -> list[str]:
    if len(commands) == 1:
        return [f"    command: {_quoted(commands[0])}"]
    return ["    command:", *(f"      - {_quoted(command)}" for command in commands)]


def _quoted(text: str) -> str:
    """A string of YAML; an upload would put a variable in place of a `$`."""
    return json.dumps(text, ensure_ascii=False).replace("$", "$$")


def _agents(queues: Sequence[str]) -> list[str]:
    if len(queues) == 1:
        return ["    agents:", f'      queue: "{queues[0]}"']
    if not queues:
        return []
    known = ", ".join(queues)
    return [
        f"    # The other pipelines name these queues: {known}.",
        "    # agents:",
        f'    #   queue: "{queues[0]}"',
    ]


def _plugin(facts: ScaffoldFacts, version: str) -> list[str]:
    lines = []
    source = f"{PLUGIN}#v{release_of(version)}"
    if facts.existing.plugin is not None:
        source = f"./{facts.existing.plugin}"
        source = source if _PLAIN.fullmatch(source) else _quoted(source)
    else:
        lines.append("      # Put the address of the plugin here, the one that your team uses.")
    lines.append(f"      - {source}:")
    if not is_release(version):
        lines.append(f"          # {version} is no release: name one that your index has.")
    lines.append(f'          install: "{requirement(version)}"')
    if facts.config is not None:
        lines.append(f"          config: {_quoted(facts.config)}")
    return lines


def _rules(codes: Mapping[str, int]) -> list[str]:
    """The retry and soft-fail rules, as `ci-doctor config retry-rules` prints them."""
    rules = rules_for(codes).yaml.rstrip("\n").split("\n")
    # The head is about the command that prints it.
    return [f"    {line}" for line in rules if not line.startswith("#")]


WORKFLOW: Final = ".github/workflows/ci-doctor.yml"
_HEAD: Final = """\
name: ci-doctor
on:
  workflow_dispatch:
{pull_request}permissions:
  contents: read
jobs:
  correctness:
    runs-on: {machine}
    timeout-minutes: 40
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: |
"""
_TAIL: Final = """\
      - run: |
          {command} --report-dir ci-doctor-report
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: ci-doctor-report
          path: ci-doctor-report
"""


def can_be_run_by_github(lines: Iterable[str]) -> bool:
    """Whether a workflow may hold these lines of shell.

    GitHub puts the value of an expression into the text of a script before a shell reads it, also
    within quotes: https://docs.github.com/en/actions/reference/security/secure-use
    """
    return all(line.isprintable() and "${{" not in line for line in lines)


def workflow_text(command: str, install: Sequence[str], version: str, *, needs_gpu: bool) -> str:
    """The whole file. install: what the server needs. A hosted machine has no GPU."""
    machine, pull_request = "ubuntu-latest", "  pull_request:\n"
    if needs_gpu:
        machine = "[self-hosted, gpu] # the labels of a runner of yours with a GPU"
        pull_request = "  # pull_request: # once runs-on names such a runner\n"
    lines = [f'python -m pip install "{requirement(version)}"', *install]
    if not is_release(version):
        lines.insert(0, f"# {version} is no release: name one that your index has.")
    installed = "".join(f"          {line}\n" for line in lines)
    head = _HEAD.format(machine=machine, pull_request=pull_request)
    return f"{head}{installed}{_TAIL.format(command=command)}"


PRE_COMMIT: Final = ".pre-commit-config.yaml"
HOOK: Final = "ci-doctor-lint"


def pre_commit_entry(version: str) -> str:
    """The item of the list `repos`."""
    note = ""
    if not is_release(version):
        note = f"        # {version} is no release: name one that your index has, or a wheel.\n"
    return f"""\
  - repo: local
    hooks:
      - id: {HOOK}
        name: ci-doctor lint
        entry: ci-doctor lint
        language: python
{note}        additional_dependencies: ["{requirement(version)}"]
        types_or: [shell, yaml, python]
        require_serial: true
"""


def pre_commit_text(version: str) -> str:
    """The whole file."""
    return f"repos:\n{pre_commit_entry(version)}"
