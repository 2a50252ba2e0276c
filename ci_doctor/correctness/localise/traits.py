# SPDX-License-Identifier: Apache-2.0
"""What the requests of some starts hold, each as the bits of all sends of them. Pure."""

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.correctness.localise.trials import TrialSend, common, words_and_signs
from ci_doctor.load.prompts import (
    PROMPT_KEYS,
    contents_of,
    halved,
    parameters_of,
    prompt_of,
    token_limit,
    user_text,
)
from ci_doctor.load.requests import Request

# Predicates of numbers, of so many requests and words at most: a start tells no more of more.
MOST_NAMES = 48
_MOST_WORDS = 60


_MOST_KEYS = 4
# Answers that begin alike are one; so often they may share a word by chance.
_BEGINNING, _CHANCE = 16, 0.01
_LONGEST_VALUE = 24


# Servers keep what they have read of a prompt in blocks of so many tokens.
_BLOCKS = (8, 16, 32, 64, 128, 256)
_PAGE = 4


_WORD = re.compile(r"\w{3,}")


CHARACTERS = (
    (re.compile(r"[^\x00-\x7f]"), "a character that is not ASCII", 2.5),
    (re.compile(r"[^\x00-\uffff]"), "a character of four bytes (emoji)", 2.6),
    (re.compile(r"\d"), "a digit", 4.5),
    (re.compile(r"\n"), "a new line", 4.5),
    (re.compile(r"[^\w\s]"), "a sign", 4.5),
    (re.compile(r"[A-Z]"), "a capital", 4.5),
)


Lane = Sequence[TrialSend]


class CausePart(Struct, frozen=True):
    """A target or a context: in words, how much it claims (`cost`), and its sends as bits.

    Parts of one `family` differ in a number alone. `trait`: it claims something of what the requests
    hold, and does not just name them. `unsure`: bits of which it says nothing, as a start has no
    exact time. `least` is its number, and `below` the next one that was sent; `numbers` are those of all
    sends, for the words `said`. `both`: two parts that must hold. `lack`: what a copy must lack to be the control (see `Copy`), empty if any copy is one. `needs`: so many
    certain requests, of which each must be there. `beyond`: the sends behind a span of some requests.
    `by_place`: a difference first shows at the end of what it counts, so a shorter answer is equal.
    `is_form`: it is one parameter, a value of one, or a path; there are few of these. Of a context: it is of a parameter.
    """

    family: str
    words: str
    cost: float
    mask: int
    trait: bool = False
    unsure: int = 0
    least: float | None = None
    below: float | None = None
    numbers: Sequence[float] = ()
    said: str = ""
    lack: str = ""
    needs: int = 0
    beyond: int = 0
    by_place: bool = False
    is_form: bool = False
    both: tuple["CausePart", ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a number between the two might be the border."""
        if self.least is None or self.below is None:
            return False
        return abs(self.least - self.below) > 1 or self.least != int(self.least)


class SendTable:
    """All sends of some starts, one start after the other, each with a bit of its own.

    `plain` are the names of requests that are sent as they are, and not as changed copies. `remembered`
    keeps, by the names of a start, what takes long to compute.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        requests: Mapping[str, Request],
        plain: Collection[str],
        remembered: dict[tuple[str, ...], list[Any]],
    ) -> None:
        self.lanes = lanes
        self.remembered = remembered
        self.plain = plain
        self.requests = requests
        self.prompts = {name: _prompt(each) for name, each in requests.items()}
        self.texts = {name: said(each) for name, each in requests.items()}
        self.sends = [send for lane in lanes for send in lane]
        told = {
            self.prompts[each.name]: each.prompt_tokens for each in self.sends if each.prompt_tokens
        }
        # Of each send; of one without usage those of the same prompt, or else 0.
        self.tokens = [
            each.prompt_tokens or told.get(self.prompts[each.name], 0) for each in self.sends
        ]
        self.places = [place for lane in lanes for place in range(len(lane))]
        # The name of each send that differs, the first one first.
        self.wrong_names = list(dict.fromkeys(each.name for each in self.sends if each.wrong))
        self._bits: dict[str, int] = defaultdict(int)
        for place, each in enumerate(self.sends):
            self._bits[each.name] |= 1 << place
        # The bits of each start, and of each block under way together.
        ends = itertools.accumulate(map(len, lanes), initial=0)
        self.lane_bits = [
            ((1 << len(lane)) - 1) << begin for begin, lane in zip(ends, lanes, strict=False)
        ]
        self.together = list(_together(lanes))
        self.later = self.mask(place > 0 for place in self.places)
        self.wrong = self.mask(bool(each.wrong) for each in self.sends)

    def mask(self, holds: Iterable[bool]) -> int:
        """The bits of the sends for which it holds."""
        return int("".join("1" if each else "0" for each in holds)[::-1] or "0", 2)

    def named(self, names: Iterable[str]) -> int:
        """The bits of the sends of these requests."""
        bits = 0
        for name in names:
            bits |= self._bits.get(name, 0)
        return bits


