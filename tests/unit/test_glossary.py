"""The glossary's pictures are what the code says, and its words stand in the pages."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.looks import blocks
from ci_doctor.model.outcome import Verdict
from docs.site.made_links import with_links
from docs.site.made_pages import PAGES, made_page, places
from tests.support.documents.page import page_names

DOCS = Path(__file__).parents[2] / "docs"
GLOSSARY = made_page("docs/glossary.md")
HEADINGS = re.findall(r"^(##|###) (.+)$", GLOSSARY, re.MULTILINE)
WORDS = [name.lower().replace(" ", "-") for level, name in HEADINGS if level == "###"]
SVG = "{http://www.w3.org/2000/svg}"


def drawing() -> ModuleType:
    path = DOCS / "images" / "draw_words.py"
    spec = importlib.util.spec_from_file_location("draw_words", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["arms-and-starts", "disputed", "relabeling"])
def test_pictures_of_words_are_those_of_the_script(name: str) -> None:
    picture = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")

    assert drawing().PICTURES[name]() == picture
    assert f"images/{name}.svg" in GLOSSARY


@pytest.mark.parametrize("name", ["arms-and-starts", "disputed", "relabeling"])
def test_pictures_of_words_can_be_read_without_seeing_them(name: str) -> None:
    root = ET.parse(DOCS / "images" / f"{name}.svg").getroot()

    assert root.get("role") == "img"
    for part in ("title", "desc"):
        element = root.find(f"{SVG}{part}")
        assert element is not None
        assert element.text
    assert "prefers-color-scheme: dark" in ET.tostring(root, encoding="unicode")


def test_orders_of_the_pictures_are_orders_that_the_blocks_allow() -> None:
    module = drawing()
    first, second = blocks(Rules(), archived=False)[:2]

    for order in (module.ORDER, *module.LABELINGS):
        begin, rest = order[: first.size], order[first.size :]
        assert begin.count("A") == first.baseline
        assert (rest.count("A"), len(rest)) == (second.baseline, second.size)


def test_the_p_value_of_the_glossary_is_that_of_the_picture() -> None:
    every = drawing().differences()
    extreme = sum(each >= 1 - 1e-9 for each in every)

    assert f"{extreme} of {len(every)} labelings" in GLOSSARY


def test_every_verdict_is_a_word_of_the_glossary_or_named_there() -> None:
    for verdict in Verdict:
        assert f"`{verdict}`" in GLOSSARY, verdict


def test_each_word_stands_in_italics_where_the_site_links_it() -> None:
    linked: set[str] = set()
    for page in {*page_names()} - {*PAGES}:
        text = with_links((DOCS.parent / page).read_text(encoding="utf-8"), page, places())
        linked.update(re.findall(r"\[\*[^]]+\*\]\([^)]*glossary\.md#([a-z-]+)", text))

    assert linked == set(WORDS), "each on the page where it first stands"
