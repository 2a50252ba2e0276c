# SPDX-License-Identifier: Apache-2.0
"""An extension of Sphinx: the repository's own anchors, links to directories and to made pages, and the navigation."""

import os
import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from docutils import nodes
from made_links import with_links
from navigation import HOME, placed
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_ANCHOR = re.compile(r'<a id="([^"]+)">')
_DIRECTORY = "directory"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what this module adds to Sphinx."""
    app.add_transform(OwnAnchors)
    app.add_transform(DirectoryLinks)
    app.connect("builder-inited", _write_made_pages)
    app.connect("source-read", _link_to_made_pages)
    app.connect("source-read", _add_navigation)
    app.connect("html-page-context", _quick_navigation, priority=400)  # the theme's comes at 500
    app.connect("html-collect-pages", _directory_pages)
    app.connect("build-finished", _copy_home)
    return {"parallel_read_safe": False, "version": "1"}


class OwnAnchors(SphinxTransform):
    """`<a id="NAME"></a>` names its section or its place, so links to it are checked as all others are."""

    default_priority = 265  # after the sections have their ids, before MyST resolves links

    def apply(self, **_kwargs: Any) -> None:
        """Put a target, or a name of the section, in the place of each anchor."""
        slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        for raw in list(self.document.findall(nodes.raw)):
            anchor = _ANCHOR.fullmatch(raw.astext())
            if anchor is None:
                continue
            name, parent = anchor[1], raw.parent
            following = raw.next_node(descend=False, siblings=True)
            if isinstance(following, nodes.raw) and following.astext() == "</a>":
                parent.remove(following)
            slugs[name] = (raw.line, name, parent.astext())
            if isinstance(parent, nodes.title):
                parent.remove(raw)
                parent.parent["ids"].insert(0, name)
                self.document.ids[name] = parent.parent
            else:
                target = nodes.target("", "", ids=[name])
                raw.replace_self(target)
                self.document.ids[name] = target
        self.document.myst_slugs = slugs


class DirectoryLinks(SphinxTransform):
    """A link to a directory leads to its README, else to a page that lists its files."""

    default_priority = 266

    def apply(self, **_kwargs: Any) -> None:
        """Turn each such link into one to a page."""
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node["reftype"] != "myst" or node["refdomain"] is not None:
                continue
            _, path = self.env.relfn2path(node["reftarget"], self.env.docname)
            if not Path(path).is_dir():
                continue
            name = Path(path).relative_to(self.env.srcdir).as_posix()
            readme = f"{name}/README"
            if readme in self.env.all_docs or (Path(path) / "README.md").exists():
                node["refdomain"], node["reftarget"], node["reftargetid"] = "doc", readme, None
                continue
            _listed(self.env).add(name)
            depth = self.env.docname.count("/")
            uri = f"{'../' * depth}{name}/index.html"
            link = nodes.reference("", "", *node.children, refuri=uri, internal=True)
            node.replace_self(link)


def _listed(env: Any) -> set[str]:
    """The directories that get a page; kept with the environment between two builds."""
    if not hasattr(env, "listed_directories"):
        env.listed_directories = set()
    directories: set[str] = env.listed_directories
    return directories


def _write_made_pages(app: Sphinx) -> None:
    # The commands are imported here, not with this module: tests read its rules alone.
    from docs.site.made_pages import write_pages

    write_pages(Path(app.srcdir))


def _link_to_made_pages(_app: Sphinx, docname: str, content: list[str]) -> None:
    from docs.site.made_pages import places

    content[0] = with_links(content[0], f"{docname}.md", places())


def _add_navigation(app: Sphinx, docname: str, content: list[str]) -> None:
    if docname != HOME:
        return
    for group, pages in placed(app.env.found_docs).items():
        content[0] += (
            f"\n```{{toctree}}\n:hidden:\n:caption: {group}\n\n" + "\n".join(pages) + "\n```\n"
        )


def _quick_navigation(
    app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any
) -> None:
    """Make the navigation from the titles of pages alone.

    Sphinx copies all headings of all pages for each page, and drops them then: half of the time of a build.
    """
    env = app.env
    whole = context["toctree"]

    def navigation(**options: Any) -> Any:
        tocs = env.tocs
        env.tocs = {name: _title_of(toc) for name, toc in tocs.items()}
        try:
            return whole(**options)
        finally:
            env.tocs = tocs

    context["toctree"] = navigation


def _title_of(toc: Any) -> Any:
    """The table of contents of a page, cut down to the entry of its title."""
    title = toc.copy()
    for item in toc.children[:1]:
        title += nodes.list_item("", item.children[0].deepcopy())
    return title


def _directory_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each directory that a page links to, with copies of its files beside it."""
    for name in sorted(_listed(app.env)):
        rows = []
        for path in sorted((Path(app.srcdir) / name).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            inside = path.relative_to(Path(app.srcdir) / name).as_posix()
            # With this ending every browser shows it, and no server runs it.
            copy = Path(app.outdir) / name / f"{inside}.txt"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            rows.append(f'<li><a href="{quote(inside)}.txt"><code>{escape(inside)}</code></a></li>')
        body = f"<h1><code>{escape(name)}</code></h1><ul>{''.join(rows)}</ul>"
        yield (
            f"{name}/index",
            {"title": name, "body": body, "toc": "", "display_toc": False},
            "page.html",
        )


def _copy_home(app: Sphinx, error: Exception | None) -> None:
    """`index.html` is the home page: both lie at the root, so every link in it holds."""
    if error is None:
        home = Path(app.outdir) / f"{HOME}.html"
        shutil.copyfile(home, home.with_name("index.html"))
        os.utime(home.with_name("index.html"))
