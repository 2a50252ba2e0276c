# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends every request to a server, and keeps each answer as a sample."""

from collections.abc import Callable, Sequence

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.level_digests import level_digests
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Reply, Sender, send_all


async def collect(
    sender: Sender,
    requests: Sequence[Request],
    sample: Callable[..., Sample],
    keep: Callable[[Sample], None],
) -> None:
    """Send all `requests`; `keep` gets a sample for each as it arrives, also for an error.

    `sample` makes a Sample of the fields given here and of what the caller adds (arm, start, pass).
    An exception from `keep` ends the sending and is raised. Raises InfraError as `send_all` does.
    """

    def on_reply(reply: Reply) -> None:
        keep(sample(id=reply.id, **_fields(reply)))

    await send_all(sender, requests, on_reply)


def _fields(reply: Reply) -> dict[str, object]:
    """The fields of a sample that the reply decides."""
    answer = reply.answer
    # An error is evidence too: the other arm may not have it.
    if answer is None:
        return {"status": reply.status, "error": reply.error}
    digests = level_digests(answer.output, answer.digest)
    return {
        "status": reply.status,
        "output": answer.output,
        "digest": answer.digest,
        "words_digest": digests.words,
        "tokens_digest": digests.tokens,
        "prompt_facts": answer.prompt_facts,
        "empty": answer.empty,
        "meta": answer.meta,
    }
