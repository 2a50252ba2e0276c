"""Which options of a parser accept only values of a list."""

from ci_doctor.lint.consistency.choices import OptionChoices, option_choices
from ci_doctor.lint.python.program import parse


def choices(*arguments: str, after: str = "") -> dict[str, OptionChoices]:
    lines = [f"parser.add_argument({each})" for each in arguments]
    return option_choices(parse("a.py", "\n".join([*lines, "args = parser.parse_args()", after])))


def test_an_option_accepts_its_list_and_its_default() -> None:
    (known,) = choices("'-m', '--run-mode', choices=['a', 'b'], default='auto'").values()

    assert known.option == "--run-mode"
    assert known.accepted == {"a", "b", "auto"}
    assert known.namespaces == {"args"}


def test_parsers_of_one_program_accept_what_any_of_them_does() -> None:
    known = choices("'--mode', choices=['a']", "'--mode', choices=('b',), type=str")

    assert known["mode"].accepted == {"a", "b"}


def test_an_option_is_unknown_if_one_of_its_parsers_accepts_anything() -> None:
    assert choices("'--mode', choices=['a']", "'--mode'") == {}


def test_computed_lists_types_and_assigned_options_are_unknown() -> None:
    assert choices("'--mode', choices=MODES") == {}
    assert choices("'--mode', choices=['a'], type=fold") == {}
    assert choices("'--mode', choices=['a']", after="args.mode = 'c'") == {}
