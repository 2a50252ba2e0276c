"""Which enums of a repository are known for sure."""

from ci_doctor.lint.consistency.enums import enums
from ci_doctor.lint.consistency.repository import RepositoryFiles

METHOD = "from enum import Enum\nclass Method(Enum):\n    A = 'a'\n    B = 'b'\n"


def test_members_and_values_of_constants_are_known() -> None:
    enum = enums(RepositoryFiles({"p/a.py": METHOD}))["Method"]

    assert enum.members == {"A", "B"}
    assert enum.values == frozenset({"a", "b"})


def test_computed_values_leave_the_members_known() -> None:
    text = METHOD.replace("'b'", "make()")

    enum = enums(RepositoryFiles({"p/a.py": text}))["Method"]

    assert (enum.members, enum.values) == (frozenset({"A", "B"}), None)


def test_missing_may_accept_any_value() -> None:
    text = METHOD + "    @classmethod\n    def _missing_(cls, value):\n        return cls.A\n"

    assert enums(RepositoryFiles({"p/a.py": text}))["Method"].values is None


def test_a_name_of_two_classes_means_nothing_for_sure() -> None:
    assert enums(RepositoryFiles({"p/a.py": METHOD, "p/b.py": "class Method:\n    pass\n"})) == {}


def test_members_under_a_condition_and_bases_of_others_are_left_out() -> None:
    conditional = METHOD + "    if GPU:\n        C = 'c'\n"
    inherited = METHOD.replace("(Enum)", "(Base, Enum)")

    assert enums(RepositoryFiles({"p/a.py": conditional})) == {}
    assert enums(RepositoryFiles({"p/a.py": inherited})) == {}
