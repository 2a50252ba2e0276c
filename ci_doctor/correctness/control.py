# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends a request with a changed prompt, whose answer must differ."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ci_doctor.correctness.collect import collect
from ci_doctor.correctness.control_request import (
    ControlRequest,
    control_requests,
    inside_requests,
)
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.tally import Tally
from ci_doctor.correctness.verdict.control import (
    ControlOutcome,
    ControlResult,
    ControlTry,
    control_outcome,
    with_inside,
)
from ci_doctor.load.requests import Request, protocol_of
from ci_doctor.load.sending import Sender

# An answer of so many different words is no label.
_MANY_WORDS = 6


async def send_control(
    sender: Sender,
    requests: Sequence[Request],
    tally: Tally,
    keep: Callable[[Sample], None],
) -> ControlOutcome | None:
    """Send controls to a server that has answered what `tally` holds; one alone if it decides.

    `keep` gets their samples, which belong to no pass. None if the server has answered nothing, or if no
    protocol of `requests` has prompts.
    Raises InfraError as `collect` does.
    """
    if not tally.variety or not any(protocol_of(each).prompted for each in requests):
        return None
    tries = await _until_changed(sender, control_requests(requests, tally.variety), tally, keep)
    outcome = control_outcome(tries)
    if outcome.result is not ControlResult.CHANGED:
        return outcome
    # An answer that several prompts got is a refusal, or a label: a changed prompt may get it, too.
    given = Counter(
        itertools.chain.from_iterable(set(each.values()) for each in tally.tokens.values())
    )
    shared = {each for each, times in given.items() if times > 1}
    alone = [each for each in requests if shared.isdisjoint(tally.tokens.get(each.id, {}).values())]
    for group in inside_requests(alone or requests, tally.variety):
        outcome = with_inside(outcome, await _until_changed(sender, group, tally, keep))
    return outcome


async def _until_changed(
    sender: Sender,
    controls: Iterable[ControlRequest],
    tally: Tally,
    keep: Callable[[Sample], None],
) -> list[ControlTry]:
    """Send controls until one changes the answer."""
    tries: list[ControlTry] = []
    for control in controls:
        tries.append(_judged(control, await _sample(sender, control, tally, keep), tally))
        if tries[-1].same is False:
            break
    return tries


async def _sample(
    sender: Sender, control: ControlRequest, tally: Tally, keep: Callable[[Sample], None]
) -> Sample:
    """The answer to one control, also if it is an error."""
    made: list[Sample] = []
    sample = functools.partial(Sample, arm=tally.arm.value, start=tally.number, pass_=NO_PASS)
    await collect(sender, [control.request], sample, made.append)
    # The prompt stands in no file: a person needs it to look at the answer.
    meta = {**made[0].meta, "body": control.request.body}
    answer = replace(made[0], meta=meta)
    keep(answer)
    return answer


def _judged(control: ControlRequest, answer: Sample, tally: Tally) -> ControlTry:
    if answer.digest is None:
        error = answer.error or "no answer"
        return ControlTry(request=control.original, telling=control.telling, error=error)
    digests, changed = tally.digests, answer.digest
    if control.by_tokens:
        # Numbers alone may differ by noise, whatever the prompt was.
        digests, changed = tally.tokens, answer.tokens_digest or answer.digest
    given: Iterable[str] = digests.get(control.original, {}).values()
    words, _ = tally.variety[control.original]
    if words >= _MANY_WORDS:
        # So long an answer to a prompt that nobody sent before is none of another request.
        given = itertools.chain.from_iterable(each.values() for each in digests.values())
    return ControlTry(request=control.original, telling=control.telling, same=changed in given)
