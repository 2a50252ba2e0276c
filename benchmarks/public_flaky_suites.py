# SPDX-License-Identifier: Apache-2.0
"""Published suites with order-dependent tests, and what a person found by reading them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

# The order of a seed is that of these versions.
PYTEST = ("pytest==7.4.4", "pytest-randomly==4.1.0", "pytest-random-order==1.2.0")


@dataclass(frozen=True)
class VictimLabel:
    """Tests that break for the same reason: the kind, who breaks them, and what that leaves.

    culprits: tests, any of which does it; several that are needed together are one text with commas.
    item: a part of the sentence about what is left; empty if nobody read which it must be.
    """

    tests: Sequence[str]
    kind: str
    culprits: frozenset[str]
    item: str

    def objection(self, kind: str, culprit: str, left: Sequence[str]) -> str:
        """What an explanation has wrong; empty if it is right."""
        if kind != self.kind:
            return f"the kind is {self.kind}"
        if culprit not in self.culprits:
            return f"the culprit is one of {', '.join(sorted(self.culprits))}"
        if left and not any(self.item in each for each in left):
            return f"{self.item} is missing in {list(left)}"
        return ""


@dataclass(frozen=True)
class PublicSuite:
    """An sdist, how its tests run, and its labels.

    requires: what the tests need besides. always_failing: tests that fail in every order.
    """

    sdist: str
    arguments: Sequence[str]
    victims: Sequence[VictimLabel]
    requires: Sequence[str] = ()
    always_failing: Sequence[str] = ()


_I18N = "tests/test_i18n.py::"
_RELOADS = (
    "tests/test_utils.py::test_should_not_skip_cpython",
    "tests/test_utils.py::test_should_skip_non_cpython",
)
_MIN_AND_MAX = "tests/test_datetimes.py::test_min_and_max"

SUITES = (
    # Four tests set a module's `__file__` to None or delete it, and leave it so.
    PublicSuite(
        sdist="humanize==3.14.0",
        requires=("freezegun==1.5.5", "setuptools==65.5.0"),
        arguments=("-p", "pytest_randomly", "--randomly-seed=2", "tests/test_i18n.py"),
        victims=(
            VictimLabel(
                tests=tuple(
                    f"{_I18N}{name}"
                    for name in (
                        "test_i18n",
                        "test_intcomma",
                        "test_default_locale_path_defined__file__",
                        r"test_intword_plurals[es_ES-1000000-1.0 mill\xf3n]",
                        r"test_intword_plurals[es_ES-3500000-3.5 millones]",
                        r"test_intword_plurals[es_ES-6700000000000-6.7 trillones]",
                        "test_ordinal_genders[fr_FR-1-male-1er]",
                        "test_ordinal_genders[fr_FR-2-male-2e]",
                        r"test_ordinal_genders[es_ES-1-male-1\xba]",
                        r"test_ordinal_genders[es_ES-5-female-5\xaa]",
                        r"test_ordinal_genders[it_IT-3-male-3\xba]",
                    )
                ),
                kind="state",
                culprits=frozenset({
                    f"{_I18N}test_default_locale_path_null__file__",
                    f"{_I18N}test_default_locale_path_undefined__file__",
                    f"{_I18N}TestActivate::test_default_locale_path_null__file__",
                    f"{_I18N}TestActivate::test_default_locale_path_undefined__file__",
                }),
                item="humanize.i18n.__file__",
            ),
        ),
    ),
    # Two tests reload the module, so that its classes are not those that others imported. A test that
    # fails for it leaves the clock frozen, which breaks more tests.
    PublicSuite(
        sdist="freezegun==1.0.0",
        requires=("setuptools==65.5.0",),
        arguments=("-p", "pytest_randomly", "--randomly-seed=2"),
        victims=(
            VictimLabel(
                tests=(_MIN_AND_MAX, "tests/test_class_import.py::test_import_after_start"),
                kind="state",
                culprits=frozenset(_RELOADS),
                item="freezegun.api.",
            ),
            VictimLabel(
                tests=(
                    "tests/test_datetimes.py::test_time_ns",
                    "tests/test_errors.py::test_ignore_errors_in_start[ImportError]",
                    "tests/test_errors.py::test_ignore_errors_in_start[TypeError]",
                    "tests/test_class_import.py::test_can_ignore_email_module",
                    "tests/test_class_import.py::test_fake_uses_real_when_ignored",
                    "tests/test_uuid.py::test_uuid1_future",
                ),
                kind="state",
                culprits=frozenset(f"{each}, {_MIN_AND_MAX}" for each in _RELOADS),
                item="",
            ),
        ),
        # It decorates what is callable; static methods are so since Python 3.10.
        always_failing=(
            "tests/test_datetimes.py::Tester::test_class_decorator_respects_staticmethod",
        ),
    ),
    # A bar whose start fails stays among the listeners of the output; what is printed starts it again.
    PublicSuite(
        sdist="progressbar2==3.53.1",
        requires=("freezegun==1.5.5", "setuptools==65.5.0", "dill==0.3.9"),
        arguments=(
            "-p", "random_order.plugin", "--random-order-bucket=global", "--random-order-seed=1",
        ),
        victims=(
            VictimLabel(
                tests=("tests/test_terminal.py::test_double_stdout_redirection",),
                kind="state",
                culprits=frozenset({"tests/test_failure.py::test_minus_max_value"}),
                item="progressbar.utils.streams.listeners",
            ),
        ),
    ),
)  # fmt: skip
