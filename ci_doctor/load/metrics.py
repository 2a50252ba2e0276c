# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: reads a server's metrics page."""

import asyncio

import httpx

from ci_doctor.load.sending import Sender, read_body

METRICS_TIMEOUT_S = 10.0


async def read_metrics(
    base_url: str, limit_s: float = METRICS_TIMEOUT_S
) -> dict[str, float] | None:
    """Every metric on `/metrics`, its samples summed over labels; None where there is no such page within `limit_s`."""
    try:
        async with (
            asyncio.timeout(limit_s),
            Sender(base_url=base_url).client() as client,
            client.stream("GET", "/metrics") as response,
        ):
            body = await read_body(response)
    except (TimeoutError, httpx.HTTPError):
        return None
    return parse_metrics(body.decode("utf-8", "replace")) if response.status_code == 200 else None


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/), labels summed away. Pure."""
    totals: dict[str, float] = {}
    for line in text.split("\n"):
        name, _, rest = line.partition("{") if "{" in line else line.partition(" ")
        value = rest.rpartition("}")[2].split() if "{" in line else rest.split()
        if line.startswith("#") or not name.strip() or not value:
            continue
        try:
            totals[name.strip()] = totals.get(name.strip(), 0.0) + float(value[0])
        except ValueError:
            continue
    return totals
