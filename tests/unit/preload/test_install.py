# SPDX-License-Identifier: Apache-2.0
"""What installing and removing a shim would do, its files, and the outcome as a library."""

import ast
import hashlib
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.facts.diagnose import FileState
from ci_doctor.model.facts.preparing import ChangeFacts, FileCondition
from ci_doctor.model.outcome import CaseOutcome, ErrorKind, Verdict
from ci_doctor.preload.install import Installation, install, plan_install, plan_remove, remove
from ci_doctor.preload.interpreter import Interpreters, Target
from ci_doctor.preload.preload_rule import PreloadRule, parse_rule
from ci_doctor.preload.start_files import (
    FILES,
    FINDER,
    MODULES,
    OWNER_LINE,
    PATH_FILE,
    REMOVAL_LINE,
    RUNTIME,
    read_site,
    shim_files,
)

RULE = parse_rule("serve=transformers:GenerationConfig")
OTHER_RULE = parse_rule("serve=transformers:AutoConfig")
BOTH = parse_rule("serve=transformers:GenerationConfig,AutoConfig")


@pytest.fixture
def target(tmp_path: Path) -> Target:
    python = Path("/venv/bin/python")
    return Target(
        python=python,
        version=(3, 12, 0),
        site_dir=tmp_path,
        externally_managed=False,
        writable=True,
    )


def carry_out(planned: Installation, steps: int | None = None) -> None:
    """The first `steps` actions, or all."""
    for action in planned.change.actions[:steps]:
        if action.state is FileState.REMOVE:
            Path(action.path).unlink()
        else:
            Path(action.path).write_bytes(planned.contents[action.path])


def states(planned: Installation) -> dict[str, FileState]:
    return {Path(action.path).name: action.state for action in planned.change.actions}


def test_first_installation_creates_all_files_arms_last_and_planning_changes_nothing(
    target: Target,
) -> None:
    actions = plan_install(target, [RULE])
    assert [*states(actions)] == [RUNTIME, FINDER, PATH_FILE]
    assert set(states(actions).values()) == {FileState.CREATE}
    assert not list(target.site_dir.iterdir())


def test_more_rules_replace_the_finder_alone_and_the_same_nothing(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    assert set(states(plan_install(target, [RULE])).values()) == {FileState.UNCHANGED}
    actions = plan_install(target, [OTHER_RULE])
    changed = {name for name, state in states(actions).items() if state is FileState.REPLACE}
    assert changed == {FINDER}
    carry_out(actions)
    assert read_site(target.site_dir).rules == (BOTH,)
    assert set(states(plan_install(target, [OTHER_RULE])).values()) == {FileState.UNCHANGED}


def test_removal_disarms_first_and_nothing_to_remove_is_no_action(target: Target) -> None:
    assert plan_remove(target).change.actions == ()
    carry_out(plan_install(target, [RULE]))
    actions = plan_remove(target)
    assert [*states(actions)] == list(reversed(FILES))
    carry_out(actions)
    assert not list(target.site_dir.iterdir())


@pytest.mark.parametrize("written", range(len(FILES) + 1))
@pytest.mark.parametrize(
    "rule", [RULE, OTHER_RULE, parse_rule("another=json")], ids=["more", "same", "unlike"]
)
def test_installation_cut_off_anywhere_can_be_finished_or_removed(
    target: Target, rule: PreloadRule, written: int
) -> None:
    carry_out(plan_install(target, [RULE]))
    carry_out(plan_install(target, [OTHER_RULE]), written)
    plan_remove(target)
    carry_out(plan_install(target, [rule]))
    assert set(read_site(target.site_dir).conditions.values()) == {FileCondition.OURS}


@pytest.mark.parametrize("removed", range(len(FILES) + 1))
def test_removal_cut_off_anywhere_can_be_finished(target: Target, removed: int) -> None:
    carry_out(plan_install(target, [RULE]))
    carry_out(plan_remove(target), removed)
    carry_out(plan_remove(target))
    assert not list(target.site_dir.iterdir())


def _write_foreign(path: Path) -> None:
    path.write_text("print('hello')\n")


def _link(path: Path) -> None:
    path.symlink_to("/nonexistent")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        pytest.param(_write_foreign, "preload/foreign-file", id="foreign"),
        pytest.param(_link, "preload/not-a-file", id="link"),
        pytest.param(Path.mkdir, "preload/not-a-file", id="directory"),
    ],
)
def test_what_is_not_ours_is_refused(
    target: Target, name: str, spoil: Callable[[Path], None], rule: str
) -> None:
    spoil(target.site_dir / name)
    with pytest.raises(PreparationError) as caught:
        plan_install(target, [RULE])
    assert [finding.rule for finding in caught.value.findings] == [rule]
    assert str(target.site_dir / name) in caught.value.message
    with pytest.raises(PreparationError):
        plan_remove(target)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("cut", [0, 1, 100, -3, None])
