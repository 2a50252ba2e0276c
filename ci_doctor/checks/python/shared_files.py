# SPDX-License-Identifier: Apache-2.0
"""Reads RECORD files: which files two distributions have both installed."""

from collections.abc import Iterator, Sequence

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.pip_command import pip_line
from ci_doctor.checks.python.record import Records, read_records
from ci_doctor.checks.python.rules import FILES_OF_TWO_DISTRIBUTIONS
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

_SHOWN = 3
# Folders that wheels install by mistake, and nothing of the job imports.
_SHARED = ("tests/", "test/", "docs/", "examples/", "benchmarks/", "scripts/")


def _run(context: CheckContext) -> CheckResult:
    records = context.shared(read_records)
    return examine_each(context, lambda environment, _: _examine(environment, records))


def _examine(environment: InstalledEnvironment, records: Records) -> Examination:
    pairs: dict[tuple[str, str], list[str]] = {}
    by_name = {}
    for folder, distributions in _by_site(environment).items():
        by_name.update({each.name: each for each in distributions})
        for names, path in _conflicts(distributions, records):
            pairs.setdefault(names, []).append(f"{folder}/{path}")
    problems = [
        _of_pair(environment, (by_name[first], by_name[second]), paths)
        for (first, second), paths in pairs.items()
    ]
    observed = f"{amount(len(pairs), 'pair')} of distributions with the same files"
    return Examination(observed=observed, problems=tuple(problems))


def _by_site(environment: InstalledEnvironment) -> dict[str, list[InstalledDistribution]]:
    by_site: dict[str, list[InstalledDistribution]] = {}
    for distribution in environment.installed:
        by_site.setdefault(str(distribution.site.path), []).append(distribution)
    return by_site


def _conflicts(
    distributions: Sequence[InstalledDistribution], records: Records
) -> Iterator[tuple[tuple[str, str], str]]:
    """Two names, and a path that both have with different contents."""
    owners: dict[str, tuple[str, str]] = {}
    for distribution in distributions:
        name = distribution.name
        for file in records.get(str(distribution.folder), ()):
            owner = owners.setdefault(file.path, (name, file.digest))
            is_conflict = owner[0] != name and owner[1] != file.digest
            if is_conflict and not file.path.startswith(_SHARED):
                yield (owner[0], name), file.path


def _of_pair(
    environment: InstalledEnvironment,
    pair: tuple[InstalledDistribution, InstalledDistribution],
    paths: Sequence[str],
) -> Problem:
    first, second = pair
    count = amount(len(paths), "file")
    summary = f"{first.words} and {second.words} have both installed {count}, with other contents"
    evidence = tuple(Evidence(file=path) for path in paths[:_SHOWN])
    uninstall = pip_line(environment, "uninstall", [first.name, second.name])
    install = pip_line(environment, "install", [f"{second.name}=={second.version}"])
    remedy = ShellCommand(f"{uninstall}\n{install}  # or {first.name}: one of them")
    return problem(FILES_OF_TWO_DISTRIBUTIONS, summary, evidence=evidence, remedy=remedy)


CHECK = DoctorCheck(
    id="python/shared-files",
    title="no file belongs to two distributions",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
