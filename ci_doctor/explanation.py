# SPDX-License-Identifier: Apache-2.0
"""What a rule, a verdict or an exit code means, and what to do. Pure."""

from collections.abc import Sequence

from ci_doctor.catalogue import all_rules
from ci_doctor.diagnosis.import_race import import_race_sign, is_import_race
from ci_doctor.errors import UsageError
from ci_doctor.imports import rules as imports
from ci_doctor.model.facts.explain import ExplainFacts
from ci_doctor.model.meaning import Meaning
from ci_doctor.model.meanings import EXIT_CODES, VERDICTS
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.suggestion import nearest
from ci_doctor.model.table import text_table

_NOTHING = "Nothing."


def explain(word: str) -> Outcome:
    """The meaning of `word` as an Outcome without a verdict.

    It is a rule, a verdict, an exit code, a group of rules, or the error of an import. Raises
    UsageError for other words.
    """
    meaning, remedy = _look_up(word)
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning}",
        tables=(text_table("What to do", (remedy,)),),
        facts=ExplainFacts(meaning=meaning, remedy=remedy),
    )


def _with_probe(error: str, remedy: str) -> str:
    """`remedy`, with the names that the text of an error holds in its first command."""
    sign = import_race_sign([error])
    if sign is None or sign.name is None:
        return remedy
    return remedy.replace("Y:X", f"{sign.module}:{sign.name}")


def explained_words() -> list[str]:
    """Every word that `explain` knows."""
    codes = [str(int(code)) for code in EXIT_CODES]
    return [*sorted(all_rules()), *(verdict.value for verdict in VERDICTS), *codes]


def _look_up(word: str) -> tuple[str, str]:
    rules = all_rules()
    rule = rules.get(word)
    if rule is not None:
        return rule.meaning, rule.remedy or _NOTHING
    words = _verdicts_and_codes()
    if word in words:
        return words[word].meaning, words[word].remedy
    if is_import_race(word):
        return imports.ABOUT.meaning, _with_probe(word, imports.ABOUT.remedy)
    family = [rule for rule in rules if rule.startswith(f"{word}/")]
    if family:
        listed = ", ".join(f"`{rule}`" for rule in family)
        return f"a group of rules: {listed}.", f"`ci-doctor explain {family[0]}`, and so on."
    raise UsageError(f"nothing is called `{word}`", hint=_hint(word, (*rules, *words)))


def _verdicts_and_codes() -> dict[str, Meaning]:
    words: dict[str, Meaning] = {}
    for verdict, meaning in VERDICTS.items():
        words[verdict.value] = meaning
    for code, meaning in EXIT_CODES.items():
        words[str(int(code))] = meaning
    return words


def _hint(word: str, known: Sequence[str]) -> str:
    # Not `did_you_mean`: without a near one it lists all names, which are too many here.
    near = nearest(word, known)
    if near is not None:
        return f"did you mean `{near}`?"
    if word.isdigit():
        codes = ", ".join(str(int(code)) for code in EXIT_CODES)
        return f"ci-doctor ends with one of {codes}, or with the status of your own command"
    return "see docs/findings.md and docs/exit-codes.md"
