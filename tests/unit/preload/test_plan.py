# SPDX-License-Identifier: Apache-2.0
"""What installing and removing would do to a site directory."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.action import FileState, WriteFile
from ci_doctor.preload.plan import plan_drop, plan_install, plan_remove
from ci_doctor.preload.preload_rule import PreloadRule, parse_rule
from ci_doctor.preload.shim_files import FILES, FINDER, MANIFEST, PATH_FILE, RUNTIME
from ci_doctor.preload.site import FileCondition, read_site
from ci_doctor.preload.target import Target

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


def carry_out(actions: tuple[WriteFile, ...]) -> None:
    for action in actions:
        if action.state is FileState.REMOVE:
            action.path.unlink()
        else:
            action.path.write_bytes(action.content)


def states(actions: tuple[WriteFile, ...]) -> dict[str, FileState]:
    return {action.path.name: action.state for action in actions}


def test_first_installation_creates_all_files_and_arms_last(target: Target) -> None:
    actions = plan_install(target, [RULE])
    assert [action.path.name for action in actions] == [MANIFEST, RUNTIME, FINDER, PATH_FILE]
    assert set(states(actions).values()) == {FileState.CREATE}


def test_planning_changes_nothing(target: Target) -> None:
    plan_install(target, [RULE])
    assert not list(target.site_dir.iterdir())


def test_same_rules_again_leave_all_unchanged(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    assert set(states(plan_install(target, [RULE])).values()) == {FileState.UNCHANGED}


def test_more_rules_replace_the_finder_and_the_manifest_only(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    actions = plan_install(target, [OTHER_RULE])
    changed = {name for name, state in states(actions).items() if state is FileState.REPLACE}
    assert changed == {MANIFEST, FINDER}
    carry_out(actions)
    assert read_site(target.site_dir).rules == (BOTH,)
    assert set(states(plan_install(target, [OTHER_RULE])).values()) == {FileState.UNCHANGED}


def test_removal_disarms_first_and_forgets_last(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    actions = plan_remove(target)
    assert [action.path.name for action in actions] == list(reversed(FILES))
    carry_out(actions)
    assert not list(target.site_dir.iterdir())


def test_nothing_to_remove_is_no_action(target: Target) -> None:
    assert plan_remove(target) == ()


@pytest.mark.parametrize("written", range(len(FILES) + 1))
@pytest.mark.parametrize(
    "rule", [RULE, OTHER_RULE, parse_rule("another=json")], ids=["more", "same", "unlike"]
)
def test_installation_cut_off_anywhere_can_be_finished_or_removed(
    target: Target, rule: PreloadRule, written: int
) -> None:
    carry_out(plan_install(target, [RULE]))
    carry_out(plan_install(target, [OTHER_RULE])[:written])
    plan_remove(target)
    carry_out(plan_install(target, [rule]))
    assert set(read_site(target.site_dir).conditions.values()) == {FileCondition.OURS}


@pytest.mark.parametrize("removed", range(len(FILES) + 1))
def test_removal_cut_off_anywhere_can_be_finished(target: Target, removed: int) -> None:
    carry_out(plan_install(target, [RULE]))
    carry_out(plan_remove(target)[:removed])
    carry_out(plan_remove(target))
    assert not list(target.site_dir.iterdir())


def test_lost_manifest_is_made_again_for_the_same_rules(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    (target.site_dir / MANIFEST).unlink()
    carry_out(plan_install(target, [RULE]))
    assert set(read_site(target.site_dir).conditions.values()) == {FileCondition.OURS}


def test_a_shim_without_its_manifest_can_be_removed(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    (target.site_dir / MANIFEST).unlink()

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


@pytest.mark.parametrize("name", [RUNTIME, FINDER, PATH_FILE])
def test_edited_file_is_refused(target: Target, name: str) -> None:
    carry_out(plan_install(target, [RULE]))
    path = target.site_dir / name
    path.write_bytes(path.read_bytes() + b"# mine now\n")
    assert read_site(target.site_dir).conditions[name] is FileCondition.EDITED
    with pytest.raises(PreparationError) as caught:
        plan_install(target, [OTHER_RULE])
    assert [finding.rule for finding in caught.value.findings] == ["preload/edited-file"]
    with pytest.raises(PreparationError):
        plan_remove(target)


CUTS = {"empty": 0, "one byte": 1, "a third": 1 / 3, "all but a few bytes": -3}


def _cut(path: Path, cut: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * cut) if 0 < cut < 1 else int(cut)])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_of_ours_can_be_removed_and_repaired(
    target: Target, name: str, cut: str
) -> None:
    carry_out(plan_install(target, [RULE]))
    _cut(target.site_dir / name, CUTS[cut])

    assert read_site(target.site_dir).conditions[name] is FileCondition.DAMAGED
    assert read_site(target.site_dir).rules == (RULE,)
    carry_out(plan_install(target, [RULE]))
    assert set(read_site(target.site_dir).conditions.values()) == {FileCondition.OURS}

    _cut(target.site_dir / name, CUTS[cut])
    carry_out(plan_remove(target))
    assert not list(target.site_dir.iterdir())


@pytest.mark.parametrize("left", [b"", b"\0" * 100], ids=["a full disk", "a power loss"])
def test_a_shim_of_which_nothing_is_left_can_be_removed(target: Target, left: bytes) -> None:
    for name in FILES:
        (target.site_dir / name).write_bytes(left)

    carry_out(plan_remove(target))

    assert not list(target.site_dir.iterdir())


@pytest.mark.parametrize("name", [RUNTIME, FINDER, PATH_FILE])
def test_an_empty_file_alone_proves_nothing_and_is_kept(target: Target, name: str) -> None:
    (target.site_dir / name).write_bytes(b"")

    with pytest.raises(PreparationError):
        plan_remove(target)


def test_a_foreign_file_beside_a_damaged_one_is_kept(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    _cut(target.site_dir / FINDER, 1 / 3)
    _write_foreign(target.site_dir / RUNTIME)

    with pytest.raises(PreparationError) as caught:
        plan_remove(target)
    assert [finding.rule for finding in caught.value.findings] == ["preload/foreign-file"]


def test_another_manifest_of_that_name_is_foreign(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    (target.site_dir / MANIFEST).write_text('{"mine": true}')

    assert read_site(target.site_dir).conditions[MANIFEST] is FileCondition.FOREIGN
    with pytest.raises(PreparationError):
        plan_remove(target)


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


def test_replacing_forgets_the_rules_before(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    carry_out(plan_install(target, [OTHER_RULE], replace=True))
    assert read_site(target.site_dir).rules == (OTHER_RULE,)
    assert set(states(plan_install(target, [OTHER_RULE], replace=True)).values()) == {
        FileState.UNCHANGED
    }


def test_dropping_the_last_rule_is_removal(target: Target) -> None:
    another = parse_rule("another=json")
    carry_out(plan_install(target, [RULE, another]))
    assert plan_drop(target, "nothing") == ()
    carry_out(plan_drop(target, "another"))
    assert read_site(target.site_dir).rules == (RULE,)
    carry_out(plan_drop(target, "serve"))
    assert not list(target.site_dir.iterdir())


def test_bytecode_is_made_after_its_source_and_before_the_shim_is_armed(target: Target) -> None:
    tagged = msgspec.structs.replace(target, cache_tag="cpython-312", magic="cb0d0d0a")
    names = [action.path.name for action in plan_install(tagged, [RULE])]
    assert names == [
        MANIFEST, RUNTIME, FINDER,
        "_ci_doctor_preload_rt.cpython-312.pyc", "_ci_doctor_preload.cpython-312.pyc", PATH_FILE,
    ]  # fmt: skip


def test_manifest_outlives_everything_else(target: Target) -> None:
    carry_out(plan_install(target, [RULE]))
    cache = target.site_dir / "__pycache__"
    cache.mkdir()
    (cache / "_ci_doctor_preload.cpython-39.opt-1.pyc").touch()
    (target.site_dir / f".{FINDER}.abcd_123").touch()
    *before, last = plan_remove(target)
    assert last.path.name == MANIFEST
    assert {action.path for action in before} >= {
        cache,
        *cache.iterdir(),
        target.site_dir / f".{FINDER}.abcd_123",
    }