def test_a_file_that_was_cut_off_or_edited_is_refused_and_kept(
    target: Target, name: str, cut: int | None
) -> None:
    carry_out(plan_install(target, [RULE]))
    path = target.site_dir / name
    path.write_bytes(path.read_bytes()[:cut] + (b"# mine now\n" if cut is None else b""))
    left = path.read_bytes()

    for plan in (plan_remove, lambda target: plan_install(target, [RULE])):
        with pytest.raises(PreparationError) as caught:
            plan(target)
        assert f"mv {path} /tmp/" in (caught.value.hint or "")
        if cut is None:
            assert [each.rule for each in caught.value.findings] == ["preload/edited-file"]
    assert path.read_bytes() == left

    path.unlink()
    carry_out(plan_install(target, [RULE]))
    assert read_site(target.site_dir).is_whole


@pytest.mark.parametrize("name", FILES)
def test_one_file_of_the_shim_in_the_place_of_another_is_refused(target: Target, name: str) -> None:
    for other in set(FILES) - {name}:
        carry_out(plan_install(target, [RULE]))
        (target.site_dir / name).write_bytes((target.site_dir / other).read_bytes())

        assert read_site(target.site_dir).conditions[name] is FileCondition.EDITED
        with pytest.raises(PreparationError):
            plan_remove(target)
        (target.site_dir / name).unlink()


