# SPDX-License-Identifier: Apache-2.0
"""What the answers after a restart must still be, whether or not the same ones are wanted. Pure."""

from collections.abc import Iterator

from ci_doctor.load.looks import FEWEST_PROMPTS
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.restart import rules
from ci_doctor.restart.observed import AnswerComparison, Observation, Phase
from ci_doctor.restart.promise import Promise, broken, kept, untested

# Answers that vary may be the same, or short, by chance: it takes a few requests to rule that out.
_FEWEST_VARYING = 4


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


def suspicious(observation: Observation, *, same_outputs: bool) -> Iterator[Finding]:
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
    if answers.changed and not same_outputs:
        message = (
            f"{answers.changed} of {answers.steady} requests that got one text in every pass "
            "before the kill got another one after it"
        )
        yield rules.CHANGED_ANSWERS.finding(message, remedy=rules.CHANGED_ANSWERS.remedy)
