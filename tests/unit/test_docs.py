"""The documentation says what the code does: pages made from it are built, and written pages name what it has."""

import re
from pathlib import Path

import pytest

from ci_doctor.commands.listing import COMMANDS
from ci_doctor.explanation import all_rules
from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import EXIT_CODE_MEANINGS, VERDICTS, Verdict
from ci_doctor.pytest_runs.trial import LEVEL, MOST_CONFIRMATIONS, WRONG_KIND_AT_MOST
from ci_doctor.pytest_runs.trial_plan import PLAIN_RUNS
from docs.site.made_pages import PAGES, made_page, write_pages

ROOT = Path(__file__).parents[2]
RULES = all_rules()
EXIT_CODES_PAGE = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")


def test_pages_made_from_code_are_written_where_git_ignores_them(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()

    write_pages(tmp_path)

    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for name in PAGES:
        assert (tmp_path / name).read_text(encoding="utf-8") == made_page(name)
        assert f"/{name}" in ignored


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_an_anchor(rule: str) -> None:
    assert f'<a id="{rule}"></a>' in made_page("docs/findings.md")


@pytest.mark.parametrize("code", ExitCode)
def test_the_page_of_exit_codes_has_every_code_as_explain_says_it(code: ExitCode) -> None:
    text = EXIT_CODE_MEANINGS[code]

    assert f"| {int(code)} | {text.meaning} | {text.remedy} |" in EXIT_CODES_PAGE


@pytest.mark.parametrize("verdict", Verdict)
def test_the_page_of_exit_codes_has_every_verdict_as_explain_says_it(verdict: Verdict) -> None:
    text = VERDICTS[verdict]

    assert f"| `{verdict}` | {text.meaning} | {text.remedy} |" in EXIT_CODES_PAGE


def test_the_page_of_pytest_has_the_figures_of_the_search_for_kinds() -> None:
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")

    for figure in (
        f"up to {PLAIN_RUNS} times",
        f"p <= {LEVEL}",
        f"At most {MOST_CONFIRMATIONS} conditions",
        f"at most {WRONG_KIND_AT_MOST:.1%}".replace("%", " %"),
    ):
        assert figure in page


def test_the_changelog_is_one_page_of_what_there_is() -> None:
    words = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()

    assert len(words) < 800, "before a release it says what there is; a change of it is no entry"


def test_every_rule_that_the_code_names_is_explained() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "ci_doctor").rglob("*.py")
    )
    named = set(
        re.findall(
            r'"((?:correctness|determinism|diagnose|import-race|preload|restart-check|services|setup-env|version|lint)/[a-z0-9-]+)"',
            source,
        )
    )

    assert named <= set(RULES), f"not in ci_doctor/explanation.py: {sorted(named - set(RULES))}"


def test_every_command_stands_on_the_page_of_commands() -> None:
    page = made_page("docs/commands.md")

    for name, (group, _) in COMMANDS.items():
        if group:
            assert f"`ci-doctor {name}" in page, name
