# SPDX-License-Identifier: Apache-2.0
"""Makes the page of a package index from README.md: all else stands in pyproject.toml.

An index shows the page without the repository, so each link to a file of it becomes an address. The addresses are
those of [tool.ci-doctor-readme] in pyproject.toml. release/plugin.py does the same for the plugin's own repository.
"""

import posixpath
import re
import tomllib
from pathlib import Path

from setuptools import Distribution, setup

ROOT = Path(__file__).resolve().parent
# `[text](path)` or `![text](path)` whose path is neither an address nor a place on the page.
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)\s]+)\)")
RELEASE = re.compile(r"\d+\.\d+(\.\d+)?((a|b|rc)\d+)?")


def with_addresses(page: str, revision: str, *, folder: str = "") -> str:
    """`page` with the address of each file of the repository at `revision`, a tag or a branch.

    `folder` is where the page stands; a link to a file in it stays, if it is not the root.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    places = settings["tool"]["ci-doctor-readme"]

    def absolute(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        if folder and path.startswith(f"{folder}/"):
            return link[0]
        place = places["images" if link["mark"] else "files"].format(revision=revision)
        return f"{link['mark']}[{link['text']}]({place}{path})"

    return LINK.sub(absolute, page)


class Described(Distribution):
    """A distribution whose page names the files of its own release."""

    def finalize_options(self) -> None:
        """Write the addresses as soon as setuptools-scm has set the version."""
        super().finalize_options()
        version = self.metadata.version or ""
        revision = f"v{version}" if RELEASE.fullmatch(version) else "main"
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        self.metadata.long_description = with_addresses(page, revision)


if __name__ == "__main__":
    setup(
        distclass=Described,
        # setuptools wants a page before it reads the version.
        long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
        long_description_content_type="text/markdown",
    )
