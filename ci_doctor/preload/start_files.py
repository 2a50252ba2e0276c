# SPDX-License-Identifier: Apache-2.0
"""Reads a site directory, and makes the content of a shim's files from its rules.

Each file carries its owner and the SHA-256 of what follows, so that it proves by itself whether it
is as some version of ci-doctor wrote it. The rules are those of the finder.
"""

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.errors import UsageError
from ci_doctor.machine.start_files import (
    CUSTOMIZE,
    Imported,
    InterpreterStart,
    candidates,
    watch_start,
)
from ci_doctor.model.facts.preload import FileCondition, NeverRun, StartFile
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.preload.interpreter import Target
from ci_doctor.preload.preload_rule import Preload, PreloadRule
from ci_doctor.render.formatting import duration

RUNTIME: Final = "_ci_doctor_preload_rt.py"
FINDER: Final = "_ci_doctor_preload.py"
PATH_FILE: Final = "ci_doctor_preload.pth"
MODULES: Final = (RUNTIME, FINDER)
# Written in this order and removed in reverse, so that the interpreter starts cleanly after a crash
# at any point: the `.pth`, which arms the shim, never outlives what it imports.
FILES: Final = (RUNTIME, FINDER, PATH_FILE)
CACHE: Final = "__pycache__"

_TEMPLATES: Final = Path(__file__).parent / "shim"
_LICENCE: Final = "# SPDX-License-Identifier: Apache-2.0\n"
OWNER_LINE: Final = "# managed-by: ci-doctor preload"
_RULES_BEGIN: Final = "# ci-doctor rules: begin\n"
_RULES_END: Final = "# ci-doctor rules: end\n"
_OWNED: Final = re.compile(
    re.escape(f"{_LICENCE}{OWNER_LINE}".encode()) + rb"(?:, sha256 ([0-9a-f]{64})\n(.*))?",
    re.DOTALL,
)
_STEMS: Final = "|".join(re.escape(Path(name).stem) for name in MODULES)
# `NAME.cpython-312.pyc`, and `.NAME.cpython-312.pyc.k3x_9abd` or `NAME.cpython-312.pyc.140234`: what a
# process leaves that was killed while it wrote (ours, and importlib's _write_atomic).
_COMPILED: Final = re.compile(rf"(?:{_STEMS})\.[\w-]+(?:\.opt-\w+)?\.pyc")
_COMPILED_IN_PART: Final = re.compile(
    rf"{_COMPILED.pattern}\.\d+|\.{_COMPILED.pattern}\.[a-z0-9_]{{8}}"
)
# What `system.files.atomic.write_atomically` writes before it renames.
_IN_PART: Final = re.compile(rf"\.(?:{'|'.join(map(re.escape, FILES))})\.[a-z0-9_]{{8}}")


