# SPDX-License-Identifier: Apache-2.0
"""What an experiment found, each with its evidence and what to do next. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_doctor.correctness.report.differences import TELLING, Difference, divergence_lines
from ci_doctor.correctness.report.hardness import Hardness
from ci_doctor.correctness.results import Experiment, ExperimentEnding
from ci_doctor.correctness.settings import Arm
from ci_doctor.correctness.verdict.compare import explain
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.load.requests import Request
from ci_doctor.model.finding import Evidence, Finding, Severity
from ci_doctor.model.verdict import Verdict

if TYPE_CHECKING:
    from ci_doctor.services.outcome import FailureKind, ServiceFailure

REMEDIES = {
    Verdict.FLAKY: "nothing here speaks against the change; `ci-doctor setup-env --determinism strict` makes starts of the baseline differ less",
    Verdict.NONDETERMINISTIC: "make the baseline steadier with `ci-doctor setup-env --determinism strict`; where it cannot be, "
    "let the step pass with `soft_fail: [{exit_status: 85}]`, since only the requests that repeat themselves are tested",
    Verdict.INCONCLUSIVE: "make more starts: raise `--retries` (and `--budget`)",
    Verdict.VOID: "this proves nothing either way: mend the cause that is named, then run it again",
    Verdict.INFRA: "see the logs of what failed, then run it again on a healthy machine",
}


# The verdicts that differing answers lead to; the others have another reason, whatever the answers.
_ABOUT_ANSWERS = {Verdict.REGRESSION, Verdict.FLAKY, Verdict.INCONCLUSIVE, Verdict.NONDETERMINISTIC}
_SHOWN = 3


class Context(Struct, frozen=True, kw_only=True):
    """What the findings point at: the requests file, the command line that runs one request alone, and the report directory.

    `run` is the directory as a person would type it.
    """

    requests_file: str
    requests: Sequence[Request]
    one_request: str
    run: str = "ci-doctor-report"


def replay_command(difference: Difference, context: Context) -> str:
    """The command line that shows one difference again."""
    pair = difference.pair
    words = [
        "ci-doctor",
        "correctness",
        "replay",
        "--run",
        context.run,
        "--request",
        difference.request,
    ]
    # Archived starts are not in the run's own samples.
    return shlex.join(
        words if pair.archived else [*words, "--starts", f"{pair.first},{pair.second}"]
    )


def findings(
    experiment: Experiment, decision: Decision, found: Sequence[Difference], context: Context
) -> Iterator[Finding]:
    """The verdict's own finding first, then what failed, then what is only worth knowing.

    `found` are all differences, hardest first. A start that the budget cut short is no evidence, but what stood in its
    way is shown.
    """
    if decision.verdict is not Verdict.PASS:
        yield _verdict_finding(decision, found, context)
    yield from _failures(experiment, decision)
    yield from _errors(experiment, context)
    if experiment.ending is ExperimentEnding.BUDGET:
        yield _note(
            "budget-spent",
            "the budget ended before every start was made",
            "raise --budget, or lower --retries",
        )
    yield from _notes(experiment)


def _verdict_finding(decision: Decision, found: Sequence[Difference], context: Context) -> Finding:
    severity = Severity.ERROR if decision.verdict is Verdict.REGRESSION else Severity.WARNING
    lines = {request.id: request.line for request in context.requests}
    # Where the candidate said nothing at all, its end is the story, and not where answers part.
    spoken = [each for each in found if each.divergence.hardness is not Hardness.MISSING]
    # Those that the verdict rests on come first; among them the hardest.
    disputed = set(decision.test.disputed) if decision.test else set()
    first = sorted(found, key=lambda each: each.request not in disputed)
    shown = first[:_SHOWN] if decision.verdict in _ABOUT_ANSWERS and spoken else ()
    evidence = tuple(
        Evidence(
            file=context.requests_file,
            line=lines.get(difference.request),
            excerpt="\n".join(divergence_lines(difference)),
        )
        for difference in shown
    )
    return Finding(
        rule=f"correctness/{decision.verdict}",
        severity=severity,
        summary=_which(decision, found) if shown else decision.reason,
        evidence=evidence,
        remedy=_remedy(decision, shown, context),
    )


def _remedy(decision: Decision, shown: Sequence[Difference], context: Context) -> str:
    """What to do next: a difference that must be looked at has a command, else there is an advice."""
    if decision.verdict is Verdict.REGRESSION:
        return replay_command(shown[0], context) if shown else f"{context.one_request} ID"
    return decision.settle or REMEDIES[decision.verdict]


def _which(decision: Decision, found: Sequence[Difference]) -> str:
    """The requests that differ, the most telling kind first."""
    if decision.verdict is Verdict.NONDETERMINISTIC:
        return decision.reason
    if decision.test:
        disputed = [each.request for each in found if each.request in decision.test.disputed]
        return f"{_few(disputed or decision.test.disputed)}: no candidate start gives an answer of the baseline"
    kind = next((kind for kind in TELLING if decision.count(kind)), found[0].kind)
    return f"{_few([each.request for each in found if each.kind is kind])}: {explain(kind)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def _failures(experiment: Experiment, decision: Decision) -> Iterator[Finding]:
    """The services that failed: the first of each kind in each arm, with how often it happened."""
    seen: dict[tuple[Arm, str, FailureKind, bool], list[tuple[str, ServiceFailure]]] = {}
    for result in experiment.results:
        if failure := result.failure:
            key = (result.start.arm, failure.service, failure.kind, result.cut_short)
            seen.setdefault(key, []).append((result.start.name, failure))
    for (arm, _, kind, cut_short), failures in seen.items():
        to_blame = arm is Arm.CANDIDATE and decision.verdict is Verdict.REGRESSION and not cut_short
        names = ", ".join(name for name, _ in failures) + (
            ", cut short by the budget" if cut_short else ""
        )
        yield Finding(
            rule=f"correctness/service-{kind}",
            severity=Severity.ERROR if to_blame else Severity.WARNING,
            summary=f"{arm} ({names}): {failures[0][1].message}",
            evidence=failures[0][1].evidence(),
        )


def _errors(experiment: Experiment, context: Context) -> Iterator[Finding]:
    """Requests that were not answered, for each start that has some, alike starts together."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for result in experiment.results:
        if result.errors and not result.cut_short:
            groups.setdefault(tuple(sorted(result.errors.items())), []).append(result.start.name)
    lines = {request.id: request.line for request in context.requests}
    for errors, names in groups.items():
        texts = dict(errors)
        yield Finding(
            rule="correctness/unanswered",
            severity=Severity.WARNING,
            summary=f"{len(errors)} of {len(context.requests)} requests were not answered in {', '.join(names)}",
            evidence=tuple(
                Evidence(
                    file=context.requests_file,
                    line=lines.get(identity),
                    excerpt=f"{identity}: {text}",
                )
                for identity, text in _different(texts)
            ),
        )


