# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.scaffold.reading.shell_words import commands_in
from ci_doctor.scaffold.reading.source_file import TextKind
from ci_doctor.scaffold.reading.variables import (
    assignments,
    is_opaque,
    resolved,
    unknown_variables,
    values_at,
)

TEXT = """\
MODEL="acme/a"
export PORT=${PORT:-8000}
EXTRA='--a 1 --b 2'
COUNT=$(nproc)
FIRST="${1:-one}"
NEXT=$MODEL-next
"""


def values(text: str, kind: TextKind = TextKind.SHELL) -> dict[str, str]:
    return {name: value for _, name, value in assignments(text.split("\n"), kind)}


def filled(line: str, text: str = TEXT) -> tuple[str, ...]:
    return resolved(commands_in(line)[0].words, values(text))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('serve "$MODEL"', ("serve", "acme/a")),
        ("serve $PORT", ("serve", "8000")),
        ("serve $EXTRA", ("serve", "--a", "1", "--b", "2")),
        ('serve "$EXTRA"', ("serve", "--a 1 --b 2")),
        ('serve "$@" $*', ("serve",)),
        ("serve $FIRST $NEXT", ("serve", "one", "acme/a-next")),
        ("serve ${OTHER:-x}", ("serve", "x")),
    ],
)
def test_variables_have_the_values_that_the_script_gives_them(
    line: str, expected: tuple[str, ...]
) -> None:
    assert filled(line) == expected


def test_what_nobody_sets_is_named_and_what_a_command_prints_is_opaque() -> None:
    made = filled('serve "$NOBODY" ${NOBODY} $ELSE')
    assert unknown_variables(made) == ("NOBODY", "ELSE")
    assert not is_opaque(made)
    for line in ("serve $COUNT", "serve $1", "serve ${MODEL##*/}", "serve $(id)"):
        assert is_opaque(filled(line)), line


def test_a_variable_that_is_set_by_itself_does_not_go_round_in_a_circle() -> None:
    assert unknown_variables(filled("serve $A", "A=$B\nB=$A")) == ("A",)


def test_a_suffix_is_cut_and_a_default_may_hold_another_one() -> None:
    assert filled("serve ${A%/} ${B:-${C:-x}}", "A=/a/") == ("serve", "/a", "x")
    assert is_opaque(filled("serve ${A%%*}", "A=/a/"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TextKind.MAKEFILE, "A ?= x y"),
        (TextKind.DOCKERFILE, "ENV A=x"),
        (TextKind.DOCKERFILE, "ARG A x"),
        (TextKind.YAML, '  A: "x"'),
        (TextKind.YAML, "  - A=x"),
    ],
)
def test_each_kind_of_file_sets_variables_in_its_own_way(kind: TextKind, text: str) -> None:
    assert values(text, kind)["A"].startswith("x")


def test_prose_with_an_equals_sign_sets_nothing_of_another_kind() -> None:
    assert values("A=x", TextKind.TOML) == {}


def test_values_that_double_are_opaque_and_take_no_time() -> None:
    doubling = "A0=\n" + "".join(f'A{at}="$A{at - 1}$A{at - 1}"\n' for at in range(1, 40))
    assert is_opaque(filled("serve $A39", doubling))
    longer = "A=x\n" + 'A="$A$A"\n' * 40
    made = values(longer)
    assert is_opaque(filled("serve $A", f"B={'x' * 20_001}\nA=$B"))
    assert len(made["A"]) < 100
    above = values_at(99, list(assignments(longer.split("\n"), TextKind.SHELL)))
    assert len(above["A"]) <= 50_000
    chain = "A0=x\n" + "".join(f"A{at}=$A{at - 1}\n" for at in range(1, 2_000))
    assert is_opaque(filled("serve $A1999", chain))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("serve ${MODEL:-$(cat model.txt)}", ""),
        ("serve ${MODEL:-`cat model.txt`}", ""),
        ("serve ${A:-${B:-${C:-{d}}}}", ""),
    ],
)
def test_a_default_that_a_command_prints_is_opaque(line: str, text: str) -> None:
    assert is_opaque(filled(line, text))


def test_a_dollar_that_names_nothing_is_one() -> None:
    assert filled('serve "$RE"', 'RE="^foo$"') == ("serve", "^foo$")
    assert filled('serve "${RE:-a$}"') == ("serve", "a$")
