# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
from pathlib import Path

import pytest

from ci_doctor.checks.check import CheckStatus
from ci_doctor.checks.machine.locales import (
    CHECK,
    codeset_of,
    effective_locale,
    named_locales,
    python_encoding,
)
from tests.support.checks import check_context
from tests.support.cli import BARE

MISSING = "tlh_QO.UTF-8"
SHOWN = "import locale; print(locale.getpreferredencoding(False))"
NAMES = {"ANSI_X3.4-1968": "ASCII", "ascii": "ASCII", "utf-8": "UTF-8"}


def test_a_locale_that_is_not_installed_warns_by_its_variable(tmp_path: Path) -> None:
    environ = {"LC_ALL": MISSING, "LANG": "C"}

    result = CHECK.run(check_context(tmp_path, environ=environ))

    assert result.status is CheckStatus.WARNING
    (finding,) = [each.finding for each in result.problems]
    assert finding.summary == f"LC_ALL names the locale {MISSING}, which is not installed"
    assert finding.remedy == "export LC_ALL=C.UTF-8"


@pytest.mark.parametrize(
    "environ", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}, {"LC_ALL": "C.UTF-8", "LANG": MISSING}]
)
def test_plain_locales_are_ok(tmp_path: Path, environ: dict[str, str]) -> None:
    assert CHECK.run(check_context(tmp_path, environ=environ)).status is CheckStatus.OK


def test_python_in_ascii_warns(tmp_path: Path) -> None:
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0"}

    result = CHECK.run(check_context(tmp_path, environ=environ))

    assert [each.finding.rule for each in result.problems] == ["doctor/locale-not-utf8"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"LC_ALL": "C"},
        {"LC_ALL": "C.UTF-8"},
        {"LC_ALL": MISSING},
        {"LANG": MISSING, "PYTHONUTF8": "0"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LANG": "C", "PYTHONUTF8": "0"},
        {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_real_interpreter_takes_the_encoding_that_is_said(changes: dict[str, str]) -> None:
    codeset = codeset_of(effective_locale(changes) or "C")
    if effective_locale(changes) in {"", "C"}:
        codeset = None
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}

    ended = subprocess.run(
        [*BARE, "-c", SHOWN], env={**kept, **changes}, capture_output=True, text=True, check=True
    )

    encoding = ended.stdout.strip()
    assert NAMES.get(encoding, encoding) == python_encoding(changes, codeset)


def test_an_installed_locale_has_an_encoding_and_another_has_none() -> None:
    assert codeset_of("C.UTF-8") == "UTF-8"
    assert codeset_of(MISSING) is None


def test_the_encoding_of_a_locale_is_pythons() -> None:
    assert python_encoding({"LANG": "de_DE.ISO-8859-1"}, "ISO-8859-1") == "ISO-8859-1"
    assert python_encoding({"LANG": "de_DE", "PYTHONUTF8": "1"}, "ISO-8859-1") == "UTF-8"


def test_each_locale_counts_once_and_lc_all_alone() -> None:
    assert named_locales({"LANG": "a", "LC_CTYPE": "b", "LC_TIME": "b"}) == {
        "LC_CTYPE": "b",
        "LANG": "a",
    }
    assert named_locales({"LANG": "a", "LC_ALL": "b"}) == {"LC_ALL": "b"}