def test_files_of_another_version_are_ours_and_replaced(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    path = target.site_dir / RUNTIME
    head, body = b"\n".join(path.read_bytes().split(b"\n")[:2]), b"# older\n"
    digest = hashlib.sha256(body).hexdigest()
    path.write_bytes(head + f"\n{OWNER_LINE}, sha256 {digest}\n".encode() + body)

    assert read_site(target.site_dir).is_whole
    planned = plan_install(target, [RULE])
    assert states(planned)[RUNTIME] is FileState.REPLACE
    carry_out(planned)
    assert read_site(target.site_dir).contents == shim_files([RULE])


def test_every_refused_file_is_a_finding_of_its_own(target: Target) -> None:
    _write_foreign(target.site_dir / FINDER)
    _link(target.site_dir / PATH_FILE)
    with pytest.raises(PreparationError) as caught:
        plan_install(target, [RULE])
    assert {finding.rule for finding in caught.value.findings} == {
        "preload/foreign-file",
        "preload/not-a-file",
    }


@pytest.mark.parametrize(
    ("hindrance", "said"),
    [({"writable": False}, "cannot write"), ({"externally_managed": True}, "PEP 668")],
)
def test_target_that_may_not_be_written_is_refused(
    target: Target, hindrance: dict[str, bool], said: str
) -> None:
    refused = msgspec.structs.replace(target, **hindrance)
    with pytest.raises(UsageError, match=said):
        plan_install(refused, [RULE])
    carry_out(plan_install(target, [RULE]))
    with pytest.raises(UsageError, match=said):
        plan_remove(refused)


def test_shim_that_a_person_with_more_rights_installed_satisfies_one_with_fewer(
    target: Target,
) -> None:
    carry_out(plan_install(target, [RULE]))
    actions = plan_install(msgspec.structs.replace(target, writable=False), [RULE])
    assert set(states(actions).values()) == {FileState.UNCHANGED}


def test_replacing_forgets_the_rules_before_and_dropping_the_last_one_is_removal(
    target: Target,
) -> None:
    another = parse_rule("another=json")
    carry_out(plan_install(target, [OTHER_RULE]))
    carry_out(plan_install(target, [RULE, another], replace_rules=True))
    assert set(read_site(target.site_dir).rules) == {RULE, another}
    assert plan_remove(target, "nothing").change.actions == ()
    carry_out(plan_remove(target, "another"))
    assert read_site(target.site_dir).rules == (RULE,)
    carry_out(plan_remove(target, "serve"))
    assert not list(target.site_dir.iterdir())


def test_bytecode_and_the_rest_of_cut_off_writes_go_too(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    cache = target.site_dir / "__pycache__"
    cache.mkdir()
    (cache / "_ci_doctor_preload.cpython-39.opt-1.pyc").touch()
    (cache / "_ci_doctor_preload_rt.cpython-39.pyc.140234").touch()
    (target.site_dir / f".{FINDER}.abcd_123").touch()
    *before, last = plan_remove(target).change.actions
    assert last.path == str(cache)
    there = {*cache.iterdir(), target.site_dir / f".{FINDER}.abcd_123"}
    assert {Path(action.path) for action in before} >= there


RULES = (
    parse_rule("serve=json;transformers:GenerationConfig,AutoConfig"),
    parse_rule("vllm.cli=torch"),
)


def test_every_file_begins_with_its_removal_the_licence_and_the_owner() -> None:
    for content in shim_files(RULES).values():
        removal, licence, owner, body = content.decode().split("\n", 3)
        assert removal == REMOVAL_LINE
        assert licence == "# SPDX-License-Identifier: Apache-2.0"
        assert owner == f"{OWNER_LINE}, sha256 {hashlib.sha256(body.encode()).hexdigest()}"


def test_rules_are_embedded_as_a_literal_and_the_path_file_holds_one_import_line() -> None:
    files = shim_files(RULES)
    (rules,) = [
        node.value
        for node in ast.parse(files[FINDER]).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RULES"
    ]
    assert ast.literal_eval(rules) == {
        "serve": (("json", ()), ("transformers", ("GenerationConfig", "AutoConfig"))),
        "vllm.cli": (("torch", ()),),
    }
    lines = files[PATH_FILE].decode().splitlines()
    (line,) = [line for line in lines if not line.startswith("#")]
    assert line.startswith("import ")


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_in_the_syntax_of_python_3_8(name: str) -> None:
    ast.parse(shim_files(RULES)[name], feature_version=(3, 8))


def test_idle_finder_imports_nothing_but_sys_and_defines_no_class() -> None:
    body = ast.parse(shim_files(RULES)[FINDER]).body
    assert [
        ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom)
    ] == ["import sys"]
    assert not [node for node in body if isinstance(node, ast.ClassDef)]


TEXT = "serve=json:dumps"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    venv.create(tmp_path / "v", symlinks=True)
    return tmp_path / "v"


def site(directory: Path) -> list[str]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return sorted(path.name for path in (directory / "lib" / version / "site-packages").iterdir())


def test_a_shim_is_planned_installed_and_removed(directory: Path) -> None:
    targets = Interpreters(venvs=(str(directory),))
    before = site(directory)

    plan = install(targets, [TEXT], dry_run=True)
    assert (plan.verdict, plan.error, site(directory)) == (None, None, before)
    assert plan.summary.startswith("would write ")

    done = install(targets, [TEXT])
    assert (done.verdict, done.summary.split()[0]) == (Verdict.PASS, "wrote")
    facts = done.facts
    assert isinstance(facts, ChangeFacts)
    (target,) = facts.targets
    assert (target.state, target.rules, facts.dry_run) == ("changed", (TEXT,), False)
    assert "ci_doctor_preload.pth" in site(directory)

    again = install(targets, [TEXT])
    assert again.summary == "nothing to change in 1 interpreter"
    assert remove(targets).summary.startswith("removed ")
    assert site(directory) == before


def test_a_refused_interpreter_holds_back_the_others(directory: Path) -> None:
    before = site(directory)
    outcome = install(Interpreters(pythons=("no-such-python",), venvs=(str(directory),)), [TEXT])
    assert outcome.verdict is None
    assert outcome.error is not None
    assert outcome.error.kind is ErrorKind.USAGE
    assert [case.outcome for case in outcome.cases] == [CaseOutcome.ERROR, CaseOutcome.SKIPPED]
    assert site(directory) == before


def test_without_a_rule_there_is_nothing_to_install(directory: Path) -> None:
    with pytest.raises(UsageError, match="no rule"):
        install(Interpreters(venvs=(str(directory),)), [])
