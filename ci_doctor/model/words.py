# SPDX-License-Identifier: Apache-2.0
"""Pure. Words and figures for people: shortened texts, near names, exports as they are evaluated; durations, sizes, moments."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal


def shortened(text: str, most: int) -> str:
    """`text` in at most `most` characters, the last one an ellipsis if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


_SHORTEST = 3  # letters: two short words are always near each other


# What people of the field call the same thing; `ready` is two.
_SAME_THING: Final = """
start startup boot launch ready readiness health serve up spawn
wait ready readiness health until poll
timeout deadline budget time seconds wait
retry rerun attempt repeat try
replay reproduce repro repeat
dir directory folder path place
report result output out
log output stdout
env environment variable var
command cmd exec execute run arg entrypoint
skip exclude ignore deselect omit
only include filter select match
concurrency parallel parallelism job worker thread client
request prompt dataset input question query
baseline base reference ref control before old
candidate change treatment after new
delete remove rm uninstall purge clean clear prune gc
list ls show print status view display info
push upload save store put publish
pull download restore fetch get
diff compare comparison difference
merge combine join aggregate
check verify validate doctor inspect
init scaffold generate create setup configure
kill signal sigkill
stop shutdown teardown terminate
snapshot capture record
update upgrade migrate
write update save
publish annotate comment
diagnose analyze analyse triage debug
explain describe
began bisect blame culprit
localise localize locate bisect
gpu device cuda
service server
python interpreter
memory mem ram vram
throughput rate qps
cwd workdir chdir
since days
patience grace
follow tail watch
venv virtualenv
"""
_PHRASES: Final = {"oom": "out-of-memory"}
# They name no thing of their own: `max_retries`, `requests_file`.
_FILLERS: Final = frozenset({"of", "the", "file", "name", "max", "num", "count", "probe", "no"})
_MOST_NEAR = 6


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """A hint such as "did you mean `retries`?" for a mistyped `word`.

    Without a name that is near, it lists all of them.
    """
    names = sorted(names)
    near = near_names(word, names)
    if near:
        return f"did you mean {' or '.join(f'`{name}`' for name in near)}?"
    return f"known names: {', '.join(names)}" if names else None


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that is most like a mistyped `word`, or None if none is near."""
    return next(iter(near_names(word, names)), None)


def near_names(word: str, names: Iterable[str]) -> list[str]:
    """The names that are most like `word`, at most six; none if none is near.

    The first of these kinds that has any: the one that `word` begins, or that differs in one
    letter; those that say the same in other words (`ready_timeout` is `start_timeout`); the one
    that differs in at most a third of its letters; those of which `word` is a part. A number is
    like no other one: 42 is not a mistyped 2. `word` itself is never among them.
    """
    typed = _bare(word)
    if len(typed) < _SHORTEST or typed.isdigit():
        return []
    letters, meanings, wholes = [], [], []
    parts = _words_of(typed)
    for name in set(names) - {word}:
        known = _bare(name)
        distance = letters_apart(typed, known)
        is_begun = known.startswith(typed)
        if distance <= max(len(typed), len(known)) // 3 or is_begun:
            letters.append((distance > 1 and not is_begun, distance, name))
        others = _words_of(known)
        if parts and len(parts) == len(others) and _mean_the_same(parts, others):
            meanings.append((-len(set(parts) & set(others)), name))
        if parts and set(parts) < set(others):
            wholes.append(name)
    # With the name: of two that are equally near, it is always the same one.
    is_far, _, spelled = min(letters, default=(True, 0, None))
    if meanings and is_far:
        most = min(meanings)[0]
        return sorted(name for count, name in meanings if count == most)[:_MOST_NEAR]
    if spelled is not None:
        return [spelled]
    # A word that is a part of many names is like none of them.
    return sorted(wholes) if len(wholes) <= _MOST_NEAR else []


def _bare(word: str) -> str:
    """A word as it is compared: `--Report_Dir` and `report-dir` are the same."""
    return word.lower().replace("_", "-").strip("-")


def _words_of(name: str) -> list[str]:
    """The words of a name in the singular, without those that say nothing."""
    whole = "-".join(_PHRASES.get(part, part) for part in re.split(r"[-/. ]", name))
    return [_singular(word) for word in whole.split("-") if word and word not in _FILLERS]


def _singular(word: str) -> str:
    return re.sub(r"(?<=[^s])s$", "", re.sub("ies$", "y", word))


@cache
def _groups() -> tuple[frozenset[str], ...]:
    lines = _SAME_THING.strip().split("\n")
    return tuple(frozenset(map(_singular, line.split())) for line in lines)


def _mean_the_same(words: list[str], others: list[str]) -> bool:
    """Whether each word is one of `others`, or another word for one."""
    left = list(others)
    for word in words:
        same = [
            other
            for other in left
            if word == other or any({word, other} <= group for group in _groups())
        ]
        if not same:
            return False
        left.remove(word if word in same else same[0])
    return True


def letters_apart(one: str, other: str) -> int:
    """How many letters to insert, delete, replace or swap with a neighbour (optimal alignment)."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        line = [row]
        for column, known in enumerate(other, start=1):
            cost = min(
                above[column] + 1,
                line[column - 1] + 1,
                above[column - 1] + (letter != known),
            )
            is_swap = (
                row > 1 and column > 1 and letter == other[column - 2] and known == one[row - 2]
            )
            if is_swap:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]


