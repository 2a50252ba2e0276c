# SPDX-License-Identifier: Apache-2.0
"""What a rule, a verdict or an exit code means, and what to do. Pure."""

from ci_doctor.catalogue import all_rules
from ci_doctor.errors import UsageError
from ci_doctor.model.facts.explain import ExplainFacts
from ci_doctor.model.meanings import EXIT_CODES, VERDICTS
from ci_doctor.model.outcome import Outcome
from ci_doctor.model.suggestion import did_you_mean
from ci_doctor.model.table import text_table
from ci_doctor.model.verdict import Verdict

_NOTHING = "Nothing."


def explain(word: str) -> Outcome:
    """The meaning of `word`, judged by nobody. Raises UsageError for a word that is not ours."""
    meaning, remedy = _look_up(word)
    return Outcome(
        verdict=None,
        summary=f"{word}: {meaning}",
        tables=(text_table("What to do", (remedy,)),),
        facts=ExplainFacts(meaning=meaning, remedy=remedy),
    )


def _look_up(word: str) -> tuple[str, str]:
    rules = all_rules()
    codes = {str(int(code)): text for code, text in EXIT_CODES.items()}
    if word in rules:
        return rules[word].meaning, rules[word].remedy or _NOTHING
    if word in set(Verdict):
        return VERDICTS[Verdict(word)].meaning, VERDICTS[Verdict(word)].remedy
    if word in codes:
        return codes[word].meaning, codes[word].remedy
    hint = did_you_mean(word, (*rules, *(verdict.value for verdict in Verdict), *codes))
    is_suggestion = hint is not None and "?" in hint
    raise UsageError(
        f"nothing is called `{word}`",
        hint=hint if is_suggestion else "see docs/findings.md and docs/exit-codes.md",
    )
