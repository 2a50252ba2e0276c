"""The table of docs/how-do-i/how-long.md is what the rules give; UPDATE_GOLDEN=1 writes it."""

import math
import os
import re
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.settings import CorrectnessSettings, Rules
from ci_doctor.correctness.verdict.looks import blocks, planned_looks

PAGE = Path(__file__).parents[2] / "docs" / "how-do-i" / "how-long.md"
MARKED = re.compile(r"(UPDATE_GOLDEN=1 writes it -->\n\n).*?(\n\nPut in your own)", re.DOTALL)
LOADS_MIN = (1, 5, 15)
REQUESTS = 100
ANSWER_S = 10
RULES = Rules()
SETTINGS = CorrectnessSettings()


def first_block(rules: Rules, *, archived: bool = False) -> int:
    return blocks(rules, archived=archived)[0].size


def minutes(starts: int, load_min: int) -> int:
    rounds = SETTINGS.passes * math.ceil(REQUESTS / SETTINGS.concurrency)
    return math.ceil(starts * (60 * load_min + rounds * ANSWER_S) / 60)


def table() -> str:
    nightly = replace(RULES, least_candidates=8, least_baselines=3)
    rows = [
        ("all is equal, beside an archive", first_block(RULES, archived=True)),
        ("all is equal", first_block(RULES)),
        ("a bug in every start: red at the first look", planned_looks(RULES, archived=False)[0]),
        ("nothing is settled until the last start", RULES.max_starts),
        ("nightly with 8 candidate and 3 baseline starts, all is equal", first_block(nightly)),
    ]
    head = " | ".join(f"loads in {load} min" for load in LOADS_MIN)
    lines = [f"| what happens | starts | {head} |", f"|---|--:|{'--:|' * len(LOADS_MIN)}"]
    for title, starts in rows:
        cells = " | ".join(f"{minutes(starts, load)} min" for load in LOADS_MIN)
        lines.append(f"| {title} | {starts} | {cells} |")
    stated = (
        f"The load times are assumptions, not measurements. So are {REQUESTS} requests and"
        f" {ANSWER_S} s for an answer.\n{SETTINGS.passes} passes and {SETTINGS.concurrency} requests"
        f" at once are the defaults. Times are rounded up."
    )
    return "\n".join([*lines, "", stated])


def test_the_table_of_run_times_is_computed_from_the_rules() -> None:
    page = PAGE.read_text(encoding="utf-8")
    made = MARKED.sub(lambda match: match[1] + table() + match[2], page)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")

    assert MARKED.search(page)
    assert PAGE.read_text(encoding="utf-8") == made
