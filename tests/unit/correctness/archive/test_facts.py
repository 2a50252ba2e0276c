# SPDX-License-Identifier: Apache-2.0
from ci_doctor.correctness.archive.facts import requests_digest, schedule_facts
from ci_doctor.load.requests import Request

ONE = Request(id="r0", path="/v1/completions", body={"prompt": "a\ud800", "seed": 0}, line=1)
TWO = Request(id="r1", path="/v1/completions", body={"prompt": "b", "seed": 0}, line=2)


def test_the_order_of_keys_and_the_line_do_not_matter_and_the_rest_does() -> None:
    same = Request(id="r0", path="/v1/completions", body={"seed": 0, "prompt": "a\ud800"}, line=9)

    assert requests_digest([ONE]) == requests_digest([same])
    others = [
        [TWO],
        [ONE, TWO],
        [TWO, ONE],
        [Request(id="r9", path=ONE.path, body=ONE.body, line=1)],
        [],
    ]
    assert len({requests_digest(each) for each in ([ONE], *others)}) == 6


def test_every_part_of_the_schedule_is_a_fact() -> None:
    first = schedule_facts([ONE], passes=2, concurrency=40, caches="warm-up")

    others = (
        schedule_facts([ONE], passes=1, concurrency=40, caches="warm-up"),
        schedule_facts([ONE], passes=2, concurrency=1, caches="warm-up"),
        schedule_facts([ONE], passes=2, concurrency=40, caches="fresh"),
        schedule_facts([ONE], passes=2, concurrency=40, caches="warm-up", reset="/reset"),
    )
    for other in others:
        assert len({name for name in first if first[name] != other[name]}) == 1
