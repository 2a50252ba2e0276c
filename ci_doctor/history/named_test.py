# SPDX-License-Identifier: Apache-2.0
"""Reads a database: the test that a person names."""

import sqlalchemy as sa
from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.history.reading.stored_text import stored_text
from ci_doctor.history.schema import TEST
from ci_doctor.model.outcome import junit_identity

_MOST_SHOWN = 5


class NamedTest(Struct, frozen=True, kw_only=True):
    """A test of the history."""

    number: int
    suite: str
    name: str


def named_test(connection: sa.Connection, text: str) -> NamedTest:
    """The test called `text`.

    That is `suite::name`, a pytest node id, a name, or a part of either that only one test has.
    Raises UsageError if there is none, or several.
    """
    # As they are stored: a very long name is cut there.
    suite, name = map(stored_text, junit_identity(text))
    parent, last = map(stored_text, text.rpartition("::")[::2])
    exact = sa.or_(
        sa.and_(TEST.c.suite == suite, TEST.c.name == name),
        sa.and_(TEST.c.suite == parent, TEST.c.name == last),
        TEST.c.name == stored_text(text),
    )
    tests = _tests(connection, exact)
    if not tests:
        whole = TEST.c.suite + "::" + TEST.c.name
        tests = _tests(connection, whole.contains(text, autoescape=True))
    if len(tests) == 1:
        return tests[0]
    if not tests:
        raise UsageError(
            f"no test of the history is called `{text}`",
            hint="`ci-doctor history flaky` lists names",
        )
    shown = ", ".join(f"`{test.suite}::{test.name}`" for test in tests[:_MOST_SHOWN])
    raise UsageError(f"`{text}` may be one of several tests", hint=f"name one of them: {shown}")


def _tests(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> list[NamedTest]:
    query = sa.select(TEST.c.id, TEST.c.suite, TEST.c.name).where(condition)
    rows = connection.execute(query.order_by(TEST.c.suite, TEST.c.name).limit(_MOST_SHOWN + 1))
    return [NamedTest(number=number, suite=suite, name=name) for number, suite, name in rows]
