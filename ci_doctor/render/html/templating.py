# SPDX-License-Identifier: Apache-2.0
"""Pure. Templates -> text: how values are shown in them, and what every page has."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from msgspec import ValidationError, convert

from ci_doctor.decodable import decodable
from ci_doctor.model.outcome import Report
from ci_doctor.render import formatting
from ci_doctor.render.formatting import Tone, headline, one_line, printable, symbol, tone
from ci_doctor.render.markdown import is_plain_path

if TYPE_CHECKING:
    from jinja2 import Environment


_QUOTED = re.compile(r"`([^`\n]+)`")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_MOST_OF_A_VALUE = 300


Shown = dict[str, Any]  # what a template shows, by its names there


def words(sentence: str) -> Any:
    """`sentence` as text of a page: what stands in backticks is code."""
    from markupsafe import Markup, escape

    # split() with a group returns what is between the matches and the groups in turn.
    pieces = _QUOTED.split(printable(_block(sentence)))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def clipped(text: str, most: int) -> str:
    """`text`, or its first `most` characters and how many are missing."""
    missing = len(text) - most
    if missing <= 0:
        return text
    return f"{text[:most]}… ({missing:,} more characters)"


def clipped_before(text: str, most: int) -> str:
    """`text`, or its last `most` characters and how many are missing."""
    missing = len(text) - most
    if missing <= 0:
        return text
    return f"({missing:,} characters before) …{text[-most:]}"


def closed(sentence: str) -> str:
    """`sentence` with a capital and a full stop."""
    text = sentence.strip()
    if not text:
        return text
    # Not capitalize(), which makes the rest of the sentence small: names keep their letters.
    capital = text[0].upper() + text[1:]
    if capital[-1] in ".!?":
        return capital
    return f"{capital}."


def day(instant: str) -> str:
    """`2026-11-03 09:30:00 UTC`; text of any other form as it is."""
    match = _INSTANT.fullmatch(instant)
    if match is None:
        return instant
    return f"{match[1]} {match[2]} UTC"


def value(fact: Any) -> str:
    """The value of a fact in one line: text as it is, `unknown` for None, anything else as JSON."""
    if fact is None:
        return "unknown"
    if not isinstance(fact, str):
        fact = json.dumps(fact, ensure_ascii=False, sort_keys=True)
    return clipped(fact, _MOST_OF_A_VALUE)


Part = TypeVar("Part")


def part(facts: Mapping[str, Any], name: str, form: type[Part]) -> Part | None:
    """`facts[name]` as `form`; None if it is missing or anything else."""
    if name not in facts:
        return None
    try:
        return convert(facts[name], decodable(form))
    # UnicodeEncodeError: msgspec parses a string as a number where one is expected, and a lone surrogate stops it.
    except (ValidationError, UnicodeEncodeError):
        return None


_EXCERPT = 4000
_LINE = 1000
_EXCERPT_OF_MANY = 400  # a line of which a page may hold a hundred
_NAME = 100  # of a step, a branch, an agent: of which a page may hold a thousand
_ICON_COLOURS = {
    Tone.SUCCESS: "#1a7f4b",
    Tone.INFO: "#57606a",
    Tone.WARNING: "#b06f00",
    Tone.ERROR: "#c0262d",
}


def page(name: str, report: Report, *, style: str, script: str, values: Mapping[str, Any]) -> str:
    """The template `name` with `values`, as a page of `report`; ends with a newline.

    `style` and `script` are all that a browser takes, by their hash.
    """
    urgency = tone(report)
    text = (
        _environment()
        .get_template(name)
        .render(
            report=report,
            head=headline(report),
            tone=urgency.value,
            style=_trusted(style),
            script=_trusted(script),
            policy=_policy(style, script),
            icon=_icon(urgency),
            **values,
        )
    )
    return text.rstrip("\n") + "\n"


def sheet(name: str, **values: Any) -> str:
    """The style or script of that name.

    It is rendered apart from its page, because the policy holds the hash of the very text in it.
    Unlike a page it escapes nothing: `values` are figures of ours.
    """
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> "Environment":
    # Loaded for a page only: most commands write none, and jinja2 is a good part of their start.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        # Read from the package, so that a wheel in a zip file works too.
        loader=PackageLoader("ci_doctor.render.html", "templates"),
        autoescape=True,
        # A misspelt name in a template must fail a test, and not leave a gap in the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Last, for every value: what reaches the page is valid UTF-8 without control characters.
        finalize=_harmless,
    )
    environment.filters |= {
        "duration": formatting.duration,
        "place": formatting.place,
        "number": formatting.number,
        "cell": formatting.figure,
        "percent": formatting.percent,
        "probability": formatting.probability,
        "symbol": symbol,
        "one_line": lambda text: clipped(one_line(text), _LINE),
        "line": lambda text: clipped(one_line(text), _EXCERPT_OF_MANY),
        # It may stand on the page a thousand times.
        "short": lambda text, most=_NAME: formatting.short_line(text, most),
        "block": _block,
        "words": words,
        "day": day,
        "closed": closed,
        # A link to a file beside the page; None for any other, or if it needs escapes.
        "address": lambda path: path if is_plain_path(path) else None,
        "value": value,
    }
    environment.globals["amount"] = formatting.amount
    return environment


def _block(text: str) -> str:
    return clipped(text.strip("\n"), _EXCERPT)


def _harmless(value: Any) -> Any:
    """`value` with nothing in it that acts.

    Markup is text of ours, or was made of values that came through here.
    """
    from markupsafe import Markup

    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - a file of this package


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and only what has our hash runs: https://www.w3.org/TR/CSP3/."""
    # The icon is data; default-src covers neither of the last two.
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """The hash-source of CSP for `text`, which is all between the tags."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _icon(tone: Tone) -> str:
    """A disc in the verdict's colour, as an address that loads nothing."""
    colour = _ICON_COLOURS[tone]
    circle = f'<circle cx="8" cy="8" r="7" fill="{colour}"/>'
    disc = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{circle}</svg>'
    return f"data:image/svg+xml,{quote(disc)}"
