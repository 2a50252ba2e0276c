# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest

from ci_doctor.load.sending import parse_samples, parse_selector, read_metrics
from tests.support.canned_server import CannedServer, http


def test_samples_are_read_with_their_labels() -> None:
    text = """
# HELP hits of the cache
# TYPE hits counter
hits{engine="0",path="{a}"} 3
hits{engine="1"} 4 1700000000
plain 2.5
broken x
lonely
"""
    read = [(each.name, dict(each.labels), each.value) for each in parse_samples(text)]
    assert read == [
        ("hits", {"engine": "0", "path": "{a}"}, 3.0),
        ("hits", {"engine": "1"}, 4.0),
        ("plain", {}, 2.5),
    ]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (http(b'hits{a="0"} 1\nhits{a="1"} 2\n'), {"hits": 3.0}),
        (http(b"hits 3", "404 No"), None),
        (b"", None),
        (http(b""), {}),
    ],
)
def test_metrics_that_cannot_be_read_are_not_metrics_that_are_not_there(
    reply: bytes, expected: dict[str, float] | None
) -> None:
    async def run() -> dict[str, float] | None:
        async with CannedServer(reply).running() as url:
            return await read_metrics(url)

    assert asyncio.run(run()) == expected


@pytest.mark.parametrize(
    ("text", "name", "labels"),
    [
        ("hits", "hits", {}),
        ('hits{kind="hit"}', "hits", {"kind": "hit"}),
        ('a:hits{kind="a,b}", x = "\\"q\\""}', "a:hits", {"kind": "a,b}", "x": '"q"'}),
    ],
)
def test_a_selector_is_a_name_and_labels(text: str, name: str, labels: dict[str, str]) -> None:
    assert parse_selector(text) == (name, labels)
    (sample,) = parse_samples(f"{text} 3")
    assert (sample.name, dict(sample.labels), sample.value) == (name, labels, 3.0)


@pytest.mark.parametrize(
    "text", ['hits{kind=~"hit"}', "hits{kind}", 'hits{kind="hit"} 3', '{a="b"}']
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no metric with labels"):
        parse_selector(text)
