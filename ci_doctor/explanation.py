# SPDX-License-Identifier: Apache-2.0
"""Reads all rooms' rules and the glossary: what a rule, a verdict, an exit code, a word or an error message means."""

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
from msgspec import Struct

from ci_doctor import finished_job
from ci_doctor.build import findings as build
from ci_doctor.caches import outcomes as caches
from ci_doctor.compat import breaks as compat
from ci_doctor.correctness import rules as correctness
from ci_doctor.decodable import decodable
from ci_doctor.diagnosis import rules as diagnosis
from ci_doctor.diagnosis.explained import explain_log_rule, explain_text, log_rule_ids
from ci_doctor.environment import rules as environment
from ci_doctor.errors import UsageError
from ci_doctor.history import outcomes as history
from ci_doctor.imports import hazards as imports
from ci_doctor.lint.lint_rule import Example
from ci_doctor.model.facts.preparing import ExplainFacts
from ci_doctor.model.outcome import (
    EXIT_CODE_MEANINGS,
    VERDICTS,
    Meaning,
    Outcome,
    Rule,
    Table,
    text_table,
)
from ci_doctor.model.words import near_names
from ci_doctor.preload import injection, install, trial, verify
from ci_doctor.pytest_runs import explanation as kinds
from ci_doctor.pytest_runs import findings as pytest_runs
from ci_doctor.restart import rules as restart
from ci_doctor.services import findings as services
from ci_doctor.services.findings import import_race_sign, is_import_race
from ci_doctor.session import delivery as session
from ci_doctor.system.processes.process import describe_exit, describe_status
from ci_doctor.watch import report as watch

# A new room adds its line here.
_ROOMS: tuple[tuple[Rule, ...], ...] = (
    environment.RULES,
    trial.RULES,
    install.RULES,
    injection.RULES,
    verify.RULES,
    services.RULES,
    watch.RULES,
    restart.RULES,
    correctness.RULES,
    imports.RULES,
    pytest_runs.RULES,
    kinds.RULES,
    diagnosis.RULES,
    finished_job.RULES,
    build.RULES,
    history.RULES,
    caches.RULES,
    compat.RULES,
    session.RULES,
)


def all_rules() -> dict[str, Rule]:
    """Every rule that a finding may name, by id, in the order of the rooms."""
    # A hundred small modules: whoever asks for an exit code need not wait for them.
    from ci_doctor.checks.all_checks import all_rules as rules_of_checks
    from ci_doctor.lint.lint_run import rules_for_catalogue

    rules: dict[str, Rule] = {}
    for room in (_ROOMS[0], rules_of_checks(), *_ROOMS[1:], rules_for_catalogue()):
        for rule in room:
            rules[rule.id] = rule
    return rules


# --- what a rule, a verdict, an exit code, a word or an error message means, and what to do ---


_NOTHING = "Nothing."


class Word(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A word of the glossary. `text`, `more` and `picture` are Markdown, with links relative to docs/."""

    word: str
    text: str
    more: str = ""
    picture: str = ""

    @property
    def plain(self) -> str:
        """The text without links: who has installed ci-doctor does not have the pages."""
        return " ".join(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", self.text).split())


class WordSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words of one subject, under a title."""

    title: str
    words: tuple[Word, ...]
    picture: str = ""


@cache
def glossary() -> tuple[WordSection, ...]:
    """The words of the glossary, by subject."""
    text = resources.files("ci_doctor").joinpath("glossary.toml").read_text("utf-8")
    sections: tuple[WordSection, ...] = msgspec.convert(
        tomllib.loads(text)["sections"], decodable(tuple[WordSection, ...])
    )
    return sections


def _word(word: str) -> Word | None:
    """The entry of `word`, also in the plural."""
    asked = {word.lower(), word.lower().removesuffix("s")}
    entries = (each for section in glossary() for each in section.words)
    return next((each for each in entries if each.word.lower() in asked), None)


def explain(word: str, own_rules: Callable[[], tuple[Path, ...]] = tuple) -> Outcome:
    """The meaning of `word` as an Outcome without a verdict.

    It is a rule, a verdict, an exit code, a word of the glossary, a group of rules, or an error
    message of one line or several. `own_rules` gives the repository's rules files; it is called only if they are needed.
    Raises UsageError for other words, ConfigError if such a file has a mistake.
    """
    meaning = _meaning(word)
    entry = _word(word)
    if meaning is None and entry is not None:
        return Outcome(
            verdict=None,
            summary=f"{entry.word}: {entry.plain}",
            facts=ExplainFacts(meaning=entry.plain, remedy=""),
        )
    if meaning is None:
        own = own_rules()
        outcome = explain_log_rule(word, own) or explain_text(word, own)
        if outcome is not None:
            return outcome
        raise _unknown(word, log_rule_ids(own))
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning.meaning}",
        tables=(
            text_table("What to do", (meaning.remedy,)),
            # `pass` is two things.
            *([text_table("In an experiment", (entry.plain,))] if entry is not None else ()),
            *_details(word),
        ),
        facts=ExplainFacts(meaning=meaning.meaning, remedy=meaning.remedy),
    )


def _details(word: str) -> tuple[Table, ...]:
    """The first example that a rule of lint reports, and the first that it does not; every kind of flaky test."""
    from ci_doctor.lint.lint_run import FAMILIES, rules_of

    if word == kinds.KIND.id:
        lines = (f"{kind}: {text.meaning} {text.mend}" for kind, text in kinds.MEANINGS.items())
        return (text_table("Kinds", tuple(lines)),)
    family = word.partition("/")[0]
    for rule in rules_of(family) if family in FAMILIES else ():
        if rule.id == word:
            return (*_listing("Reported", rule.bad[0]), *_listing("Not reported", rule.good[0]))
    return ()


