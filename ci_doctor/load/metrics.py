# SPDX-License-Identifier: Apache-2.0
"""Reads a server's metrics page over the network."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping

import httpx
from msgspec import Struct

from ci_doctor.load.sending import Sender, read_body

METRICS_TIMEOUT_S = 10.0
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class MetricSample(Struct, frozen=True):
    """One line of a metrics page: a metric's value under its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


async def read_metrics(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> dict[str, float] | None:
    """Every metric on `/metrics`, its samples summed over labels.

    None if there is no such page within `limit_s` seconds.
    """
    samples = await read_samples(base_url, limit_s)
    return None if samples is None else _summed(samples)


async def read_samples(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> tuple[MetricSample, ...] | None:
    """Every sample on `/metrics`; None if there is no such page within `limit_s` seconds."""
    try:
        async with (
            asyncio.timeout(limit_s),
            Sender(base_url=base_url).client() as client,
            client.stream("GET", "/metrics") as response,
        ):
            body = await read_body(response)
    except (TimeoutError, httpx.HTTPError):
        return None
    if response.status_code != 200:
        return None
    return tuple(parse_samples(body.decode("utf-8", "replace")))


def _summed(samples: Iterable[MetricSample]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for each in samples:
        totals[each.name] = totals.get(each.name, 0.0) + each.value
    return totals


def parse_samples(text: str) -> Iterator[MetricSample]:
    """Each sample of a text in Prometheus' format.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    for line in text.split("\n"):
        if line.startswith("#"):
            continue
        name, labels, rest = _parts(line)
        # A time may follow the value; an empty line has neither.
        words = rest.split()
        try:
            value = float(words[0])
        except (ValueError, IndexError):
            continue
        if name:
            yield MetricSample(name, labels, value)


def parse_selector(text: str) -> tuple[str, dict[str, str]]:
    """The name and the labels of `hits{kind="hit"}`. Raises ValueError if it is neither."""
    if "{" not in text:
        return text.strip(), {}
    name, labels, rest = _parts(text)
    inside = text[text.index("{") + 1 : text.rindex("}")] if "}" in text else "="
    # Every equals sign outside of the values belongs to a label.
    if rest.strip() or not name or _LABEL.sub("", inside).strip(" ,"):
        raise ValueError(f"`{text}` is no metric with labels")
    return name, labels


def _parts(line: str) -> tuple[str, dict[str, str], str]:
    """A sample's name, its labels, and what follows: its value and perhaps a time."""
    if "{" in line:
        name, _, rest = line.partition("{")
        # The last brace: a label's value may hold one.
        inside, _, rest = rest.rpartition("}")
        labels = {key: _ESCAPED.sub(_character, value) for key, value in _LABEL.findall(inside)}
        return name.strip(), labels, rest
    name, _, rest = line.partition(" ")
    return name.strip(), {}, rest


def _character(match: re.Match[str]) -> str:
    return {"n": "\n"}.get(match[1], match[1])
