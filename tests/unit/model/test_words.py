# SPDX-License-Identifier: Apache-2.0
"""Names that are near a mistyped word."""

import pytest

from ci_doctor.model.words import did_you_mean, near_names, nearest


@pytest.mark.parametrize(
    ("word", "names", "hint"),
    [
        ("retrys", ["requests", "retries"], "did you mean `retries`?"),
        ("x", ["b", "a"], "known names: a, b"),
        ("x", [], None),
        ("", ["a"], "known names: a"),
        ("retries", ["retries"], "known names: retries"),
        ("retries", ["retries", "retrys"], "did you mean `retrys`?"),
    ],
)
def test_the_nearest_name_or_all_of_them(word: str, names: list[str], hint: str | None) -> None:
    assert did_you_mean(word, names) == hint
    assert did_you_mean(word, iter(reversed(names))) == hint


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("wiat", "wait"),
        ("rnu", "run"),
        ("lauch", "launch"),
        ("corectness", "correctness"),
        ("setup_env", "setup-env"),
        ("setupenv", "setup-env"),
        ("expl", "explain"),
        ("--report-dri", "--report-dir"),
        ("regresion", "regression"),
        ("PASS", "pass"),
        ("preload/shadow", "preload/shadowed"),
    ],
)
def test_a_slip_is_near(word: str, name: str) -> None:
    assert nearest(word, [name, "zzz", "q"]) == name


@pytest.mark.parametrize(
    ("word", "names", "near"),
    [
        ("ready_timeout", ["start_timeout", "request_timeout"], ["start_timeout"]),
        ("--retry", ["--reruns", "--retries"], ["--retries"]),
        ("--retry", ["--reruns", "--resume"], ["--reruns"]),
        ("dataset", ["requests", "devices"], ["requests"]),
        ("--workers", ["--concurrency"], ["--concurrency"]),
        ("uninstall", ["install", "remove"], ["remove"]),
        ("list", ["status", "save"], ["status"]),
        ("repro", ["report", "replay"], ["replay"]),
        ("oom", ["gpu/out-of-memory", "memory/low"], ["gpu/out-of-memory"]),
        (
            "shallow",
            ["version/shallow-clone", "doctor/shallow-clone"],
            ["doctor/shallow-clone", "version/shallow-clone"],
        ),
        ("timeout", [f"{name * 5}_timeout" for name in "abcdefg"], []),
        ("--memory", ["--retries", "--store"], []),
    ],
)
def test_a_name_may_be_near_in_meaning(word: str, names: list[str], near: list[str]) -> None:
    assert near_names(word, names) == near


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("42", "2"),
        ("42", "142"),
        ("--determinism", "--retries"),
        ("server.py", "replay"),
        ("python", "option"),
        ("vllm", "void"),
        ("75", "85"),
        ("strict", "restart"),
    ],
)
def test_what_only_shares_some_letters_is_not(word: str, name: str) -> None:
    assert nearest(word, [name]) is None
