# SPDX-License-Identifier: Apache-2.0
import pytest
from msgspec.structs import replace

from ci_doctor.drift.compare import compare, sentence
from ci_doctor.drift.snapshot import InterpreterSnapshot, PackageSnapshot
from ci_doctor.model.facts.preparing import ChangeArea, ChangeKind, Suspicion
from tests.support.snapshots import a_snapshot


def subjects(before: object, after: object) -> list[str]:
    drift = compare(before, after)  # type: ignore[arg-type]
    return [change.subject for change in drift.changes]


def test_equal_snapshots_have_no_drift() -> None:
    snapshot = a_snapshot(
        {"torch": "2.9.0"}, facts={"driver": "580.1"}, variables={"TZ": "UTC"}, system={"bash": "5"}
    )

    drift = compare(snapshot, snapshot)

    assert (drift.changes, drift.one_sided) == ((), ())


def test_changes_come_in_the_order_of_suspicion() -> None:
    before = a_snapshot(
        {"requests": "2.0", "transformers": "5.4.0", "torch": "2.9.0", "scipy": "1.15"},
        facts={"kernel": "6.1", "driver": "580.1", "libc": "glibc 2.36", "gpu.name": "H100"},
        variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TZ": "UTC"},
        system={"bash": "5.1", "libnccl2": "2.27"},
    )
    after = a_snapshot(
        {"requests": "2.1", "transformers": "5.5.0", "torch": "2.9.1", "scipy": "1.16"},
        facts={"kernel": "6.8", "driver": "580.2", "libc": "glibc 2.39", "gpu.name": "H200"},
        variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8", "TZ": "CET"},
        system={"bash": "5.2", "libnccl2": "2.28"},
    )

    assert subjects(before, after) == [
        "gpu.name",
        "driver",
        "torch",
        "transformers",
        "scipy",
        "CUBLAS_WORKSPACE_CONFIG",
        "requests",
        "libc",
        "TZ",
        "libnccl2",
        "kernel",
        "bash",
    ]


def test_added_and_removed_packages_are_named() -> None:
    before = a_snapshot({"a": "1.0", "gone": "2.0"})
    after = a_snapshot({"a": "1.0", "new": "3.0"})

    drift = compare(before, after)

    assert [sentence(each) for each in drift.changes] == ["new 3.0 added", "gone 2.0 removed"]


def test_other_bytes_under_the_same_version_are_named_file_by_file() -> None:
    old = PackageSnapshot(version="1.0", files={"x/a.py": "A", "x/b.py": "B", "x/c.py": "C"})
    new = PackageSnapshot(version="1.0", files={"x/a.py": "A", "x/b.py": "Z", "x/d.py": "D"})

    (change,) = compare(a_snapshot({"x": old}), a_snapshot({"x": new})).changes

    assert change.kind is ChangeKind.BYTES
    assert [(each.path, each.before, each.after) for each in change.files] == [
        ("x/b.py", "B", "Z"),
        ("x/c.py", "C", None),
        ("x/d.py", None, "D"),
    ]
    assert sentence(change) == "x 1.0: the same version, other bytes: x/b.py, x/c.py, x/d.py"


def test_many_files_are_counted_in_the_sentence_and_kept_in_the_value() -> None:
    old = PackageSnapshot(version="1.0", files={f"x/{number}.py": "A" for number in range(9)})
    new = PackageSnapshot(version="1.0", files={f"x/{number}.py": "B" for number in range(9)})

    (change,) = compare(a_snapshot({"x": old}), a_snapshot({"x": new})).changes

    assert len(change.files) == 9
    assert sentence(change).endswith("x/4.py and 4 more")


def test_files_that_one_side_does_not_know_are_no_difference() -> None:
    old = PackageSnapshot(version="1.0", unknown={"files": "there is no RECORD with hashes"})
    new = PackageSnapshot(version="1.0", files={"x/a.py": "A"})

    drift = compare(a_snapshot({"x": old}), a_snapshot({"x": new}))

    assert drift.changes == ()
    assert [(each.subject, each.unknown_in) for each in drift.one_sided] == [
        ("files of x", "before")
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"commit": "a" * 40}, {"commit": "b" * 40}, id="another-commit"),
        pytest.param({}, {"is_editable": True}, id="editable-now"),
        pytest.param({}, {"further_versions": ("0.9",)}, id="installed-twice"),
    ],
)
def test_one_version_from_another_origin_is_a_change(
    old: dict[str, object], new: dict[str, object]
) -> None:
    one = replace(PackageSnapshot(version="1.0"), **old)
    two = replace(PackageSnapshot(version="1.0"), **new)

    (change,) = compare(a_snapshot({"x": one}), a_snapshot({"x": two})).changes

    assert change.kind is ChangeKind.CHANGED
    assert change.before != change.after


