# SPDX-License-Identifier: Apache-2.0
"""What a rule, a verdict or an exit code means, and what to do. Pure."""

from typing import TYPE_CHECKING

from ci_doctor.catalogue import all_rules
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.explain import ExplainFacts
from ci_doctor.model.meanings import EXIT_CODES, VERDICTS
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.suggestion import nearest
from ci_doctor.model.table import text_table

if TYPE_CHECKING:
    from ci_doctor.model.meaning import Meaning

_NOTHING = "Nothing."


def explain(word: str) -> Outcome:
    """The meaning of `word` as an Outcome without a verdict. Raises UsageError for other words."""
    meaning, remedy = _look_up(word)
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning}",
        tables=(text_table("What to do", (remedy,)),),
        facts=ExplainFacts(meaning=meaning, remedy=remedy),
    )


def _look_up(word: str) -> tuple[str, str]:
    rules = all_rules()
    rule = rules.get(word)
    if rule is not None:
        return rule.meaning, rule.remedy or _NOTHING
    words: dict[str, Meaning] = {}
    for verdict, meaning in VERDICTS.items():
        words[verdict.value] = meaning
    for code, meaning in EXIT_CODES.items():
        words[str(int(code))] = meaning
    if word in words:
        return words[word].meaning, words[word].remedy
    # Not `did_you_mean`: without a near one it lists all names, which are too many here.
    near = nearest(word, (*rules, *words))
    hint = "see docs/findings.md and docs/exit-codes.md"
    if near is not None:
        hint = f"did you mean `{near}`?"
    elif word.isdigit():
        codes = ", ".join(str(int(code)) for code in EXIT_CODES)
        hint = f"ci-doctor ends with one of {codes}, or with the status of your own command"
    raise UsageError(f"nothing is called `{word}`", hint=hint)
