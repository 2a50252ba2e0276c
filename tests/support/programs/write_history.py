# SPDX-License-Identifier: Apache-2.0
"""Writes files to a history, a transaction each, and prints the number of each: write_history.py DATABASE FIRST COUNT."""

import sys

from ci_doctor.history.address import database_address
from ci_doctor.history.upkeep import open_database
from ci_doctor.history.writing import EvidenceWriter
from tests.support.histories import numbered_run


def main(database: str, first: str, count: str) -> None:
    engine = open_database(database_address(database), busy_s=60)
    writer = EvidenceWriter(engine)
    for number in range(int(first), int(first) + int(count)):
        writer.write([numbered_run(number)], 0)
        print(number, flush=True)
    engine.dispose()


main(*sys.argv[1:])
