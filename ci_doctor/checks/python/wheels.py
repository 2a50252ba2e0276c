# SPDX-License-Identifier: Apache-2.0
"""Reads whether installed wheels and their compiled modules were built for the interpreter."""

from collections.abc import Iterator, Sequence

from ci_doctor.checks.check import CheckResult, Cost, DoctorCheck, Need, Problem, problem
from ci_doctor.checks.context import CheckContext
from ci_doctor.checks.python.distribution import InstalledDistribution, editable_source
from ci_doctor.checks.python.elf_header import defect
from ci_doctor.checks.python.installed_environment import (
    Examination,
    InstalledEnvironment,
    examine_each,
)
from ci_doctor.checks.python.module_names import compiled_modules, modules_in
from ci_doctor.checks.python.pip_command import pip_line, reinstallation
from ci_doctor.checks.python.record import Records, read_records
from ci_doctor.checks.python.rules import TORCH_WITHOUT_CUDA, WHEEL_OF_ANOTHER_PLATFORM
from ci_doctor.checks.python.wheel_tags import misfit, misnamed
from ci_doctor.checks.settings import ALL
from ci_doctor.model.finding import Evidence, ShellCommand
from ci_doctor.render.formatting import amount

# The heads of so many libraries of one distribution are read: a wheel is built for one processor.
_HEADS = 8
_SHOWN = 3
# Their compiled modules are linked against torch's CUDA libraries.
_CUDA_ONLY = frozenset({"flash-attn", "flashinfer-python", "sgl-kernel", "xformers", "deep-gemm"})


def _run(context: CheckContext) -> CheckResult:
    records = context.shared(read_records)
    return examine_each(context, lambda environment, _: _examine(environment, records))


def _examine(environment: InstalledEnvironment, records: Records) -> Examination:
    problems: list[Problem] = []
    count = 0
    for distribution in environment.installed:
        paths = [file.path for file in records.get(str(distribution.folder), ())]
        libraries = [path for path in paths if path.endswith(".so")]
        stale = _built_for_another(environment, distribution)
        if stale is not None:
            problems.append(stale)
        count += bool(libraries)
        for reason, evidence in _misfits(environment, distribution, libraries):
            problems.append(_problem(environment, distribution, reason, evidence))
            break
    problems.extend(_without_cuda(environment.installed))
    observed = f"{amount(count, 'distribution')} with compiled modules"
    return Examination(observed=observed, problems=tuple(problems))


def _misfits(
    environment: InstalledEnvironment, distribution: InstalledDistribution, libraries: Sequence[str]
) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    """Why it does not fit, with the evidence: by its tags, its files' names, their heads."""
    state = environment.state
    reason = misfit(_tags(distribution), state)
    if reason is not None:
        yield reason, (Evidence(file=str(distribution.folder / "WHEEL")),)
    strange = misnamed(libraries, state)
    if strange:
        files = [Evidence(file=str(distribution.site.path / path)) for path in strange[:_SHOWN]]
        reason = f"it has {amount(len(strange), 'module')} for another Python"
        yield reason, tuple(files)
    for path in libraries[:_HEADS]:
        full = f"{distribution.site.path}/{path}"
        try:
            damage = defect(full, state.machine)
        except OSError:
            continue  # that a file is missing or unreadable is said by other checks
        if damage is not None:
            yield f"{path}: {damage}", (Evidence(file=full),)


def _built_for_another(
    environment: InstalledEnvironment, distribution: InstalledDistribution
) -> Problem | None:
    """The compiled modules of an editable installation: they were built where the sources are."""
    source = editable_source(distribution)
    if source is None:
        return None
    suffixes = environment.state.suffixes
    built = []
    for top in (source, source / "src", source / "python"):
        for module in modules_in(top, suffixes):
            built += [str(module.path / name) for name in compiled_modules(module.path)]
    strange = misnamed(built, environment.state)
    if not strange:
        return None
    python = environment.python
    summary = (
        f"{distribution.words}, an editable installation of {source}, has compiled modules for "
        f"another Python than {environment.state.version} of {python}"
    )
    remedy = ShellCommand(pip_line(environment, "install", ["--no-deps", "-e", str(source)]))
    evidence = tuple(Evidence(file=path) for path in strange[:_SHOWN])
    return problem(WHEEL_OF_ANOTHER_PLATFORM, summary, evidence=evidence, remedy=remedy)


def _tags(distribution: InstalledDistribution) -> list[str]:
    """The tags in WHEEL; none for what no wheel was installed from."""
    try:
        text = (distribution.folder / "WHEEL").read_text(errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.startswith("Tag:")]
    return [line.removeprefix("Tag:").strip() for line in lines]


def _problem(
    environment: InstalledEnvironment,
    distribution: InstalledDistribution,
    reason: str,
    evidence: tuple[Evidence, ...],
) -> Problem:
    python = environment.python
    summary = (
        f"{distribution.words} does not fit {python} (Python {environment.state.version}): {reason}"
    )
    remedy = reinstallation(environment, distribution.name, distribution.version)
    return problem(WHEEL_OF_ANOTHER_PLATFORM, summary, evidence=evidence, remedy=remedy)


def _without_cuda(distributions: Sequence[InstalledDistribution]) -> Iterator[Problem]:
    """A torch for the CPU beside packages that need its CUDA libraries."""
    torch = [each for each in distributions if each.name == "torch"]
    needing = sorted(each.words for each in distributions if each.name in _CUDA_ONLY)
    if torch and needing and torch[0].version.endswith("+cpu"):
        names = " and ".join(needing)
        summary = f"{torch[0].words} is built without CUDA, and {names} needs it"
        yield problem(TORCH_WITHOUT_CUDA, summary, evidence=(Evidence(file=str(torch[0].folder)),))


CHECK = DoctorCheck(
    id="python/wheels",
    title="compiled packages were built for the interpreter",
    need=Need.INTERPRETER,
    cost=Cost.PROGRAM,
    needed_for=ALL,
    run=_run,
)