def _different(errors: Mapping[str, str], most: int = 3) -> list[tuple[str, str]]:
    """At most `most` errors, no text twice."""
    first: dict[str, str] = {}
    for identity, text in errors.items():
        first.setdefault(text, identity)
    return [(identity, text) for text, identity in first.items()][:most]


def _notes(experiment: Experiment) -> Iterator[Finding]:
    throttled = {
        result.start.name: result.throttled for result in experiment.results if result.throttled
    }
    if throttled:
        shown = ", ".join(f"{count} in {name}" for name, count in list(throttled.items())[:3])
        more = f" and {len(throttled) - 3} more starts" if len(throttled) > 3 else ""
        yield _note(
            "throttled",
            f"requests were answered only after HTTP 429: {shown}{more}",
            "lower --concurrency, so that no start is asked in another order than the others",
        )
    empty = [result.start for result in experiment.results if result.start.empty]
    if empty:
        yield _note(
            "empty-answers",
            f"{empty[0].empty} answers of {empty[0].name} hold no text",
            "see samples.jsonl",
        )
    killed = [(result.start.name, name) for result in experiment.results for name in result.killed]
    if killed:
        start, name = killed[0]
        yield _note(
            "killed",
            f"{len(killed)} processes ignored SIGINT and SIGTERM and were killed, the first {name} in {start}",
            "let the server end on SIGTERM, or a real deployment will lose what it holds",
        )


def _note(what: str, summary: str, remedy: str) -> Finding:
    return Finding(
        rule=f"correctness/{what}", severity=Severity.NOTE, summary=summary, remedy=remedy
    )
