# SPDX-License-Identifier: Apache-2.0
"""What the answers after a restart must still be, whether or not the same ones are wanted. Pure."""

import math
from collections.abc import Iterator

from ci_doctor.load.looks import FEWEST_PROMPTS
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.restart import rules
from ci_doctor.restart.observed import AnswerComparison, Observation, Phase
from ci_doctor.restart.promise import Promise, State, Terms, broken, kept, untested

# Answers that vary may be the same, or short, by chance: it takes a few requests to rule that out.
_FEWEST_VARYING = 4
_CHANCE = 0.05


def real_answers(observation: Observation) -> Promise:
    """What was an answer before is one after."""
    name = "answers are still answers"
    rule = rules.LOST_ANSWERS
    answers = observation.answers
    if answers.blank_count:
        evidence = [Evidence(excerpt=f"{each.id}, sent in {each.phase}") for each in answers.blank]
        message = f"{answers.blank_count} answers since the kill hold no word"
        return broken(name, rule, f"{message}, to requests that always got words before", *evidence)
    if not observation.counts(Phase.AFTER).ok:
        return untested(name, rule, "nothing was answered after the recovery")
    if not observation.counts(Phase.BASELINE).has_words:
        return untested(name, rule, "no answer held a word before the kill")
    if _are_one(answers):
        message = f"after the restart all {answers.compared} requests get one and the same answer"
        return broken(name, rule, f"{message}, {answers.different_before} different ones before")
    if _are_cut(answers):
        message = f"the answers to all {answers.compared} requests have less than half of"
        return broken(name, rule, f"{message} their length before the kill")
    return kept(name, rule, f"{answers.compared} requests that got words before get words after")


def _is_enough(answers: AnswerComparison, fewest_steady: int) -> bool:
    """Whether there are enough requests to rule chance out."""
    if answers.steady == answers.compared:
        return answers.compared >= fewest_steady
    return answers.compared >= _FEWEST_VARYING


def _are_one(answers: AnswerComparison) -> bool:
    if not _is_enough(answers, 2) or answers.different_after != 1:
        return False
    # Half of the requests: prompts that ask for yes or no have few answers at any time.
    return 2 * answers.different_before >= answers.compared


def _are_cut(answers: AnswerComparison) -> bool:
    return _is_enough(answers, 1) and answers.shorter == answers.compared


def kept_answers(observation: Observation, terms: Terms) -> Promise:
    """A request that got one text in every start before the kill gets it after it."""
    name = "answers survive the restart"
    rule = rules.UNKEPT_ANSWERS
    answers = observation.answers
    if not answers.compared:
        return untested(name, rule, "nothing was answered after the recovery")
    if answers.controls < terms.control_starts:
        made = f"{answers.controls} of {terms.control_starts} control starts were made"
        return untested(name, rule, f"{made}, because the budget was short")
    starts = answers.controls + 1
    if answers.unkept_count and is_beyond_chance(answers):
        evidence = [
            Evidence(excerpt=f"request {each.id}\n  before: {each.before}\n  now:    {each.after}")
            for each in answers.unkept
        ]
        message = (
            f"{answers.unkept_count} of {answers.agreed} requests that got one text in each of "
            f"{starts} starts before the kill got another one in every pass after it"
        )
        return broken(name, rule, message, *evidence)
    why = None
    if answers.unkept_count:
        noise = f"{answers.noisy} requests varied before the kill"
        why = f"{noise}, and {answers.unkept_count} changed by chance or not"
    elif not answers.agreed:
        why = f"no request got one text in {starts} starts"
    if why is not None:
        return untested(name, rule, why)
    return kept(
        name, rule, f"{answers.agreed} requests got one text in {starts} starts, and none lost it"
    )


def is_beyond_chance(answers: AnswerComparison) -> bool:
    """Whether so many unkept answers come by chance in 5 % of the checks at most (Poisson)."""
    below = 0.0
    term = math.exp(-answers.chance)
    for count in range(answers.unkept_count):
        below += term
        term *= answers.chance / (count + 1)
    return 1 - below <= _CHANCE


def same_model(observation: Observation) -> Promise:
    """The answers name no model that they did not name before."""
    name = "it is the same model"
    rule = rules.OTHER_MODEL
    before = observation.answers.models_before
    after = observation.answers.models_after
    if not after:
        return untested(name, rule, "no answer after the recovery names its model")
    others = [model for model in after if model not in before]
    if others:
        message = f"after the restart answers are of {', '.join(others)}"
        return broken(name, rule, f"{message}, and were of {', '.join(before)} before")
    return kept(name, rule, f"answers are of {', '.join(after)}, as before")


def suspicious(observation: Observation, terms: Terms) -> Iterator[Finding]:
    """Warnings about answers that break no promise."""
    answers = observation.answers
    if not answers.requests:
        return
    prompts = min(observation.prompts, answers.requests)
    if answers.different_before == 1 and prompts >= FEWEST_PROMPTS:
        message = (
            f"all {answers.requests} requests, of {prompts} different prompts, got one and the same "
            "answer before the kill"
        )
        yield rules.ONE_ANSWER.finding(message, remedy=rules.ONE_ANSWER.remedy)
    blank = observation.counts(Phase.BASELINE).blank
    if blank:
        sent = observation.counts(Phase.BASELINE).ok
        message = f"{blank} of {sent} answers before the kill hold no word"
        yield rules.BLANK_ANSWERS.finding(message, remedy=rules.BLANK_ANSWERS.remedy)
    if answers.restless:
        message = (
            f"{answers.restless} of {answers.steady} requests that got one text in every pass of the "
            "baseline got another one in a control start, which no kill had preceded"
        )
        yield rules.STARTS_DIFFER.finding(message, remedy=rules.STARTS_DIFFER.remedy)
    is_told = kept_answers(observation, terms).state is State.BROKEN
    if answers.changed and not terms.same_outputs and not is_told:
        message = (
            f"{answers.changed} of {answers.steady} requests that got one text in every pass "
            "before the kill got another one after it"
        )
        yield rules.CHANGED_ANSWERS.finding(message, remedy=rules.CHANGED_ANSWERS.remedy)
