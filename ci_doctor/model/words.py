# SPDX-License-Identifier: Apache-2.0
"""Pure. Words for people: shortened texts, near names, and how exports are evaluated."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Final


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
    like no other one: 42 is not a mistyped 2.
    """
    typed = _bare(word)
    if len(typed) < _SHORTEST or typed.isdigit():
        return []
    letters, meanings, wholes = [], [], []
    parts = _words_of(typed)
    for name in set(names):
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