def _listing(title: str, files: tuple[Example, ...]) -> Iterator[Table]:
    for file in files:
        # A carriage return is what some of them are about.
        text = file.text.rstrip("\n").replace("\r", "␍")
        yield text_table(f"{title}: {file.file}", tuple(text.split("\n")))


def _with_probe(error: str, remedy: str) -> str:
    """`remedy`, with the names that the text of an error holds in its first command."""
    sign = import_race_sign(error.splitlines())
    if sign is None or sign.name is None:
        return remedy
    return remedy.replace("Y:X", f"{sign.module}:{sign.name}")


_TOO_MANY = (
    "If the server lives and answers other requests, too many came at once for its queue: try `--concurrency 4`, "
    "or let it queue more connections (`request_queue_size`, `--backlog`). If one request always ends so, look at "
    "the server's log: it fails at that request."
)

# The names of httpx for what became of a connection.
_CONNECTIONS = {
    "ReadError": Meaning("the server reset the connection before its answer was whole.", _TOO_MANY),
    "WriteError": Meaning(
        "the server reset the connection before the request was sent.", _TOO_MANY
    ),
    "RemoteProtocolError": Meaning(
        "the server closed the connection without a whole answer, or sent what is no HTTP.",
        _TOO_MANY,
    ),
    "ConnectError": Meaning(
        "no connection to the server could be made: nobody listens at the address, or its queue is full.",
        f"Look whether the server still runs and which port it has. {_TOO_MANY}",
    ),
    "ConnectTimeout": Meaning(
        "no connection to the server could be made in time.",
        f"Look whether the server still runs and which address it has. {_TOO_MANY}",
    ),
    "ReadTimeout": Meaning(
        "the server sent nothing for too long.",
        "Look at the server's log whether it hangs, or give it more time or fewer requests at once.",
    ),
    "PoolTimeout": Meaning(
        "the client had too many requests under way, and no connection of its pool became free in time.",
        "Send fewer requests at once, or raise the client's limit of connections (`httpx.Limits`). The server "
        "has never had this request.",
    ),
}

# As a report has it: `chat-05: ReadError`, `ReadError (2 tries)`.
_CONNECTION = re.compile(rf"(?:[^\s:]+: )?({'|'.join(_CONNECTIONS)})(?:: .*| \(\d+ tries\))?")


def _meaning(word: str) -> Meaning | None:
    words = _verdicts_and_codes()
    if word in words:
        return words[word]
    status = _of_status(word)
    if status is not None:
        return status
    rules = all_rules()
    rule = rules.get(word)
    if rule is not None:
        return Meaning(rule.meaning, rule.remedy or _NOTHING)
    connection = _CONNECTION.fullmatch(word)
    if connection is not None:
        return _CONNECTIONS[connection[1]]
    if is_import_race(word):
        return Meaning(imports.ABOUT.meaning, _with_probe(word, imports.ABOUT.remedy))
    return _of_family(word, list(rules))


def _of_status(word: str) -> Meaning | None:
    """What shells and timeout(1) mean by the exit status `word`; None if it is none, or means nothing."""
    if re.fullmatch(r"[1-9]\d{2}", word) is None:
        return None
    described = describe_status(int(word))
    if described == describe_exit(int(word)):
        return None
    remedy = (
        f"`ci-doctor diagnose LOG --status {word}` looks in the command's log for why it ended so."
    )
    return Meaning(f"{described}, the status of a command of yours.", remedy)


def _of_family(word: str, rules: Sequence[str]) -> Meaning | None:
    family = [rule for rule in rules if rule.startswith(f"{word}/")]
    if not family:
        return None
    listed = ", ".join(f"`{rule}`" for rule in family)
    return Meaning(f"a group of rules: {listed}.", f"`ci-doctor explain {family[0]}`, and so on.")


def _verdicts_and_codes() -> dict[str, Meaning]:
    codes = {str(int(code)): meaning for code, meaning in EXIT_CODE_MEANINGS.items()}
    return {verdict.value: meaning for verdict, meaning in VERDICTS.items()} | codes


def _unknown(word: str, log_rules: Sequence[str]) -> UsageError:
    # Words with spaces are a message, and no name that somebody mistyped.
    if len(word.split()) > 1:
        return UsageError(
            "no rule recognises this message",
            hint="`ci-doctor diagnose LOG` reads the whole log; `ci-doctor diagnose rules` lists "
            "the rules",
        )
    words = [each.word.lower() for section in glossary() for each in section.words]
    known = (*all_rules(), *_verdicts_and_codes(), *log_rules, *words)
    return UsageError(f"nothing is called `{word}`", hint=_hint(word, known))


def _hint(word: str, known: Sequence[str]) -> str:
    # Not `did_you_mean`: without a near one it lists all names, which are too many here.
    near = near_names(word, known)
    if near:
        return f"did you mean {' or '.join(f'`{name}`' for name in near)}?"
    if word.isdigit():
        codes = ", ".join(str(int(code)) for code in EXIT_CODE_MEANINGS)
        return f"ci-doctor ends with one of {codes}, or with the status of your own command"
    return (
        "`ci-doctor diagnose rules` lists the rules about log lines; a report names the others, its "
        "verdict and its exit code"
    )
