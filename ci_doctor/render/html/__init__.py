# SPDX-License-Identifier: Apache-2.0
"""Report -> one HTML file that loads nothing and may load nothing: see its Content-Security-Policy."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec.structs import replace

from ci_doctor.model.report import Report
from ci_doctor.render.figures import amount, duration, figure, is_sentence, place, size
from ci_doctor.render.headline import Tone, headline, symbol, tone, worst_first
from ci_doctor.render.html import texts
from ci_doctor.render.html.drawing import drawn
from ci_doctor.render.safe_text import cleaned, one_line, printable

if TYPE_CHECKING:
    from jinja2 import Environment

_EXCERPT = 4000
_LINE = 1000
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_+=,-][A-Za-z0-9_+=,./-]*")
_ICON_COLOURS = {
    Tone.SUCCESS: "#1a7f4b",
    Tone.INFO: "#57606a",
    Tone.WARNING: "#b06f00",
    Tone.ERROR: "#c0262d",
}


def render(report: Report) -> str:
    """`report` as a page of HTML, ending with a newline.

    Every text in it is escaped and printable; the only script and style that a browser takes are the page's own, by
    their hash. What `facts` holds for a picture is drawn, and left out where it is missing or of another form.
    """
    shown: Report = replace(cleaned(report), facts={})
    environment = _environment()
    style, script = (
        environment.get_template(name).render() for name in ("style.css.j2", "script.js.j2")
    )
    page = environment.get_template("page.html.j2").render(
        report=shown,
        head=headline(report),
        tone=tone(report).value,
        findings=worst_first(shown),
        style=_trusted(style),
        script=_trusted(script),
        policy=_policy(style, script),
        icon=_icon(tone(report)),
        # From the facts as they are: their controls are to be shown, not taken out.
        drawn=drawn(report.facts),
    )
    return page.rstrip("\n") + "\n"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ci_doctor.render.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Last, and for every value: whatever reaches the page is valid UTF-8 without control characters.
        finalize=_harmless,
    )
    environment.filters |= {
        "duration": duration,
        "size": size,
        "place": place,
        "symbol": symbol,
        "one_line": lambda text: texts.clipped(one_line(text), _LINE),
        "block": lambda text: texts.clipped(text.strip("\n"), _EXCERPT),
        "prose": texts.prose,
        "day": texts.day,
        "closed": texts.closed,
        "address": _address,
        "figure": texts.figure,
        "cell": figure,
        "percent": texts.percent,
        "short": texts.short,
        "value": texts.value,
    }
    environment.tests["sentence"] = is_sentence
    environment.globals["amount"] = amount
    return environment


def _harmless(value: Any) -> Any:
    """`value` with nothing in it that acts. Markup is text of ours, or was made of values that came through here."""
    from markupsafe import Markup

    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - a file of this package


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and nothing runs but what has our hash: https://www.w3.org/TR/CSP3/."""
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _icon(tone: Tone) -> str:
    """A disc in the verdict's colour, as an address that loads nothing."""
    disc = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="{_ICON_COLOURS[tone]}"/></svg>'
    return f"data:image/svg+xml,{quote(disc)}"


def _address(path: str) -> str | None:
    """`path` as a link to a file beside the page; None where it lies elsewhere or would need escapes."""
    inside = PurePosixPath(path)
    plain = not inside.is_absolute() and ".." not in inside.parts and _PLAIN_PATH.fullmatch(path)
    return path if plain else None