# What a copy lacks whose prompt begins with more signs.
PLACE = "its place"
# So many tokens later than where it begins, or earlier, a difference may show.
_PLACE = 2
# What a copy lacks whose chat ends before the last message.
LAST_MESSAGE = "its last message"
# What a copy lacks that holds the texts of a prompt, and no pictures.
IN_PARTS = "its parts"
# What a copy lacks whose first character is another.
BEGINNING = "its beginning"
# Nothing that a person writes; so what continues a chat begins with it.
_ROLES = {"system": "\x01", "developer": "\x01", "user": "\x02", "assistant": "\x03"}
MARKS = frozenset("\x01\x02\x03\x04")


def _prompt(request: Request) -> str:
    """The prompt as a text to compare; of a chat each message with a sign of its role."""
    messages = request.body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return prompt_of(request)
    return "".join(
        f"{_ROLES.get(each.get('role', ''), chr(4))}{each.get('content')}" for each in messages
    )


def said(request: Request) -> str:
    """What a prompt holds, without the form of its API."""
    contents = contents_of(request)
    if contents and all(isinstance(each, str) for each in contents):
        return " ".join(map(str, contents))
    return prompt_of(request)


def _together(lanes: Sequence[Lane]) -> Iterator[int]:
    """The bits of each group of sends that were under way at once."""
    place = 0
    for lane in lanes:
        for _, group in itertools.groupby(lane, key=lambda each: each.block):
            block = list(group)
            if block[0].at_once > 1:
                yield ((1 << len(block)) - 1) << place
            place += len(block)