# Always exported, and last: it says that `setup-env` ran for this job. Without it an empty text
# could be the exports of a run with nothing to export.
PREPARED = "CI_DOCTOR_PREPARED"

# How a shell evaluates the exports so that nothing goes on without all of them: neither if Python
# dies before our code runs, nor if what is called `ci-doctor` prints something else, or a part, and
# ends with 0. It holds without `set -e` too; tests/integration/test_evaluation.py tries it in
# real shells. PREPARED is looked for in the text: an earlier step may have set the variable.
EVALUATION: Final = (
    f"exports=$(ci-doctor setup-env) && case $exports in *{PREPARED}=*) "
    'eval "$exports" ;; *) false ;; esac || exit'
)
# In lines of its own: fish joins a list that it evaluates by spaces.
FISH_EVALUATION: Final = (
    "set exports (ci-doctor setup-env --format fish); "
    f"and string match -q '*{PREPARED}*' -- \"$exports\"; "
    "and string join -- \\n $exports | source; or exit"
)


# --- durations, sizes and moments as text, read and written ---


# Every start loads this module: the patterns are compiled where they are used.
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = r"(\d+(?:\.\d*)?|\.\d+)"
_PARTS = "".join(rf"(?:{_PART}\s*{unit})?\s*" for unit in _UNITS)


def parse_duration(value: str | float) -> float:
    """Seconds in `value`: a number, or text such as "90", "400s", "10m", "1.5h", "1h30m", "250ms".

    Units are d, h, m, s and ms, in this order, each at most once. Zero is a duration; the caller
    decides whether it makes sense. Raises ValueError, with a sentence for the user, if `value` is
    neither, negative or not finite.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise ValueError(
            f"not a duration: {value!r}; "
            'write seconds as a number, or text such as "90s", "5m", "1h30m"'
        )
    return seconds


def _seconds(value: str | float) -> float | None:
    """The seconds in `value`; None if it is no duration."""
    if isinstance(value, bool):  # an int to Python
        return None
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if re.fullmatch(_PART, text, re.ASCII):
        return float(text)
    match = re.fullmatch(_PARTS, text, re.ASCII | re.IGNORECASE)
    if not text or match is None:
        return None
    parts = zip(match.groups(), _UNITS.values(), strict=True)
    # Rounded once at the end, not at each addition.
    return math.fsum(float(number) * unit for number, unit in parts if number is not None)


_SIZE_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TB": 10**12,
    "TIB": 2**40,
}
_SIZE = r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)"


def parse_size(value: str | int) -> int:
    """Bytes: a whole number, or text such as "64MiB", "1.5 GB".

    Raises ValueError with a sentence for the user.
    """
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value} is no size")
        return value
    match = re.fullmatch(_SIZE, value.strip(), re.ASCII)
    unit = match[2].upper() if match is not None else ""
    if match is None or unit not in _SIZE_UNITS:
        raise ValueError(f'"{value}" is no size; write for example "64MiB"')
    return int(float(match[1]) * _SIZE_UNITS[unit])


def parse_moment(text: str | None) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None if it is none, or has no offset from UTC."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            return None
        return parsed.timestamp()
    except (ValueError, OverflowError):
        return None


def moment_text(
    seconds: float, exact_to: Literal["seconds", "milliseconds"] = "milliseconds"
) -> str:
    """`seconds` since 1970 as RFC 3339 in UTC. Raises ValueError, OverflowError or OSError outside the calendar."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec=exact_to)
    return text.replace("+00:00", "Z")


def known_moment_text(seconds: float | None) -> str | None:
    """The same; None for None, and outside the calendar."""
    if seconds is None:
        return None
    try:
        return moment_text(seconds)
    except (ValueError, OverflowError, OSError):
        return None


# Part of a step's timeout is kept for checkout, setup and the upload of the report.
_LEAST_MARGIN_S = 60.0
_MARGIN_SHARE = 0.1


def step_seconds(timeout: str) -> tuple[float, float] | None:
    """The timeout of a Buildkite step, and what it leaves, in seconds; None without one.

    BUILDKITE_TIMEOUT is in minutes, or the word `false`. It counts from the start of the job, hooks
    and uploads included (https://buildkite.com/docs/pipelines/configure/build-timeouts), and a job
    cannot know when it started. So a margin is left: a tenth, at least a minute, at most half.
    """
    try:
        timeout_s = 60.0 * int(timeout)
    except ValueError:
        return None
    if timeout_s <= 0:
        return None
    return timeout_s, timeout_s - min(
        max(_LEAST_MARGIN_S, _MARGIN_SHARE * timeout_s), timeout_s / 2
    )