def test_a_fact_that_one_side_does_not_know_is_no_difference() -> None:
    before = a_snapshot(facts={"driver": "580.1"})
    after = a_snapshot(unknown={"driver": "its version cannot be read"})

    drift = compare(before, after)

    assert drift.changes == ()
    (each,) = drift.one_sided
    assert (each.subject, each.unknown_in, each.known) == ("driver", "after", "580.1")
    assert each.reason == "its version cannot be read"


def test_a_fact_that_neither_side_knows_is_no_difference() -> None:
    snapshot = a_snapshot(unknown={"driver": "its version cannot be read"})

    drift = compare(snapshot, snapshot)

    assert (drift.changes, drift.one_sided) == ((), ())


def test_packages_that_neither_side_could_read_are_not_said_to_be_equal() -> None:
    snapshot = a_snapshot({"torch": "2.9.0"})
    (interpreter,) = snapshot.interpreters
    blind = replace(interpreter, packages={}, unknown={"packages": "they cannot be read"})
    snapshot = replace(snapshot, interpreters=(blind,))

    (each,) = compare(snapshot, snapshot).one_sided

    assert each.reason == "they cannot be read"


def test_a_variable_whose_value_is_not_kept_differs_by_its_presence_alone() -> None:
    before = a_snapshot(variables={"SECRET": None, "OTHER": None})
    after = a_snapshot(variables={"SECRET": None, "NEW": None})

    drift = compare(before, after)

    assert [(each.subject, each.kind) for each in drift.changes] == [
        ("NEW", ChangeKind.ADDED),
        ("OTHER", ChangeKind.REMOVED),
    ]
    assert {each.suspicion for each in drift.changes} == {Suspicion.INFORMATION}


def test_interpreters_in_other_directories_stand_for_each_other() -> None:
    before = a_snapshot({"x": "1.0"})
    (interpreter,) = before.interpreters
    after = replace(before, interpreters=(replace(interpreter, python="/elsewhere/bin/python"),))

    (change,) = compare(before, after).changes

    assert sentence(change) == "interpreter ./.venv/bin/python -> /elsewhere/bin/python"
    assert change.suspicion is Suspicion.INFORMATION


def test_an_interpreter_more_is_a_change() -> None:
    before = a_snapshot({"x": "1.0"})
    more = InterpreterSnapshot(python="/opt/venv/bin/python")
    after = replace(before, interpreters=(*before.interpreters, more))

    (change,) = compare(before, after).changes

    assert sentence(change) == "interpreter /opt/venv/bin/python added"


def test_with_several_interpreters_a_change_names_its_own() -> None:
    before = a_snapshot({"x": "1.0"})
    (own,) = before.interpreters
    other = replace(own, python="/opt/bin/python", packages={"y": PackageSnapshot(version="1")})
    newer = replace(other, packages={"y": PackageSnapshot(version="2")})

    (change,) = compare(
        replace(before, interpreters=(own, other)), replace(before, interpreters=(own, newer))
    ).changes

    assert sentence(change) == "y 1 -> 2 (/opt/bin/python)"


def test_packages_that_could_not_be_read_are_not_removed() -> None:
    before = a_snapshot({"x": "1.0"})
    (own,) = before.interpreters
    broken = replace(own, packages={}, unknown={"packages": "it is a link to itself"})

    drift = compare(before, replace(before, interpreters=(broken,)))

    assert drift.changes == ()
    assert [each.subject for each in drift.one_sided] == ["packages of ./.venv/bin/python"]


def test_another_version_of_python_can_explain_a_failure() -> None:
    before = a_snapshot()
    (own,) = before.interpreters
    after = replace(before, interpreters=(replace(own, version="cpython 3.12.5"),))

    (change,) = compare(before, after).changes

    assert (change.subject, change.suspicion) == ("python", Suspicion.FAILURE)


def test_only_the_areas_that_were_asked_for_are_compared() -> None:
    before = a_snapshot({"x": "1"}, facts={"driver": "1"}, variables={"TZ": "a"}, system={"b": "1"})
    after = a_snapshot({"x": "2"}, facts={"driver": "2"}, variables={"TZ": "b"}, system={"b": "2"})

    for area, subject in [
        (ChangeArea.PACKAGES, "x"),
        (ChangeArea.MACHINE, "driver"),
        (ChangeArea.VARIABLES, "TZ"),
        (ChangeArea.SYSTEM, "b"),
    ]:
        assert [each.subject for each in compare(before, after, {area}).changes] == [subject]


def test_contents_were_compared_only_if_both_sides_read_them() -> None:
    read = a_snapshot()
    not_read = a_snapshot(has_contents=False)

    assert compare(read, read).contents_compared
    assert not compare(read, not_read).contents_compared
