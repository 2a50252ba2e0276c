# SPDX-License-Identifier: Apache-2.0
"""Pure. A pipeline of one step that installs ci-doctor, uses the plugin, and runs the comparison."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.scaffold.home import PLUGIN, is_release, release_of, requirement
from ci_doctor.scaffold.scaffold_facts import ScaffoldFacts

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
    """The retry and soft-fail rules, as `ci-doctor pipeline retry-rules` prints them."""
    rules = rules_for(codes).yaml.rstrip("\n").split("\n")
    # The head is about the command that prints it.
    return [f"    {line}" for line in rules if not line.startswith("#")]
