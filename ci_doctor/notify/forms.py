# SPDX-License-Identifier: Apache-2.0
"""Pure. A notice in the form of each service. Text of others stays text: it mentions nobody and links nothing."""

import msgspec

from ci_doctor.notify.notice import Notice
from ci_doctor.render.markup import code, inline
from ci_doctor.render.safe_text import printable

JSON_SCHEMA = "ci-doctor/notify/1"
# Behind an `@` it ends a mention, and nobody sees it.
_ZERO_WIDTH_SPACE = "\u200b"
_FIELD_CHARACTERS = 300


def comment_body(notice: Notice) -> str:
    """GitHub's Markdown. Names and causes are code: in code nobody is mentioned, and no issue linked."""
    where = f"<{notice.url}>" if notice.url else inline(notice.lines[2])
    head = f"**{notice.headline}** · {code(notice.subject)}"
    return f"{notice.marker}\n{head}\\\n{code(notice.cause)}\\\n{where}\n"


def slack_body(notice: Notice) -> bytes:
    """The JSON of a message for Slack's incoming webhooks, and for those that copy them.

    `&`, `<` and `>` are escaped (https://api.slack.com/docs/formatting), so `<!here>` calls nobody.
    Services that copy Slack's form read `@here` as well.
    """
    text = "\n".join(_escaped(line) for line in notice.lines)
    message = {"text": text, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return msgspec.json.encode(message)


def json_body(notice: Notice) -> bytes:
    """The plain JSON of a webhook: the three lines, and what they are made of."""
    about = notice.about
    message = {
        "schema": JSON_SCHEMA,
        "text": "\n".join(quiet(line) for line in notice.lines),
        "verdict": notice.verdict,
        "subject": notice.subject,
        "cause": notice.cause,
        "url": notice.url,
        "pipeline": _cut(about.pipeline),
        "build": about.build,
        "commit": _cut(about.commit),
        "branch": _cut(about.branch),
    }
    return msgspec.json.encode(message)


def _cut(text: str | None) -> str | None:
    return None if text is None else printable(text[:_FIELD_CHARACTERS])


def quiet(text: str) -> str:
    """`text` that mentions nobody."""
    return text.replace("@", f"@{_ZERO_WIDTH_SPACE}")


def _escaped(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return quiet(escaped)
