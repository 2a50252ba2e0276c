# SPDX-License-Identifier: Apache-2.0
"""Reads a database: how often a cause was seen, since when, and where last."""

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.history.reading.moments import utc_text
from ci_doctor.history.schema import CAUSE, JOB
from ci_doctor.render.formatting import amount


class SeenCause(Struct, frozen=True, kw_only=True):
    """The jobs that had a cause. first_ms, agent: None if there was none, or if it is not known."""

    times: int
    first_ms: int | None = None
    agent: str | None = None


def seen_before(connection: sa.Connection, fingerprint: str) -> SeenCause:
    """The jobs of the history with the cause of this fingerprint."""
    jobs = sa.select(JOB).join(CAUSE, CAUSE.c.id == JOB.c.cause_id)
    jobs = jobs.where(CAUSE.c.fingerprint == fingerprint)
    each = jobs.subquery()
    times, first = connection.execute(
        sa.select(sa.func.count(), sa.func.min(each.c.started_ms)).select_from(each)
    ).one()
    last = sa.select(each.c.agent).order_by(each.c.started_ms.desc()).limit(1)
    return SeenCause(times=times, first_ms=first, agent=connection.scalar(last))


def seen_phrase(seen: SeenCause) -> str:
    """`seen 14 times since 2026-11-03, last on agent gpu-7`."""
    if seen.first_ms is None:
        return "not seen before in this history"
    phrase = f"seen {amount(seen.times, 'time')} since {utc_text(seen.first_ms)[:10]}"
    if seen.agent is not None:
        phrase += f", last on agent {seen.agent}"
    return phrase