class SiteState(Struct, frozen=True, kw_only=True):
    """The shim's part of a site directory, by file name; `contents` has the regular files only.

    `compiled` is bytecode of ours, of any interpreter. `cut_off` are the remainders of killed
    processes. `rules` are those of the finder, if it is ours.
    """

    contents: dict[str, bytes]
    conditions: dict[str, FileCondition]
    rules: tuple[PreloadRule, ...] = ()
    compiled: tuple[Path, ...] = ()
    cut_off: tuple[Path, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing is there that could be ours."""
        is_absent = set(self.conditions.values()) == {FileCondition.ABSENT}
        return is_absent and not self.compiled and not self.cut_off

    @property
    def is_whole(self) -> bool:
        """All files are as some version of ci-doctor wrote them."""
        return set(self.conditions.values()) == {FileCondition.OURS}


def shim_files(rules: Iterable[PreloadRule]) -> dict[str, bytes]:
    """The files that arm `rules`, by name, in the order of FILES."""
    runtime = (_TEMPLATES / RUNTIME).read_text(encoding="utf-8")
    finder = (_TEMPLATES / FINDER).read_text(encoding="utf-8")
    before, _, rest = finder.partition(_RULES_BEGIN)
    # As a literal: a start of the interpreter has nothing to parse.
    held = {
        rule.trigger: tuple((preload.module, preload.attributes) for preload in rule.preloads)
        for rule in rules
    }
    lines = [f"    {trigger!r}: {pairs!r},\n" for trigger, pairs in held.items()]
    literal = "".join([_RULES_BEGIN, "RULES = {\n", *lines, "}\n", _RULES_END])
    header = f"{_LICENCE}{OWNER_LINE}\n"
    return {
        RUNTIME: _signed(runtime.removeprefix(header)),
        FINDER: _signed(before.removeprefix(header) + literal + rest.partition(_RULES_END)[2]),
        PATH_FILE: _signed(f"import {Path(FINDER).stem}\n"),
    }


def _signed(body: str) -> bytes:
    content = body.encode()
    digest = hashlib.sha256(content).hexdigest()
    return f"{_LICENCE}{OWNER_LINE}, sha256 {digest}\n".encode() + content


def read_site(site_dir: Path) -> SiteState:
    """Read the places of the files of a shim. Raises UsageError if one cannot be read."""
    try:
        return _read_site(site_dir)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename}: {error.strerror or error}",
            hint="run as the user who owns it",
        ) from error


def _read_site(site_dir: Path) -> SiteState:
    contents: dict[str, bytes] = {}
    conditions: dict[str, FileCondition] = {}
    for name in FILES:
        path = site_dir / name
        if _is_regular(path):
            contents[name] = path.read_bytes()
            conditions[name] = _condition_of(name, contents[name])
        else:
            occupied = path.is_symlink() or path.exists()
            conditions[name] = FileCondition.NOT_A_FILE if occupied else FileCondition.ABSENT
    beside = sorted(site_dir.iterdir()) if site_dir.is_dir() else []
    cache = site_dir / CACHE
    # A link may lead to another environment's bytecode.
    in_cache = sorted(cache.iterdir()) if cache.is_dir() and not cache.is_symlink() else []
    compiled = [path for path in in_cache if _COMPILED.fullmatch(path.name)]
    cut_off = [
        *(path for path in beside if _IN_PART.fullmatch(path.name)),
        *(path for path in in_cache if _COMPILED_IN_PART.fullmatch(path.name)),
    ]
    return SiteState(
        contents=contents,
        conditions=conditions,
        rules=_rules_of(contents[FINDER]) if conditions[FINDER] is FileCondition.OURS else (),
        compiled=tuple(filter(_is_regular, compiled)),
        cut_off=tuple(filter(_is_regular, cut_off)),
    )


def _condition_of(name: str, content: bytes) -> FileCondition:
    """Who wrote `content`, a regular file in the place of the file `name` of the shim."""
    owned = _OWNED.match(content)
    if owned is None:
        return FileCondition.FOREIGN
    digest, body = owned.groups(default=b"")
    is_whole = hashlib.sha256(body).hexdigest().encode() == digest
    # One of the shim's files may have been copied to the place of another.
    is_in_place = name == _name_by_content(body)
    return FileCondition.OURS if is_whole and is_in_place else FileCondition.EDITED


def _name_by_content(body: bytes) -> str:
    if _RULES_BEGIN.encode() in body:
        return FINDER
    return PATH_FILE if body.startswith(f"import {Path(FINDER).stem}".encode()) else RUNTIME


def rules_from(held: Mapping[str, Iterable[tuple[str, Iterable[str]]]]) -> tuple[PreloadRule, ...]:
    """The rules in the form in which a finder holds them."""
    return tuple(
        PreloadRule(
            trigger=trigger,
            preloads=tuple(Preload(module=name, attributes=tuple(names)) for name, names in pairs),
        )
        for trigger, pairs in held.items()
    )


def _rules_of(finder: bytes) -> tuple[PreloadRule, ...]:
    literal = finder.decode().partition(_RULES_BEGIN)[2].partition(_RULES_END)[0]
    return rules_from(ast.literal_eval(literal.removeprefix("RULES = ")))


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


# Acts on processes: what runs at every start of an interpreter, what of it is heavy or never runs.

SHADOWED: Final = Rule(
    id="preload/shadowed",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize exists and never runs. Another one comes first on "
        "sys.path (Debian's own precedes that of a virtual environment), "
        "or the interpreter reads no user site directory."
    ),
    remedy=(
        "Remove the file, or use a preload rule, which does not depend on the order of sys.path: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_HEAVY: Final = Rule(
    id="preload/sitecustomize-heavy",
    severity=Severity.WARNING,
    meaning=(
        "A sitecustomize or usercustomize takes more than 5 ms of every start, half of what a bare "
        "start takes. Every `python -c`, pip and subprocess pays for it."
    ),
    remedy=(
        "Use a preload rule, which costs only the programs that import its trigger: "
        "`ci-doctor preload install --rule TRIGGER=MODULE`."
    ),
)
SITECUSTOMIZE_OF_THE_JOB: Final = Rule(
    id="preload/sitecustomize-of-the-job",
    severity=Severity.NOTE,
    meaning=(
        "PYTHONPATH brings a sitecustomize that comes before the interpreter's own. "
        "Monitoring agents do this on purpose."
    ),
    remedy="Nothing, if it is intended; under `-I` and `-E` it does not run.",
)
RULES: Final = (SHADOWED, SITECUSTOMIZE_HEAVY, SITECUSTOMIZE_OF_THE_JOB)

# Microseconds. A start of CPython takes some 10 ms, and this is also the most that our shim may
# cost.
HEAVY_US = 5_000
# An import that takes less is not named.
NAMED_US = 1_000


class Inventory(Struct, frozen=True, kw_only=True):
    """The start-up files of an interpreter.

    `of_the_job` are the files that the job's PYTHONPATH brings, by the name of the module;
    `job_files` the same as they ran.
    """

    files: tuple[StartFile, ...]
    never: tuple[NeverRun, ...]
    of_the_job: dict[str, str]
    job_files: tuple[StartFile, ...] = ()
    findings: tuple[Finding, ...] = ()


def inventory(target: Target, *, environ: Mapping[str, str] = os.environ) -> Inventory:
    """Start `target` without the job's PYTHONPATH, and once more with it if `environ` has one.

    Raises InfraError if the interpreter does not start or does not report its start.
    """
    start = watch_start(target.python)
    path = environ.get("PYTHONPATH")
    job = watch_start(target.python, pythonpath=path, starts=1) if path else None
    return inventory_of(target.python, start, job)


def inventory_of(python: Path, start: InterpreterStart, job: InterpreterStart | None) -> Inventory:
    """What ran at `start` of `python`, and what never runs; `job` is a start with its PYTHONPATH."""
    job = start if job is None else job
    files = tuple(_start_files(start))
    never = [each for name in CUSTOMIZE for each in _never_run(name, start)]
    findings = [
        SHADOWED.finding(
            f"{each.path} never runs: {each.reason}",
            evidence=(Evidence(file=each.path),),
            remedy=SHADOWED.remedy,
        )
        for each in never
    ]
    findings += [
        SITECUSTOMIZE_HEAVY.finding(
            describe_cost(file, python),
            evidence=(Evidence(file=file.path),),
            remedy=SITECUSTOMIZE_HEAVY.remedy,
        )
        for file in files
        if file.is_customize and file.cost_us > HEAVY_US
    ]
    # The files that run in the job's start, and not in one without its PYTHONPATH.
    of_the_job: dict[str, str] = {}
    for name in CUSTOMIZE:
        path = _executed(name, job)
        hidden = _executed(name, start)
        if path and path != hidden:
            of_the_job[name] = path
            effect = f", so that {hidden} does not run" if hidden else ""
            findings.append(
                SITECUSTOMIZE_OF_THE_JOB.finding(
                    f"the job's PYTHONPATH brings a {name} that comes first: {path}{effect}; "
                    "not under -I or -E",
                    evidence=(Evidence(file=path),),
                )
            )
    return Inventory(
        files=files,
        never=tuple(never),
        of_the_job=of_the_job,
        job_files=tuple(each for each in _start_files(job) if each.path in of_the_job.values()),
        findings=tuple(findings),
    )


def describe_cost(file: StartFile, python: Path) -> str:
    """What `file` adds to a start of `python`, and what is heavy in it."""
    because = f" because it imports {in_words(file.imports)}" if file.imports else ""
    return f"{file.path} adds {duration(file.cost_us / 1e6)} to every start of {python}{because}"


def heavy_imports(imports: Sequence[Imported], name: str) -> dict[str, int]:
    """What a file imports directly, in microseconds, and the package that takes most of it.

    `name` is the file's own module, if it is one. Costliest first; nothing below NAMED_US.
    """
    below = [each for each in imports if each.name != name]
    top = min((each.depth for each in below), default=0)
    # Those that no other import caused, with all that they caused; and each package's own time.
    costs: dict[str, int] = {}
    own_us: dict[str, int] = {}
    for each in below:
        package = each.name.partition(".")[0]
        own_us[package] = own_us.get(package, 0) + each.self_us
        if each.depth == top:
            costs[each.name] = costs.get(each.name, 0) + each.cumulative_us
    package = max(own_us, key=own_us.__getitem__, default="")
    # Behind a thin wrapper: the wrapper alone would explain nothing.
    is_named = package in {module.partition(".")[0] for module in costs}
    if package and not is_named and own_us[package] * 3 > sum(costs.values()):
        costs[package] = own_us[package]
    costliest = sorted(costs, key=costs.__getitem__, reverse=True)
    return {module: costs[module] for module in costliest if costs[module] >= NAMED_US}


def in_words(imports: Mapping[str, int]) -> str:
    """The three costliest of `imports`, as `torch (1.2 s), json (3 ms)`."""
    texts = [f"{name} ({duration(cost / 1e6)})" for name, cost in imports.items()]
    return ", ".join(texts[:3])


def _start_files(start: InterpreterStart) -> Iterator[StartFile]:
    for block in start.blocks:
        is_custom = block.name in CUSTOMIZE
        path = _executed(block.name, start) if is_custom else block.name
        lines = () if is_custom else _import_lines(Path(block.name))
        # A `.pth` file without import lines only adds paths.
        if path is None or not (lines or is_custom):
            continue
        in_user_dir = bool(start.user_dir) and Path(path).is_relative_to(start.user_dir or "")
        yield StartFile(
            path=path,
            lines=lines,
            cost_us=block.cost_us,
            imports=heavy_imports(block.imports, block.name),
            everywhere=not in_user_dir and block.name != "usercustomize",
            stderr=tuple(block.stderr),
            prints=block.name in start.printing,
        )


def _import_lines(path: Path) -> tuple[str, ...]:
    """The lines that `site` executes: those that begin with `import` and a space or a tab."""
    try:
        text = path.read_text("utf-8-sig", "replace")
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines()]
    return tuple(line for line in lines if line.startswith(("import ", "import\t")))


def _executed(name: str, start: InterpreterStart) -> str | None:
    """The file that ran as `name`."""
    if name == "usercustomize" and not start.user_site:
        return None
    # A module that removed itself from sys.modules was the first one on the path.
    return start.ran.get(name) or next(iter(candidates(name, start.path)), None)


def _never_run(name: str, start: InterpreterStart) -> list[NeverRun]:
    """The files of the module `name` other than the one that ran."""
    files = candidates(name, start.path)
    executed = _executed(name, start)
    if executed is None:
        reason = "this interpreter reads no user site directory"
        return [NeverRun(path=file, by=reason) for file in files]
    same = os.path.realpath(executed)
    return [NeverRun(path=file, by=executed) for file in files if os.path.realpath(file) != same]
