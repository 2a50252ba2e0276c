# SPDX-License-Identifier: Apache-2.0
"""Pure. A manual page in section 1 from the documentation of a command."""

from collections.abc import Iterator
from typing import Final

from ci_doctor.commands.manual.command_manual import CommandManual, OptionManual
from ci_doctor.commands.manual.files import files_of
from ci_doctor.commands.manual.roff import argument, bold, escaped, italic, prose
from ci_doctor.commands.manual.variables import variables_of
from ci_doctor.model.shell_line import broken_line

# The first line of each page: a page without it is not ours, and is not replaced.
MARK: Final = '.\\" Made by `ci-doctor man` from the help texts of ci-doctor.'
_SECTION: Final = "1"
# A pager shows 80 columns, of which an example's margin takes 11.
_EXAMPLE: Final = 68


def man_page(manual: CommandManual, version: str) -> str:
    """The page as roff. It holds no date, so that one version of ci-doctor makes one page."""
    return "\n".join(_lines(manual, version)) + "\n"


def _lines(manual: CommandManual, version: str) -> Iterator[str]:
    yield MARK
    title = argument(manual.page.upper())
    yield f'.TH {title} {_SECTION} "" {argument(f"ci-doctor {version}")} "User Commands"'
    yield ".SH NAME"
    yield rf"{escaped(manual.page)} \- {prose(_uncapped(manual.summary))}"
    yield ".SH SYNOPSIS"
    yield f"{bold(' '.join(manual.words))} {' '.join(map(italic, manual.synopsis))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs((manual.summary, *manual.description))
    yield from _commands(manual)
    yield from _options(manual)
    yield from _listed("EXIT STATUS", {str(code): text for code, text in manual.exits.items()})
    yield from _environment(manual)
    yield from _listed("FILES", files_of(manual))
    yield from _examples(manual)
    yield from _see_also(manual)


def _uncapped(summary: str) -> str:
    """As apropos(1) shows it: without a full stop."""
    first = summary.partition(". ")[0].removesuffix(".")
    return first[:1].lower() + first[1:]


def _paragraphs(texts: tuple[str, ...]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield prose(text)


def _commands(manual: CommandManual) -> Iterator[str]:
    pages = {f"{'-'.join(words)}(1)": text for words, text in manual.commands.items()}
    yield from _listed("COMMANDS", pages)


def _options(manual: CommandManual) -> Iterator[str]:
    yield ".SH OPTIONS"
    for group in manual.options:
        yield f".SS {argument(group.heading)}"
        for option in group.options:
            yield ".TP"
            yield _term(option)
            yield prose(_meaning(option))


def _term(option: OptionManual) -> str:
    names = ", ".join(map(bold, option.names))
    return f"{names} {italic(option.value)}" if option.value else names


def _meaning(option: OptionManual) -> str:
    texts = [option.help]
    if option.values is not None and "|" not in (option.value or ""):
        texts.append(f"Value: {option.values}.")
    if option.is_required:
        texts.append("Required.")
    if option.default is not None:
        texts.append(f"Default: {option.default}.")
    if option.variable is not None:
        texts.append(f"Overrides `{option.variable}`.")
    return " ".join(texts)


def _listed(heading: str, rows: dict[str, str]) -> Iterator[str]:
    if not rows:
        return
    yield f".SH {argument(heading)}"
    for term, text in rows.items():
        yield ".TP"
        yield bold(term)
        yield prose(text)


def _environment(manual: CommandManual) -> Iterator[str]:
    command = manual.words[1] if len(manual.words) > 1 else ""
    rows = dict(variables_of(command))
    for group in manual.options:
        for option in group.options:
            if option.variable is not None:
                rows[option.variable] = (
                    f"The key `{option.key}`, which `{option.names[-1]}` overrides."
                )
    yield from _listed("ENVIRONMENT", dict(sorted(rows.items())))


def _examples(manual: CommandManual) -> Iterator[str]:
    if not manual.examples:
        return
    yield ".SH EXAMPLES"
    for number, (line, sentence) in enumerate(manual.examples.items()):
        # Behind a heading a paragraph begins by itself.
        if number:
            yield ".PP"
        yield prose(sentence)
        yield ".RS 4"
        yield ".nf"
        for each in line.split("\n"):
            yield from map(escaped, broken_line(each, _EXAMPLE))
        yield ".fi"
        yield ".RE"


def _see_also(manual: CommandManual) -> Iterator[str]:
    names = {"-".join(words) for words in manual.commands}
    if len(manual.words) > 1:
        # Each page leads one up, and to the first one.
        names |= {"-".join(manual.words[:-1]), manual.words[0]}
    yield ".SH SEE ALSO"
    # mandoc(1) warns of a comma at the end.
    pages = [rf"\fB{escaped(name)}\fR({_SECTION})" for name in sorted(names)]
    yield ",\n".join(pages)
