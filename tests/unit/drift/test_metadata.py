# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.drift.metadata import parse_metadata

HOME = "Home-page: https://example.org/home\n"


@pytest.mark.parametrize(
    "label", ["Changelog", "Changes", "Release notes", "What's New", "History", "change-log"]
)
def test_the_well_known_labels_name_the_list_of_changes(label: str) -> None:
    text = f"Name: x\n{HOME}Project-URL: {label}, https://example.org/changes\n"

    assert parse_metadata(text).address == "https://example.org/changes"


def test_without_a_list_of_changes_the_home_page_stands_for_it() -> None:
    assert parse_metadata(f"Name: x\n{HOME}").address == "https://example.org/home"
    text = "Name: x\nProject-URL: Homepage, https://example.org/url\n"
    assert parse_metadata(text).address == "https://example.org/url"
    text = "Name: x\nProject-URL: Source Code, https://example.org/source\n"
    assert parse_metadata(text).address == "https://example.org/source"


@pytest.mark.parametrize("address", ["UNKNOWN", "", "javascript:alert(1)"])
def test_what_is_no_address_is_left_out(address: str) -> None:
    assert parse_metadata(f"Name: x\nHome-page: {address}\n").address is None


def test_a_description_is_not_read() -> None:
    text = "Name: x\nVersion: 1\n\nName: y\nVersion: 2\nHome-page: https://example.org\n"

    metadata = parse_metadata(text)

    assert (metadata.name, metadata.version, metadata.address) == ("x", "1", None)


def test_a_field_that_goes_on_is_no_other_field() -> None:
    text = "Name: x\nLicense: a\n        Version: 9\nVersion: 1\n"

    assert parse_metadata(text).version == "1"


def test_nothing_is_known_of_an_empty_file() -> None:
    metadata = parse_metadata("")

    assert (metadata.name, metadata.version, metadata.address) == (None, None, None)
