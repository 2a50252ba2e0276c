# SPDX-License-Identifier: Apache-2.0
"""Files on the pages of an index, and the one that is read for each version."""

import json

from ci_doctor.compat.index.published import best_files, html_files, json_files

PAGE = "https://index/simple/lib/"


def test_a_page_in_html_gives_addresses_hashes_and_yanked_files() -> None:
    text = (
        '<a href="../../files/lib-1.0-py3-none-any.whl#sha256=abc">lib</a>'
        '<a href="lib-1.1.tar.gz" data-yanked="">lib</a>'
    )

    wheel, sdist = html_files(text, PAGE)

    assert wheel.address == "https://index/files/lib-1.0-py3-none-any.whl"
    assert (wheel.sha256, wheel.is_yanked, sdist.is_yanked) == ("abc", False, True)


def test_a_page_in_json_gives_the_same() -> None:
    file = {"filename": "lib-1.0-py3-none-any.whl", "url": "/f.whl", "hashes": {"sha256": "abc"}}

    (found,) = json_files(json.dumps({"files": [file]}).encode(), PAGE)

    assert (found.address, found.sha256) == ("https://index/f.whl", "abc")


def test_a_wheel_for_linux_is_read_before_one_for_another_system_and_an_sdist() -> None:
    names = (
        "lib-1.0.tar.gz",
        "lib-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "lib-1.0-cp311-cp311-win_amd64.whl",
        "lib-2.0.tar.gz",
        "library-3.0.tar.gz",
        "lib-not.whl",
    )
    links = "".join(f'<a href="{each}">x</a>' for each in names)

    found = best_files("lib", html_files(links, PAGE))

    assert [each.file.filename for each in found] == [names[1], names[3]]
