# SPDX-License-Identifier: Apache-2.0
"""Pure. Looks for literals by Hyperscan (the extra `fast-logs`), faster than the default engine.

`benchmarks/diagnose/throughput.py` compares them.
"""

from collections.abc import Sequence

import hyperscan

from ci_doctor.diagnosis.scanning.literal_engine import Engine


def hyperscan_engine(literals: Sequence[bytes]) -> Engine | None:
    """An engine for `literals`; None if Hyperscan does not run on this processor."""
    database = hyperscan.Database()
    try:
        # Whole regexes would be no filter: they apply to a line without escapes and prefixes.
        database.compile(
            expressions=list(literals),
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[0] * len(literals),
            literal=True,
        )
    except hyperscan.error:
        return None
    lengths = [len(literal) for literal in literals]

    def engine(block: bytes) -> list[tuple[int, int]]:
        places: list[tuple[int, int]] = []

        # Hyperscan reports where a match ends; a true answer would stop it.
        def on_match(literal: int, _start: int, end: int, _flags: int, _context: object) -> None:
            places.append((literal, end - lengths[literal]))

        database.scan(block, on_match)
        return places

    return engine
