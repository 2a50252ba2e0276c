# SPDX-License-Identifier: Apache-2.0
"""Pure. The pages of commands and of environment variables, as Markdown."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from ci_doctor.commands.documented import GENERAL, REPORT
from ci_doctor.config.decoding import ExitCodes, variable_name
from ci_doctor.configuration import SETTINGS, key_description
from docs.site import variables
from docs.site.command_manuals import CommandManual, OptionManual, OptionsManual

# The comment that says which blocks of the pages are run (CONTRIBUTING.md).
_NOT_RUN: Final = "<!-- not run: tests/unit/commands/test_documented.py parses each example -->"
_COMMON: Final = (REPORT, GENERAL)
_HEAD: Final = ("| option | meaning | default |", "|---|---|---|")


def commands_page(manuals: Sequence[CommandManual]) -> str:
    """docs/commands.md: every command, its options by group, examples and exit codes."""
    common = _common_options(manuals)
    lines = [
        "# Commands",
        "",
        "Every command with its options, examples and exit codes. `ci-doctor COMMAND --help` prints the same.",
        "",
        "An option overrides the key of [ci-doctor.toml](configuration.md) that stands below it, and the environment variable",
        "of that key ([environment.md](environment.md)).",
        "",
        *_index(manuals),
        "",
        "## Options of many commands",
        "",
        *_HEAD,
        *(_row(each) for each in common),
        "",
        "## Exit codes of every command",
        "",
        *_exits(_usual_exits(manuals)),
        "",
        "[exit-codes.md](exit-codes.md) describes all codes.",
    ]
    for manual in manuals[1:]:
        lines += ["", *_command(manual, common)]
    return "\n".join(lines) + "\n"


def _index(manuals: Sequence[CommandManual]) -> Iterator[str]:
    yield "| | command | what it does |"
    yield "|---|---|---|"
    group = ""
    for manual in manuals[1:]:
        shown = manual.group.lower() if manual.group != group else ""
        group = manual.group
        yield f"| {shown} | [`{_typed(manual)}`](#{_anchor(manual)}) | {_cell(_sentence(manual.summary))} |"


def _common_options(manuals: Sequence[CommandManual]) -> list[OptionManual]:
    """The options that mean the same in every command that has them, once each."""
    by_names: dict[tuple[str, ...], list[OptionManual]] = {}
    for manual in manuals:
        for group in manual.options:
            for each in group.options if group.heading in _COMMON else ():
                by_names.setdefault(each.names, []).append(each)
    many = [alike for alike in by_names.values() if len(alike) > 2]
    return [max(alike, key=alike.count) for alike in many]


def _usual_exits(manuals: Sequence[CommandManual]) -> dict[int, str]:
    return dict(manuals[0].exits)


def _command(manual: CommandManual, common: Sequence[OptionManual]) -> Iterator[str]:
    yield f'## <a id="{_anchor(manual)}"></a>`{_typed(manual)}`'
    yield ""
    yield f"`{' '.join((_typed(manual), *manual.synopsis))}`"
    for paragraph in (manual.summary, *manual.description):
        yield ""
        yield paragraph
    yield from _examples(manual.examples)
    if manual.commands:
        pages = ", ".join(f"[`{words[-1]}`](#{'-'.join(words)})" for words in manual.commands)
        yield ""
        yield f"Commands below it: {pages}."
    yield from _options(manual, common)
    own = {code: text for code, text in manual.exits.items() if code in manual.own_exits}
    if own:
        yield ""
        yield from _exits(own)


def _examples(examples: Mapping[str, str]) -> Iterator[str]:
    if not examples:
        return
    yield ""
    yield _NOT_RUN
    yield "```sh"
    for line, sentence in examples.items():
        yield f"# {sentence}"
        yield from line.split("\n")
    yield "```"


def _options(manual: CommandManual, common: Sequence[OptionManual]) -> Iterator[str]:
    own = [(group, _own(group, common)) for group in manual.options]
    if any(rows for _, rows in own):
        yield ""
        yield from _HEAD
    for group, rows in own:
        if rows:
            yield f"| **{group.heading}** | | |"
            yield from map(_row, rows)
    shared = [each for group in manual.options for each in group.options if each in common]
    if shared:
        names = ", ".join(f"`{each.names[-1]}`" for each in shared)
        yield ""
        yield f"[As other commands](#options-of-many-commands): {names}."


def _own(group: OptionsManual, common: Sequence[OptionManual]) -> list[OptionManual]:
    return [each for each in group.options if each not in common]


def _row(option: OptionManual) -> str:
    names = ", ".join(option.names)
    term = f"{names} {option.value}" if option.value else names
    meaning = [option.help]
    if option.is_required:
        meaning.append("Required.")
    if option.values is not None and "|" not in (option.value or ""):
        meaning.append(f"Value: {option.values}.")
    if option.key is not None:
        meaning.append(f"<br>`{option.key}`, `{option.variable}`")
    return f"| `{_cell(term)}` | {_cell(' '.join(meaning))} | {_cell(option.default or '')} |"


def _exits(exits: Mapping[int, str]) -> Iterator[str]:
    yield "| exit code | meaning |"
    yield "|--:|---|"
    for code, text in exits.items():
        yield f"| {code} | {_cell(text)} |"


def environment_page() -> str:
    """docs/environment.md: every environment variable that ci-doctor reads."""
    lines = [
        "# Environment variables",
        "",
        "Every environment variable that ci-doctor reads.",
        "",
        "## Keys of the configuration",
        "",
        "Each key of [ci-doctor.toml](configuration.md) has a variable `CI_DOCTOR_<SECTION>_<KEY>`. It overrides the file, and an option",
        "overrides it. A list or a table is JSON. An empty variable counts as none.",
        "",
        "| variable | key | default | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | `{key}` | {_cell(default)} | {_cell(meaning)} |"
            for name, (key, default, meaning) in configuration_keys().items()
        ),
        *_switches(),
        *_section("Of the job", "A CI system sets them.", variables.OF_THE_JOB),
        *_section(
            "Of the plugin",
            "The hooks of the [Buildkite plugin](../buildkite_plugins/ci-doctor/README.md) read them.",
            variables.OF_THE_PLUGIN,
        ),
        *_section(
            "Of the machine", "ci-doctor reads them as other programs do.", variables.OF_THE_MACHINE
        ),
        *_section(
            "Of other programs",
            "What is looked at: facts of an identity or of a snapshot, and subjects of checks. The variables that decide results stand "
            "in [setup-env.md](setup-env.md), those of caches in [cache.md](cache.md). An object store reads what its own tools read "
            "(`AWS_…`, `GOOGLE_…`, `AZURE_…`), and requests to a web service go through the proxy of `HTTPS_PROXY`.",
            variables.OF_OTHER_PROGRAMS,
        ),
        *_section(
            "Between processes of ci-doctor",
            "ci-doctor sets them for what it starts. Nobody else needs to. `launch` also sets `CI_DOCTOR_SERVICES_<NAME>_PORT`, `_URL` "
            "and `_LOG` for its client ([launch.md](launch.md)).",
            variables.OWN,
        ),
    ]
    return "\n".join(lines) + "\n"


def _switches() -> Iterator[str]:
    yield from ("", "## Switches", "", "A person or a pipeline sets them.", "")
    yield from ("| variable | meaning | read by |", "|---|---|---|")
    for name, row in variables.SWITCHES.items():
        commands = ", ".join(f"`{each}`" for each in row.commands) or "every command"
        yield f"| `{name}` | {_cell(row.meaning)} | {commands} |"


def _section(title: str, about: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", about, "", "| variable | meaning |", "|---|---|")
    for name, meaning in rows.items():
        yield f"| `{name}` | {_cell(meaning)} |"


def _typed(manual: CommandManual) -> str:
    return " ".join(manual.words)


def _anchor(manual: CommandManual) -> str:
    return manual.page


def _sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def configuration_keys() -> dict[str, tuple[str, str, str]]:
    """By variable: the key, its default as TOML writes it (empty without one), and its meaning."""
    return dict(_configuration_keys())


def _configuration_keys() -> Iterator[tuple[str, tuple[str, str, str]]]:
    sections: dict[str, type[msgspec.Struct]] = {**SETTINGS, "exit-codes": ExitCodes}
    for section, kind in sections.items():
        for field in msgspec.structs.fields(kind):
            meaning = key_description(section, field.encode_name) or ""
            key = f"[{section}] {field.encode_name}"
            name = variable_name(section, field.encode_name)
            yield name, (key, _default(field), meaning)


def _default(field: Any) -> str:
    value = field.default
    if value is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or value is None or value in ((), [], {}):
        return ""
    if isinstance(value, Enum):
        value = value.value
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
