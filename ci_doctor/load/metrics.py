# SPDX-License-Identifier: Apache-2.0
"""Reads a server's metrics page over the network."""

import asyncio

import httpx

from ci_doctor.load.sending import Sender, read_body

METRICS_TIMEOUT_S = 10.0


async def read_metrics(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> dict[str, float] | None:
    """Every metric on `/metrics`, its samples summed over labels.

    None if there is no such page within `limit_s` seconds.
    """
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
    return parse_metrics(body.decode("utf-8", "replace"))


def parse_metrics(text: str) -> dict[str, float]:
    """Each metric of a text in Prometheus' format, its samples summed over labels.

    https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    totals: dict[str, float] = {}
    for line in text.split("\n"):
        if line.startswith("#"):
            continue
        name, rest = _name_and_rest(line)
        # A time may follow the value; an empty line has neither.
        words = rest.split()
        try:
            value = float(words[0])
        except (ValueError, IndexError):
            continue
        if name:
            total = totals.get(name, 0.0)
            totals[name] = total + value
    return totals


def _name_and_rest(line: str) -> tuple[str, str]:
    """The name of a sample, and what follows name and labels: its value and perhaps a time."""
    if "{" in line:
        name, _, rest = line.partition("{")
        # The last brace: a label's value may hold one.
        _, _, rest = rest.rpartition("}")
        return name.strip(), rest
    name, _, rest = line.partition(" ")
    return name.strip(), rest
