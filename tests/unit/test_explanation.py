# SPDX-License-Identifier: Apache-2.0
"""What `explain` answers to each kind of word."""

from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.explanation import all_rules, explain, glossary
from ci_doctor.model.facts.preparing import ExplainFacts
from ci_doctor.pytest_runs.explanation import MEANINGS

ERROR = "ImportError: cannot import name 'GenerationConfig' from 'transformers' (/x/__init__.py)"


def explained(word: str) -> ExplainFacts:
    facts = explain(word).facts
    assert isinstance(facts, ExplainFacts)
    return facts


@pytest.mark.parametrize(
    "word", ["import-race", "cannot import name", "partially initialized module", ERROR]
)
def test_the_error_of_an_import_leads_to_probe_trigger_and_rule(word: str) -> None:
    told = explained(word).remedy

    steps = [told.index(step) for step in ("probe", "--confirm", "preload install")]
    assert steps == sorted(steps)
    assert "cannot import name 'X' from partially initialized module 'Y'" in explain(word).summary


def test_the_names_of_an_error_stand_in_the_command() -> None:
    assert "`ci-doctor import-race probe transformers:GenerationConfig`" in explained(ERROR).remedy


def test_the_group_of_a_rule_lists_its_rules() -> None:
    for rule in all_rules():
        group = rule.partition("/")[0]
        if group != "import-race":
            assert f"`{rule}`" in explain(group).summary


@pytest.mark.parametrize(
    "text",
    [
        "python/exception",
        "RuntimeError: it broke",
        'Traceback (most recent call last):\n  File "a.py", line 1\nRuntimeError: it broke',
    ],
)
def test_a_log_rule_and_a_message_that_it_recognises_are_explained(text: str) -> None:
    facts = explained(text)

    assert (facts.rule, facts.failure_class, facts.retry) == ("python/exception", "code-bug", "ask")
    assert facts.meaning


def test_a_rule_of_the_repository_answers_too(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nid = "team/licence"\nrole = "cause"\nclass = "network"\nliterals = ["licence"]\n'
        'regex = "no licence"\nexplanation = "It is used up."\nremedy = "Ask."\nmatch = ["no licence"]\n'
    )

    outcome = explain("no licence left", lambda: (rules,))

    assert "It is used up." in outcome.summary


def test_a_message_that_no_rule_recognises_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no rule recognises"):
        explain("all is well in here")


def test_the_last_words_of_a_command_are_a_rule_too() -> None:
    meaning = explained("generic/last-output").meaning

    assert meaning == "The command failed, and these are its last words."


def test_a_rule_of_lint_is_shown_with_code_that_it_reports_and_code_that_it_does_not() -> None:
    titles = [table.title for table in explain("gate/success-on-error").tables]

    assert titles == ["What to do", "Reported: ci/gate.py", "Not reported: ci/gate.py"]


def test_the_rule_of_flaky_kinds_lists_each_kind_with_how_to_mend_it() -> None:
    _, listed = explain("test-run/flaky-kind").tables

    for kind, text in MEANINGS.items():
        assert any(
            row.label.startswith(f"{kind}: ") and row.label.endswith(text.mend)
            for row in listed.rows
        )


@pytest.mark.parametrize("word", ["start", "Arms", "shim", "look", "proof", "exact test"])
def test_a_word_of_the_glossary_is_explained_without_links(word: str) -> None:
    summary = explain(word).summary

    assert summary.lower().startswith(f"{word.lower().removesuffix('s')}: ")
    assert "](" not in "".join(
        explain(each.word).summary for part in glossary() for each in part.words
    )


def test_a_word_that_is_a_verdict_too_has_both_meanings() -> None:
    outcome = explain("pass")

    assert outcome.summary.startswith("pass: Everything was answered")
    assert [table.title for table in outcome.tables] == ["What to do", "In an experiment"]


@pytest.mark.parametrize(
    "error",
    [
        "ReadError",
        "WriteError",
        "ConnectError",
        "RemoteProtocolError",
        "chat-05: ReadError",
        "ReadError (2 tries)",
        "ConnectError: All connection attempts failed",
    ],
)
def test_the_name_of_a_broken_connection_is_explained_with_what_to_try(error: str) -> None:
    assert "connection" in explained(error).meaning
    assert "--concurrency" in explained(error).remedy


def test_a_pool_without_a_free_connection_never_blames_the_server() -> None:
    assert "The server has never had this request" in explained("PoolTimeout").remedy


@pytest.mark.parametrize(
    ("status", "meant"),
    [("124", "timeout(1)"), ("127", "does not find"), ("137", "128+9: SIGKILL")],
)
def test_a_status_of_a_command_is_explained_by_what_shells_mean_by_it(
    status: str, meant: str
) -> None:
    assert meant in explain(status).summary


@pytest.mark.parametrize("word", ["circumstance", "3", "200", "0137"])
def test_a_word_and_a_status_that_mean_nothing_are_usage_errors(word: str) -> None:
    with pytest.raises(UsageError):
        explain(word)


def test_a_pasted_message_proves_nothing_about_the_job() -> None:
    advice = str(explain("OSError: [Errno 28] No space left on device").tables)

    assert "lies outside" not in advice
    assert "`ci-doctor diagnose LOG` reads the whole log" in advice
