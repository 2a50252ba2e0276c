# SPDX-License-Identifier: Apache-2.0
"""Tables as the lines that a terminal shows."""

from ci_doctor.model.outcome import Table
from ci_doctor.render.layout import table_lines


def lines_of(table: Table, width: int = 10_000) -> list[str]:
    """The rows of `table` as text, without their indent."""
    return [line.removeprefix("  ") for line in table_lines(table, width)]