def places_in(bits: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def number(value: float) -> str:
    """A number in words: 2147483648, 0.7."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def thresholds(values: Sequence[float], family: str, text: str, cost: float) -> Iterator[CausePart]:
    """A part for each value that some send reaches and another does not; `{}` of the text is the value."""
    bits: dict[float, int] = defaultdict(int)
    for place, value in enumerate(values):
        bits[value] |= 1 << place
    mask = (1 << len(values)) - 1
    values = tuple(values)
    for below, value in itertools.pairwise(sorted(bits)):
        mask &= ~bits[below]
        words = text.format(number(abs(value)))
        part = CausePart(family, words, cost, mask)
        if words != text:
            part = replace(part, least=abs(value), below=abs(below), numbers=values, said=text)
        yield part


def targets(table: SendTable, names: Sequence[str]) -> list[CausePart]:
    """Which requests may be meant: all, those of one kind, or some of the `names`."""
    traits = [*_of_bodies(table), *_of_prompts(table, names[:MOST_NAMES])]
    traits += [*_of_answers(table), *_of_messages(table), *_of_paths(table), *_of_forms(table)]
    every = CausePart("any", "any request", 0, table.mask(True for _ in table.sends))
    named = _named_ones(table, names[:MOST_NAMES])
    return [every, *named, *(replace(each, trait=True) for each in traits)]


def _of_answers(table: SendTable) -> Iterator[CausePart]:
    lengths = [each.answer_tokens for each in table.sends]
    yield from thresholds(lengths, "answer", "requests with {} tokens of answer or more", 4.5)
    for finish in sorted({each.finish for each in table.sends} - {""}):
        text = f"requests whose answers end with finish_reason {finish}"
        mask = table.mask(each.finish == finish for each in table.sends)
        yield CausePart(f"finish {finish}", text, 4.1, mask)
    ended = table.mask(each.finish not in {"", "length"} for each in table.sends)
    text = "requests whose answers end before their token limit"
    yield CausePart("finish ended", text, 4.05, ended)
    yield from _of_said(table)


def _of_said(table: SendTable) -> Iterator[CausePart]:
    """What all answers that differ say up to there, if so many answers share nothing by chance."""
    wrong = {each.said for each in table.sends if each.wrong and each.is_text}
    equal = {each.said for each in table.sends if each.wrong is False and each.is_text}
    begins = {text[:_BEGINNING] for text in wrong}
    others = {text[:_BEGINNING] for text in equal} - begins
    said = [set(words_and_signs(text)) for text in wrong]
    # Each word is one more that all may share by chance.
    tried = max(map(len, said), default=0)
    partings = math.comb(len(begins) + len(others), len(begins))
    if tried > _CHANCE * partings:
        return
    for text in sorted(_in_all(said)):
        mask = table.mask(text in words_and_signs(each.said) for each in table.sends)
        yield CausePart(f"says {text}", f"requests whose answers hold `{text}`", 4.4, mask)
    for pattern, kind, cost in CHARACTERS:
        mask = table.mask(bool(pattern.search(each.said)) for each in table.sends)
        yield CausePart(f"says {kind}", f"requests whose answers hold {kind}", max(cost, 4.4), mask)


def _of_messages(table: SendTable) -> Iterator[CausePart]:
    counts = [len(table.requests[each.name].body.get("messages", ())) for each in table.sends]
    yield from thresholds(counts, "messages", "chats of {} messages or more", 3.6)
    roles = {name: _roles_of(each) for name, each in table.requests.items()}
    for role in sorted({each for some in roles.values() for each in some}):
        mask = table.named(name for name, some in roles.items() if role in some)
        lack = f"a message of the role {role}"
        yield CausePart(f"role {role}", f"chats with {lack}", 3.1, mask, lack=lack)
    last = {name: _last_role(each) for name, each in table.requests.items()}
    for role in sorted({*last.values()} - {""}):
        mask = table.named(name for name, each in last.items() if each == role)
        text = f"chats whose last message is of the role {role}"
        yield CausePart(f"last role {role}", text, 3.2, mask, lack=LAST_MESSAGE)


# What a prompt is that is no text, and what a copy lacks that is one.
_FORMS = {
    "chats with a message in parts": IN_PARTS,
    "prompts of token ids": "",
    "requests with several prompts": "",
}


def _of_forms(table: SendTable) -> Iterator[CausePart]:
    form_of = {name: _form_of(each) for name, each in table.requests.items()}
    for form, lack in _FORMS.items():
        if form in form_of.values():
            mask = table.named(name for name, each in form_of.items() if each == form)
            yield CausePart(f"form {form}", form, 3, mask, lack=lack, is_form=True)


def _form_of(request: Request) -> str:
    """The one of `_FORMS`; empty for a text, or messages of one text each."""
    in_parts, of_tokens, several = _FORMS
    messages, prompt = request.body.get("messages"), request.body.get("prompt")
    if isinstance(messages, list):
        contents = [each.get("content") for each in messages if isinstance(each, dict)]
        return in_parts if any(isinstance(each, list) for each in contents) else ""
    if not isinstance(prompt, list) or not prompt:
        return ""
    return of_tokens if type(prompt[0]) is int else several


def _last_role(request: Request) -> str:
    messages = request.body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return str(last.get("role")) if isinstance(last, dict) else ""


def _of_paths(table: SendTable) -> Iterator[CausePart]:
    paths = sorted({each.path for each in table.requests.values()})
    if len(paths) < 2:
        return
    for path in paths:
        mask = table.named(name for name, each in table.requests.items() if each.path == path)
        words = _PATHS.get(path, f"requests to {path}")
        yield CausePart(f"path {path}", words, 3, mask, is_form=True)


def _roles_of(request: Request) -> set[str]:
    messages = request.body.get("messages")
    some = messages if isinstance(messages, list) else []
    return {str(each.get("role")) for each in some if isinstance(each, dict)}


_PATHS = {"/v1/chat/completions": "chats", "/v1/completions": "completions"}


def _named_ones(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    """Each of these requests, and all of them that the run sent: by their prompts, and by their bodies."""
    plain = [name for name in names if name in table.plain]
    bodies = {name: each.body for name, each in table.requests.items()}
    ways: tuple[tuple[Mapping[str, object], str, str, str, str, float], ...] = (
        (table.prompts, "prompt of", "the prompt of", "some", "the prompts of", 4),
        (bodies, "all of", "the prompt and the parameters of", "some bodies", "the requests", 5),
    )
    for values, family, what, family_of_some, some, cost in ways:
        named: list[tuple[Sequence[str], str, str, float]] = [
            ([name], f"{family} {name}", f"requests with {what} {name}", cost) for name in names
        ]
        if len(plain) > 1:
            text = f"{some} {', '.join(plain)}"
            named.append((plain, family_of_some, text, 4 + cost / 2 + len(plain)))
        for owners, kind, words, price in named:
            meant = [values[name] for name in owners]
            mask = table.named(name for name, value in values.items() if value in meant)
            yield CausePart(kind, words, price, mask)


def _of_prompts(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    yield from _of_lengths(table)
    yield from _of_totals(table)
    yield from _of_edges(table)
    texts = table.texts
    for pattern, kind, cost in CHARACTERS:
        mask = table.named(each for each, text in texts.items() if pattern.search(text))
        yield CausePart(kind, f"prompts with {kind}", cost, mask, lack=kind)
    yield from _of_beginnings(table, names)
    for end in sorted({texts[name][-1:] for name in names} - {""}):
        mask = table.named(each for each, text in texts.items() if text.endswith(end))
        yield CausePart(f"ends with {end}", f"prompts that end with `{end}`", 4.3, mask)
    yield from _of_signs_and_words(table, names)


def _of_lengths(table: SendTable) -> Iterator[CausePart]:
    lengths = [_length(table.requests[each.name]) for each in table.sends]
    yield from thresholds(lengths, "long", "prompts of {} characters or more", 3)
    shorter = [-each for each in lengths]
    yield from thresholds(shorter, "short", "prompts of {} characters or fewer", 3.5)
    tokens = table.tokens
    if all(tokens):
        yield from thresholds(tokens, "many", "prompts of {} tokens or more", 3)
        fewer = [-each for each in tokens]
        yield from thresholds(fewer, "few", "prompts of {} tokens or fewer", 3.5)
    for unit, sizes in (("tokens", tokens), ("characters", lengths)):
        wrong = {size for size, each in zip(sizes, table.sends, strict=True) if each.wrong}
        for block in (_PAGE, *_BLOCKS):
            mask = table.mask(size > 0 and size % block == 0 for size in sizes)
            text = f"prompts of a multiple of {block} {unit}"
            yield CausePart(f"{unit} in blocks", text, 3.8, mask)
            text = f"prompts of no multiple of {block} {unit}"
            yield CausePart(
                f"{unit} out of blocks", text, 4.3, table.mask(size > 0 for size in sizes) & ~mask
            )
            # The last block of a prompt holds as many in all that differ.
            for rest in {size % block for size in wrong} - {0} if block > _PAGE else ():
                if all(size > block and size % block == rest for size in wrong):
                    mask = table.mask(size > block and size % block == rest for size in sizes)
                    text = f"prompts of {rest} more than a multiple of {block} {unit}"
                    yield CausePart(f"{unit} behind blocks", text, 4.2, mask)
        if len(wrong) == 1 and 0 not in wrong:
            (size,) = wrong
            mask = table.mask(each == size for each in sizes)
            yield CausePart(unit, f"prompts of {size} {unit}", 4.4, mask)


def _of_totals(table: SendTable) -> Iterator[CausePart]:
    """Prompt and answer in one: as much as the request allows, or as much as the baseline has answered."""
    if not all(table.tokens):
        return
    limit_of = {name: token_limit(each) for name, each in table.requests.items()}
    limits = [limit_of[each.name] for each in table.sends]
    # What the server allows without a limit nobody knows.
    open_ = table.mask(limit is None for limit in limits)
    allowed = [
        size + limit if limit else -1 for size, limit in zip(table.tokens, limits, strict=True)
    ]
    text = "requests whose prompt and token limit come to {} or more"
    yield from (replace(each, unsure=open_) for each in thresholds(allowed, "allowed", text, 3.9))
    # Of several choices each has a length of its own.
    lengths = [round(each.length) or each.answer_tokens for each in table.sends]
    both = [size + length for size, length in zip(table.tokens, lengths, strict=True)]
    wrong = [at for at, each in enumerate(table.sends) if each.wrong]
    if not wrong or not all(each.answer_tokens for each in table.sends if each.wrong is not None):
        return
    place = min(table.tokens[at] + table.sends[at].place for at in wrong)
    text = "requests whose prompt and answer come to {} tokens or more"
    for part in thresholds(both, "total", text, 3.7):
        # The difference shows at the border, not before it.
        if part.least is not None and part.below is not None and place >= part.below - _PLACE:
            yield replace(part, by_place=True)
    for block in _BLOCKS:
        over = [(table.tokens[at] + table.sends[at].place + _PLACE) % block for at in wrong]
        if max(over) <= 2 * _PLACE:
            mask = table.mask(
                size // block < whole // block
                for size, whole in zip(table.tokens, both, strict=True)
            )
            text = f"requests whose prompt and answer pass a multiple of {block} tokens"
            yield CausePart("passing", text, 4.1, mask, by_place=True)
    most, least = max(table.tokens[at] for at in wrong), min(both[at] for at in wrong)
    inside = [
        size <= most and whole >= least for size, whole in zip(table.tokens, both, strict=True)
    ]
    ended = [each for each, is_in in zip(both, inside, strict=True) if not is_in and each < least]
    below = max(ended, default=most)
    if most < least and place >= below - _PLACE:
        text = f"prompts of {most} tokens or fewer that with their answers come to {least} or more"
        yield CausePart("crossing", text, 4.4, table.mask(inside), by_place=True)


def _of_edges(table: SendTable) -> Iterator[CausePart]:
    """A character of several bytes on both sides of a multiple of so many bytes."""
    last = {name: user_text(each) for name, each in table.requests.items()}
    for of, texts in (("", table.texts), (" of the last message", last)):
        for block in _BLOCKS:
            some = [name for name, text in texts.items() if _has_edge(text, block)]
            words = f"prompts with a character across byte {block} or a multiple of it{of}"
            yield CausePart(f"edge{of}", words, 4.6, table.named(some), lack=PLACE)


@lru_cache(maxsize=1 << 16)
def _has_edge(text: str, block: int) -> bool:
    end = 0
    for sign in text if not text.isascii() else "":
        begin, end = end, end + len(sign.encode("utf-8", "surrogatepass"))
        if begin // block < (end - 1) // block:
            return True
    return False


def _of_signs_and_words(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    """A fault of a word, or of a sign, shows in all that differ."""
    texts = table.texts
    if not names:
        return
    shared_signs = _in_all([set(texts[name]) for name in names])
    for sign in sorted(shared_signs):
        if not sign.isalpha() and not sign.isspace():
            yield _with_text(table, sign, "sign", 4.4)
    words = sorted(set(_WORD.findall(texts[names[0]])))
    shared_words = [word for word in words if all(word in texts[name] for name in names)]
    for word in shared_words[:_MOST_WORDS]:
        yield _with_text(table, word, "word", 4.5)


def _with_text(table: SendTable, part: str, kind: str, cost: float) -> CausePart:
    mask = table.named(name for name, text in table.texts.items() if part in text)
    return CausePart(f"{kind} {part}", f"prompts with `{part}`", cost, mask, lack=part)


def _of_beginnings(table: SendTable, names: Sequence[str]) -> Iterator[CausePart]:
    """The beginnings that all these requests share; one in words is that of a request of the run."""
    prompts = table.prompts
    owner = next((each for each in names if each in table.plain), None)
    if owner is None:
        return
    most = min(common(prompts[owner], prompts[each]) for each in names)
    sizes = {
        *halved(most, 8),
        8,
        16,
        32,
        *(common(prompts[owner], each) for each in prompts.values()),
    }
    sizes = {each for each in sizes if 0 < each < len(prompts[owner]) and each <= most}
    lengths = {visible(prompts[owner][:size]): prompts[owner][:size] for size in sorted(sizes)}
    for below, size in itertools.pairwise([0, *sorted(lengths)]):
        begin = lengths[size]
        mask = table.named(each for each, text in prompts.items() if text.startswith(begin))
        text = f"prompts with the first {size} characters of {owner}"
        yield CausePart("beginning", text, 5.5, mask, least=size, below=below, lack=BEGINNING)


def _in_all(sets: Sequence[set[str]]) -> set[str]:
    return set.intersection(*sets) if sets else set()


def _length(request: Request) -> int:
    return sum(map(len, contents_of(request))) or len(prompt_of(request))


def parameters(request: Request) -> dict[str, Any]:
    """What a body says beside the prompt, as texts and numbers."""
    given = {}
    for key, value in parameters_of(request).items():
        # Of a stream it asks for the tokens, which copies do as well.
        if key not in PROMPT_KEYS and key != "stream_options":
            is_plain = isinstance(value, (int, float, str))
            given[key] = value if is_plain else repr(value)
    return given


def _of_bodies(table: SendTable) -> Iterator[CausePart]:
    given = {name: parameters(each) for name, each in table.requests.items()}
    # In the order in which they were sent: of causes that cost as much, the first one is named.
    used = list(dict.fromkeys(each.name for each in table.sends))
    for key in sorted({key for name in used for key in given[name]}):
        has = {name: values[key] for name, values in given.items() if key in values}
        yield CausePart(f"has {key}", f"requests with `{key}`", 3, table.named(has), is_form=True)
        lacking = table.named(given.keys() - has.keys())
        yield CausePart(f"lacks {key}", f"requests without `{key}`", 4, lacking, is_form=True)
        sent = [name for name in used if name in has]
        values = list(dict.fromkeys(has[name] for name in sent))
        for value in values[:MOST_NAMES]:
            owner = next(name for name in sent if has[name] == value)
            text = f"requests with {valued(key, value, owner)}"
            mask = table.named(name for name in has if has[name] == value)
            # A long value is named by one request, and hardly another has it.
            is_form = len(str(value)) <= _LONGEST_VALUE
            yield CausePart(f"{key}={value}", text, 3.5, mask, is_form=is_form)
        yield from _of_numbers(table, key, has, values)
        yield from _of_texts(table, key, has)
        count_of = {name: _count_of(each, key) for name, each in table.requests.items()}
        counts = [count_of[each.name] for each in table.sends]
        yield from thresholds(
            counts, f"count {key}", f"requests with {{}} parts or more in `{key}`", 3.4
        )
    yield from _of_any_key(table, given)


def valued(key: str, value: object, owner: str) -> str:
    """A parameter and its value in words; a long value is that of its `owner`."""
    text = str(value)
    return f"`{key}` {text}" if len(text) <= _LONGEST_VALUE else f"the `{key}` of {owner}"


def _of_texts(table: SendTable, key: str, has: Mapping[str, Any]) -> Iterator[CausePart]:
    """What the texts of a parameter hold: characters of a kind, and one text of several."""
    texts = {name: _texts_in(table.requests[name], key) for name in has}
    for pattern, kind, cost in CHARACTERS:
        some = [name for name, each in texts.items() if any(map(pattern.search, each))]
        yield CausePart(
            f"{key}: {kind}", f"requests with {kind} in `{key}`", cost, table.named(some)
        )
    listed = {text for each in texts.values() if len(each) > 1 for text in each}
    for text in sorted(listed):
        some = [name for name, each in texts.items() if text in each]
        words = f"requests with {text!r} in `{key}`"
        yield CausePart(f"{key} with {text}", words, 3.8, table.named(some))


def _count_of(request: Request, key: str) -> int:
    value = parameters_of(request).get(key)
    return len(value) if isinstance(value, list) else 1


def _texts_in(request: Request, key: str) -> list[str]:
    value = parameters_of(request).get(key)
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def _of_any_key(table: SendTable, given: Mapping[str, Mapping[str, Any]]) -> Iterator[CausePart]:
    """One of several keys: each that requests have which differ, and none that never did."""
    wrong = {name for name in table.wrong_names if name in table.plain}
    plain = [name for name in table.plain if name in given]
    holders = defaultdict(set)
    for name in plain:
        for key in given[name]:
            holders[key].add(name)
    left, keys = set(wrong), []
    while left:
        fit = [key for key, names in holders.items() if names <= wrong and names & left]
        if not fit:
            return
        keys.append(max(sorted(fit), key=lambda key: len(holders[key] & left)))
        left -= holders[keys[-1]]
    if 2 <= len(keys) <= _MOST_KEYS:
        some = [name for name, values in given.items() if values.keys() & set(keys)]
        listed = ", ".join(f"`{key}`" for key in keys[:-1])
        text = f"requests with {listed} or `{keys[-1]}`"
        yield CausePart("any key", text, 4 + len(keys), table.named(some))


def _of_numbers(
    table: SendTable, key: str, has: Mapping[str, Any], values: Sequence[Any]
) -> Iterator[CausePart]:
    """From each number of a parameter on, and up to it; `has` are the values by request."""
    numbers = {name: value for name, value in has.items() if type(value) in {int, float}}
    steps = sorted(each for each in values if type(each) in {int, float})
    sent = tuple(numbers.get(each.name, math.nan) for each in table.sends)
    fewer = tuple(-each for each in sent)
    # The sign is that of the direction: a border among negative numbers is not measured.
    is_plain = min(steps, default=0) >= 0

    def part(text: str, cost: float, mask: int, least: float, below: float) -> CausePart:
        said = f"requests with `{key}` {{}} {text}"
        return CausePart(
            f"{key} {text}", said.format(number(least)), cost, mask, least=least,
            below=below if is_plain else None, said=said if is_plain else "",
            numbers=fewer if text == "or less" else sent,
        )  # fmt: skip

    for lower, upper in itertools.pairwise(steps):
        least = [name for name, value in numbers.items() if value >= upper]
        yield part("or more", 3.2, table.named(least), upper, lower)
        # A server has a default for what is not given.
        lacking = [name for name in table.requests if name not in has]
        many, none = table.named(least), table.named(lacking)
        # Said only if both have differed.
        if many & table.wrong and none & table.wrong:
            yield part("or more or none", 3.6, many | none, upper, lower)
        most = [name for name, value in numbers.items() if value <= lower]
        yield part("or less", 3.2, table.named(most), lower, upper)


def visible(text: str) -> int:
    """The length of a prompt or of its beginning."""
    return len(text) - sum(map(text.count, MARKS))
