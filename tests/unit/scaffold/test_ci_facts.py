# SPDX-License-Identifier: Apache-2.0
import re

import pytest

from ci_doctor.scaffold import ci_facts
from ci_doctor.scaffold.ci_facts import packaging_of, queues_in
from ci_doctor.scaffold.scaffold_facts import Packaging


def packaging(text: str) -> Packaging:
    texts = {"pyproject.toml": text}
    return packaging_of("", set(texts), texts, "")


def test_a_queue_is_read_beside_blank_lines_and_no_pattern_reads_on_over_them() -> None:
    text = '\n\nagents:\n  queue: "gpu"\n\n  - queue=cpu \n'
    assert queues_in([text]) == ("cpu", "gpu")
    # To begin at each of 60,000 blank lines and read all the others takes a minute.
    blank = re.compile(ci_facts._QUEUE.pattern.partition("queue")[0], re.MULTILINE)
    match = blank.match("\n\n\n")
    assert match is not None
    assert match.end() == 0


@pytest.mark.parametrize(
    "text",
    [
        'build-system = "x"',
        "[build-system]\nbuild-backend = 1",
        "a = " + "[" * 100_000,
        "a = [",
    ],
)
def test_a_packaging_file_that_says_nothing_is_no_error(text: str) -> None:
    assert packaging(text) == Packaging()
