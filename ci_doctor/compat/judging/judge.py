# SPDX-License-Identifier: Apache-2.0
"""Reads a caller and its callees: which places of the caller break, and what nobody can judge."""

import ast
import contextlib
import gc
import re
from collections.abc import Callable, Iterator, Sequence

from ci_doctor.compat.judging.breakage import Judged
from ci_doctor.compat.judging.callee_calls import CalleeCalls
from ci_doctor.compat.judging.doubt_check import DoubtCheck
from ci_doctor.compat.judging.overrides import OverrideJudge
from ci_doctor.compat.judging.site_judge import SiteJudge
from ci_doctor.compat.meaning.evaluation import Evaluation
from ci_doctor.compat.meaning.world import World, side_of
from ci_doctor.compat.reading.parsed_module import ReadModule
from ci_doctor.compat.sources.code_tree import CodeTree


def judge(
    caller: CodeTree,
    callees: Sequence[CodeTree],
    *,
    python: tuple[int, int],
    tell: Callable[[str], None] = lambda _: None,
) -> Judged:
    """Judge every place of the caller that concerns a callee.

    `python` is the version that `sys.version_info` guards are decided by.
    """
    with _without_collector():
        return _judge(caller, callees, python, tell)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Syntax trees live until the end: the collector goes through millions of nodes and frees none.

    It took half of the time on vllm and transformers.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _judge(
    caller: CodeTree,
    callees: Sequence[CodeTree],
    python: tuple[int, int],
    tell: Callable[[str], None],
) -> Judged:
    world = World(side_of(caller, is_caller=True), [side_of(each) for each in callees], python)
    evaluation = Evaluation(world)
    tell(f"reading {caller.label}")
    modules = concerned_modules(world)
    doubts = DoubtCheck(evaluation, modules)
    judging = SiteJudge(evaluation, doubts)
    for module in modules:
        judging.module(module)
    calls = CalleeCalls(evaluation, doubts)
    overrides = OverrideJudge(evaluation, calls, judging.judged)
    parents = _parents(modules)
    for module in modules:
        overrides.module(module, parents)
    judging.judged.unread = world.unread
    return judging.judged


def _parents(modules: Sequence[ReadModule]) -> frozenset[str]:
    """The last words of all bases of the caller's classes."""
    names = set()
    for module in modules:
        for scope in module.classes:
            for base in getattr(scope.node, "bases", ()):
                names.add(ast.unparse(base).partition("[")[0].rpartition(".")[2])
    return frozenset(names)


def concerned_modules(world: World) -> list[ReadModule]:
    """The modules of the caller whose text names a callee, parsed."""
    tops = {top for side in world.callees for top in side.index.tops}
    if not tops:
        return []
    pattern = re.compile(rb"\b(?:" + "|".join(map(re.escape, sorted(tops))).encode() + rb")\b")
    by_path = {file.path: name for name, file in world.caller.index.modules.items()}
    modules = []
    for path, source in world.caller_files():
        if not pattern.search(source):
            continue
        name = by_path.get(path)
        read = world.module(name) if name is not None and world.side(name) is world.caller else None
        if read is None:
            is_package = path.endswith("__init__.py")
            stem = path.removesuffix(".py").replace("/", ".")
            read = world.parse(stem, path, source, is_package=is_package)
        if read is not None:
            modules.append(read)
    return modules
