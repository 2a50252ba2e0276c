# SPDX-License-Identifier: Apache-2.0
"""Reads the rules about log lines, and explains one of them or a message that one recognises."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_doctor.diagnosis.diagnosis import load_rules
from ci_doctor.diagnosis.exit_status import retry_policy
from ci_doctor.diagnosis.known_hosts import known_hosts
from ci_doctor.diagnosis.log_rule import LogRule
from ci_doctor.diagnosis.next_command import next_command
from ci_doctor.diagnosis.outside import lies_outside
from ci_doctor.diagnosis.pasted import recognise
from ci_doctor.diagnosis.rules import rule_of
from ci_doctor.model.cause import RetryPolicy, about_retry, title_of
from ci_doctor.model.facts.explain import ExplainFacts
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.table import Table, row, text_table

_MOST_CHARACTERS = 300
_NO_EXPLANATION = "A line that helps to read a log, and is never a cause."


def explain_log_rule(word: str, own: tuple[Path, ...]) -> Outcome | None:
    """What the log rule called `word` means, or the group of that name; None if there is none.

    `own`: the repository's rules files. Raises ConfigError if one has a mistake.
    """
    rules = load_rules(own).rules
    for rule in rules:
        if rule.id == word:
            return _explained(rule, rule.id, "", {})
    family = [rule.id for rule in rules if rule.id.startswith(f"{word}/")]
    if not family:
        return None
    listed = ", ".join(f"`{each}`" for each in family)
    meaning = f"a group of rules about log lines: {listed}."
    remedy = f"`ci-doctor explain {family[0]}`, and so on."
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning}",
        tables=(text_table("What to do", (remedy,)),),
        facts=ExplainFacts(meaning=meaning, remedy=remedy),
    )


def log_rule_ids(own: tuple[Path, ...]) -> tuple[str, ...]:
    """The ids of all rules about log lines."""
    return tuple(rule.id for rule in load_rules(own).rules)


def explain_text(text: str, own: tuple[Path, ...]) -> Outcome | None:
    """What an error message of one line or several means; None if no rule recognises it."""
    recognised = recognise(text, load_rules(own))
    if recognised is None:
        return None
    message = recognised.message
    return _explained(recognised.rule, message[:_MOST_CHARACTERS], message, recognised.fields)


def _explained(rule: LogRule, subject: str, message: str, fields: Mapping[str, str]) -> Outcome:
    """The Outcome of a rule, about the `subject`; the line `message` has the captures `fields`."""
    command = next_command(rule.next_command, fields)
    remedy = _remedy(rule)
    policy = retry_policy(rule.class_, message)
    # A person who pastes a message asks about a job that ended by it.
    is_proven = policy is RetryPolicy.YES and lies_outside(rule, message, (), known_hosts())
    about = about_retry(policy, is_proven=is_proven)
    retry = None if rule.class_ is None else policy.value
    return Outcome(
        verdict=None,
        summary=f"{subject}: {rule.explanation or _NO_EXPLANATION}",
        tables=tuple(_tables(rule, remedy, about, command)),
        facts=ExplainFacts(
            meaning=rule.explanation or _NO_EXPLANATION,
            remedy=remedy,
            rule=rule.id,
            failure_class=None if rule.class_ is None else rule.class_.value,
            retry=retry,
            next_command=command,
        ),
    )


def _remedy(rule: LogRule) -> str:
    if rule.remedy:
        return rule.remedy
    if rule.class_ is None:
        return "Nothing."
    return rule_of(rule.class_).remedy or "Nothing."


def _tables(rule: LogRule, remedy: str, about: str, command: str | None) -> Iterator[Table]:
    lines = [remedy]
    if rule.class_ is not None:
        lines.append(about)
    if command is not None:
        lines.append(f"`{command}` goes on from here.")
    yield text_table("What to do", tuple(lines))
    rows = [row("rule", rule.id)]
    if rule.class_ is not None:
        rows.append(row("class", f"{title_of(rule.class_)} ({rule.class_.value})"))
    yield Table(title="Recognised by", rows=tuple(rows))
