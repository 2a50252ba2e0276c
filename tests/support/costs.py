# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: `--costs` prints at the end what each part of the tests has cost, dearest first.

Reads the clocks of the process. CPU time is this process's and that of its children, as far as they have been waited
for; it says on a busy machine too what a test costs, which wall time does not.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

import pytest

_PROPERTY = "cpu_s"
_DEAREST = 30
_SPENT = pytest.StashKey[float]()
_LEDGER = pytest.StashKey["Ledger"]()


@dataclass
class Cost:
    """What a group of tests has cost, in seconds."""

    tests: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Add one phase of one test: set-up, call or tear-down."""
        self.wall_s += report.duration
        if report.when == "teardown":
            self.tests += 1
            self.cpu_s += sum(
                float(str(value)) for name, value in report.user_properties if name == _PROPERTY
            )


class Ledger:
    """Costs by group: the folder of a unit test, the file of an integration test."""

    def __init__(self) -> None:
        self.groups: dict[str, Cost] = {}
        self.tests: dict[str, Cost] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test, by xdist too."""
        self.groups.setdefault(group_of(report.nodeid), Cost()).add(report)
        self.tests.setdefault(report.nodeid, Cost()).add(report)

    def lines(self) -> Iterator[str]:
        """The table: its parts first, then the groups, then some tests, dearest first."""
        yield _line("", "tests", "CPU s", "wall s")
        parts: dict[str, Cost] = {}
        for name, cost in self.groups.items():
            part = parts.setdefault(PurePosixPath(name).parts[1], Cost())
            part.tests += cost.tests
            part.cpu_s += cost.cpu_s
            part.wall_s += cost.wall_s
        for costs in (parts, self.groups):
            yield from _rows(costs.items())
        yield "the dearest tests"
        yield from islice(_rows(self.tests.items()), _DEAREST)


def group_of(nodeid: str) -> str:
    """The group that a test's cost is counted in: `tests/unit/ROOM`, or `tests/integration/FILE`."""
    # Asked for each phase of 16,000 tests: as text, which takes a tenth of what a path does.
    return "/".join(nodeid.partition("::")[0].split("/")[:3])


def _rows(costs: Iterable[tuple[str, Cost]]) -> Iterator[str]:
    for name, cost in sorted(costs, key=lambda row: row[1].cpu_s, reverse=True):
        yield _line(name, str(cost.tests), f"{cost.cpu_s:.1f}", f"{cost.wall_s:.1f}")


def _line(name: str, tests: str, cpu: str, wall: str) -> str:
    return f"{tests:>6} {cpu:>8} {wall:>8}  {name}".rstrip()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--costs`."""
    parser.addoption("--costs", action="store_true", help="print what each part of the tests cost")


def pytest_configure(config: pytest.Config) -> None:
    """Keep a ledger where the reports arrive: not in a worker of xdist."""
    if config.getoption("costs") and not hasattr(config, "workerinput"):
        config.stash[_LEDGER] = Ledger()
        config.pluginmanager.register(config.stash[_LEDGER])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember what had been spent before the test's fixtures are set up."""
    item.stash[_SPENT] = spent_s()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Add the CPU time to the last report of a test; properties are what xdist carries over."""
    if call.when == "teardown":
        item.user_properties.append((_PROPERTY, spent_s() - item.stash[_SPENT]))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table."""
    if ledger := config.stash.get(_LEDGER, None):
        terminalreporter.section("what it cost")
        for line in ledger.lines():
            terminalreporter.write_line(line)


def spent_s() -> float:
    """Seconds of CPU that this process and its children have taken; children count once they are waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
