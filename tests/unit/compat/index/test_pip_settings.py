# SPDX-License-Identifier: Apache-2.0
"""Where pip looks for packages."""

from pathlib import Path

from ci_doctor.compat.index.pip_settings import pip_settings


def test_the_environment_stands_above_the_file_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://file/simple/\nextra-index-url = https://a/simple\n"
        "  https://b/simple\nfind-links = /wheels\n"
    )
    environ = {"PIP_CONFIG_FILE": str(file), "HOME": str(tmp_path)}

    of_file = pip_settings(environ)
    of_both = pip_settings({**environ, "PIP_INDEX_URL": "https://env/simple"})

    assert of_file.indexes == ("https://file/simple", "https://a/simple", "https://b/simple")
    assert of_file.find_links == ("/wheels",)
    assert of_both.indexes[0] == "https://env/simple"


def test_no_index_leaves_the_links_alone(tmp_path: Path) -> None:
    environ = {
        "PIP_CONFIG_FILE": "/dev/null",
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "/wheels",
    }

    found = pip_settings(environ)

    assert (found.indexes, found.find_links) == ((), ("/wheels",))
