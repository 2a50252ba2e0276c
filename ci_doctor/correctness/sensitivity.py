# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: how many answers of a start change if one word of their prompts does.

Equal answers prove little if a wrong word in the context would have changed none of them: nine stale
blocks of ten would pass. So copies of some requests are sent in which one word differs, once where
several prompts have the same beginning (what a prefix cache keeps), and once behind it.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.asking import collect
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample
from ci_doctor.correctness.results import PassDigests, Tally
from ci_doctor.load.prompts import Cut, contents_of, other_letter, with_contents
from ci_doctor.load.requests import Request, protocol_of
from ci_doctor.load.sending import Sender
from ci_doctor.model.facts.correctness import AlteredAnswer, PromptRegion

# The names of altered copies; `control:` is what samples.jsonl has for every request that is no evidence.
_PREFIX = "control:word:"
# vLLM's smallest block has 16 tokens, and a token about four characters. Less is kept by no cache.
_FEWEST_CHARACTERS, _FEWEST_TOKENS = 64, 16
# Of so many copies the 95 % interval of a share is at most 20 points wide.
MOST_COPIES = 100
# Of all requests of a run, so many may be spent on copies.
SHARE_OF_REQUESTS = 0.1
_WORD = re.compile(r"\w+")


class Altered(Struct, frozen=True, kw_only=True):
    """A `request` to send, which is `original` with one other word in a `region` of its prompt."""

    original: str
    region: PromptRegion
    request: Request


def copies_within(requests: int, passes: int, starts: int) -> int:
    """How many copies a run may send that sends its `requests` in so many `passes` of each of its `starts`."""
    return min(MOST_COPIES, math.floor(requests * passes * starts * SHARE_OF_REQUESTS))


def altered_requests(requests: Sequence[Request], most: int) -> list[Altered]:
    """At most `most` copies, evenly over the regions, the requests and the places within a prompt."""
    by_id = {each.id: each for each in requests if protocol_of(each).prompted}
    regions = _regions({name: _flat(each) for name, each in by_id.items()})
    made: list[Altered] = []
    for number, (region, places) in enumerate(regions.items(), 1):
        share = (most - len(made)) // (len(regions) - number + 1)
        chosen = _evenly(list(places), min(share, len(places)))
        for at, name in enumerate(chosen):
            copy = _altered(by_id[name], region, places[name], (at + 0.5) / len(chosen))
            if copy is not None:
                made.append(copy)
    return made


async def measure(
    sender: Sender,
    requests: Sequence[Request],
    tally: Tally,
    keep: Callable[[Sample], None],
    most: int,
) -> tuple[AlteredAnswer, ...]:
    """Send at most `most` copies to a server that has answered what `tally` holds.

    `keep` gets their samples, which belong to no pass. Copies without an answer are left out. Raises
    InfraError as `collect` does.
    """
    answered = [each for each in requests if each.id in tally.digests]
    copies = {each.request.id: each for each in altered_requests(answered, most)}
    samples: list[Sample] = []

    def on_sample(sample: Sample) -> None:
        # The prompt stands in no file: a person needs it to look at the answer.
        body = copies[sample.id].request.body
        samples.append(sample)
        keep(replace(sample, meta={**sample.meta, "body": body}))

    sample = functools.partial(Sample, arm=tally.arm.value, start=tally.number, pass_=NO_PASS)
    await collect(sender, [each.request for each in copies.values()], sample, on_sample)
    by_id = {each.id: each for each in samples if each.digest is not None}
    return tuple(
        _judged(each, by_id[name], tally) for name, each in copies.items() if name in by_id
    )


def _judged(copy: Altered, answer: Sample, tally: Tally) -> AlteredAnswer:
    def differs(digests: PassDigests, own: str | None) -> bool:
        return (own or answer.digest) not in digests[copy.original].values()

    return AlteredAnswer(
        request=copy.original,
        region=copy.region,
        words=differs(tally.words, answer.words_digest),
        tokens=differs(tally.tokens, answer.tokens_digest),
        numbers=differs(tally.digests, answer.digest),
    )


# A region of a prompt: from one place up to another, counted over all of its contents.
_Range = tuple[int, int]


def _regions(prompts: Mapping[str, Cut]) -> dict[PromptRegion, dict[str, _Range]]:
    """The prompts that have each region, by the id of their request; an empty one has none."""
    shared = _shared_lengths(prompts)
    regions: dict[PromptRegion, dict[str, _Range]] = {each: {} for each in PromptRegion}
    for name, prompt in prompts.items():
        fewest = _FEWEST_CHARACTERS if isinstance(prompt, str) else _FEWEST_TOKENS
        length = shared[name] if shared[name] >= fewest else 0
        if length:
            regions[PromptRegion.SHARED][name] = (0, length)
        if length < len(prompt):
            regions[PromptRegion.OWN][name] = (length, len(prompt))
    return {region: places for region, places in regions.items() if places}


def _flat(request: Request) -> Cut:
    """All contents of a prompt behind each other; empty if they cannot be changed."""
    contents = contents_of(request)
    if all(isinstance(each, str) for each in contents):
        return "".join(map(str, contents))
    return contents[0] if len(contents) == 1 else ""


def _shared_lengths(prompts: Mapping[str, Cut]) -> dict[str, int]:
    """How much of each prompt's beginning another prompt has too; equal prompts count as one."""
    lengths = dict.fromkeys(prompts, 0)
    for kind in (str, list):
        own = {name: each for name, each in prompts.items() if isinstance(each, kind)}
        by_prompt: dict[Cut | tuple[int, ...], list[str]] = {}
        for name, each in own.items():
            by_prompt.setdefault(each if isinstance(each, str) else tuple(each), []).append(name)
        ordered = sorted(by_prompt)
        for one, other in itertools.pairwise(ordered):
            length = _common(one, other)
            for name in (*by_prompt[one], *by_prompt[other]):
                lengths[name] = max(lengths[name], length)
    return lengths


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    return next(
        (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )


def _evenly(values: Sequence[str], count: int) -> list[str]:
    return [values[(2 * at + 1) * len(values) // (2 * count)] for at in range(count)]


def _altered(
    request: Request, region: PromptRegion, within: _Range, fraction: float
) -> Altered | None:
    """A copy with another word at this fraction of the region; None if no word of it can be another."""
    places = list(_others(_flat(request), *within))
    if not places:
        return None
    place, other = places[int(fraction * len(places))]

    def change(content: Cut, begin: int) -> Cut:
        at = place - begin
        if not 0 <= at < len(content):
            return content
        if isinstance(content, str):
            return f"{content[:at]}{other}{content[at + 1 :]}"
        return [*content[:at], *map(int, other), *content[at + 1 :]]

    changed = with_contents(request, change)
    copy = replace(changed, id=f"{_PREFIX}{region}:{request.id}")
    return Altered(original=request.id, region=region, request=copy)


def _others(prompt: Cut, begin: int, end: int) -> Iterator[tuple[int, Cut]]:
    """Where words or tokens of a part begin, and the letter or token that each may get there."""
    if isinstance(prompt, str):
        for word in _WORD.finditer(prompt, begin, end):
            letter = other_letter(word[0][0])
            if letter != word[0][0]:
                yield word.start(), letter
        return
    for place in range(begin, end):
        # No other ids than those of the prompt are known to exist.
        other = next((each for each in prompt if each != prompt[place]), None)
        if other is not None:
            yield place, [other]
