# SPDX-License-Identifier: Apache-2.0
"""Manual pages, read by the programs that show them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_doctor.cli import root
from ci_doctor.commands.manual.man_page import MARK, man_page
from ci_doctor.commands.manual.reading import manuals
from tests.support.golden import assert_matches_golden

MANUALS = list(manuals(root))
VERSION = "1.2.3"
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"]  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("man1")
    for manual in MANUALS:
        (directory / f"{manual.page}.1").write_text(man_page(manual, VERSION))
    return sorted(directory.iterdir())


def test_a_page_is_what_was_approved() -> None:
    (manual,) = (each for each in MANUALS if each.page == "ci-doctor-cache-verify")

    assert_matches_golden(man_page(manual, VERSION), "man/ci-doctor-cache-verify.1")


def test_every_page_has_the_sections_of_a_manual_page(pages: list[Path]) -> None:
    for page in pages:
        text = page.read_text()
        headings = [each.strip('"') for each in re.findall(r"^\.SH (.*)$", text, re.MULTILINE)]
        assert [each for each in headings if each in SECTIONS] == SECTIONS, page.name
        assert text.startswith(MARK)


def test_a_page_holds_no_date_and_the_version_that_it_is_given(pages: list[Path]) -> None:
    for page in pages:
        (title,) = re.findall(r"^\.TH (.*)$", page.read_text(), re.MULTILINE)
        assert title.endswith(' 1 "" "ci\\-doctor 1.2.3" "User Commands"')


def test_every_page_is_ascii(pages: list[Path]) -> None:
    for page in pages:
        assert page.read_text().isascii()


def test_a_page_is_led_to_by_another_one(pages: list[Path]) -> None:
    names = {page.stem for page in pages}
    linked = set()
    for page in pages:
        see_also = page.read_text().rpartition(".SH SEE ALSO")[2].replace("\\-", "-")
        linked |= set(re.findall(r"\\fB(\S+)\\fR\(1\)", see_also))

    assert linked == names


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_has_no_warning(pages: list[Path]) -> None:
    # -z: the pages are read, and nothing is printed.
    ran = subprocess.run(
        ["groff", "-ww", "-rCHECKSTYLE=3", "-z", "-man", "-Tutf8", *pages],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("lexgrog") is None, reason="needs man-db")
def test_apropos_reads_the_name_and_what_the_command_does(pages: list[Path]) -> None:
    ran = subprocess.run(["lexgrog", *pages], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout
    assert len(ran.stdout.splitlines()) == len(pages)
    assert 'ci-doctor-wait - wait until a running process is ready or dead"' in ran.stdout


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="needs mandoc")
def test_mandoc_has_no_warning(pages: list[Path]) -> None:
    # What it is asked for: no date, and lines as long as paragraphs.
    ran = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True, check=False)  # fmt: skip
    rest = [line for line in ran.stdout.splitlines() if "missing date" not in line]

    assert rest == []
