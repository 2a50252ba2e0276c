# SPDX-License-Identifier: Apache-2.0
"""Pure. A pipeline of one step that installs ci-doctor, uses the plugin, and runs the comparison."""

from collections.abc import Mapping, Sequence
from typing import Final

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.scaffold.home import PLUGIN, is_release, release_of, requirement
from ci_doctor.scaffold.scaffold_facts import ScaffoldFacts

PIPELINE: Final = ".buildkite/ci-doctor.yml"
_MINUTES: Final = 40


def upload_line() -> str:
    """The command of a step that adds the written pipeline to a build."""
    return f"buildkite-agent pipeline upload {PIPELINE}"


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
        return [f'    command: "{commands[0]}"']
    return ["    command:", *(f'      - "{command}"' for command in commands)]


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
    else:
        lines.append("      # The address of the plugin: put the one that your team uses here.")
    lines.append(f"      - {source}:")
    if not is_release(version):
        lines.append(
            f"          # Written by {version}, which is no release: name one that your index has."
        )
    lines.append(f'          install: "{requirement(version)}"')
    if facts.prefix:
        lines.append(f'          config: "{facts.prefix}/ci-doctor.toml"')
    return lines


def _rules(codes: Mapping[str, int]) -> list[str]:
    """The retry and soft-fail rules, as `ci-doctor pipeline retry-rules` prints them."""
    rules = rules_for(codes).yaml.rstrip("\n").split("\n")
    # The head is about the command that prints it.
    return [f"    {line}" for line in rules if not line.startswith("#")]
