# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: sends every request to a running server and keeps every answer as a sample."""

from collections.abc import Callable, Sequence

from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.load.requests import Request
from ci_doctor.load.sending import Reply, Sender, send_all


async def collect(
    sender: Sender,
    requests: Sequence[Request],
    sample: Callable[..., Sample],
    keep: Callable[[Sample], None],
) -> None:
    """Send all `requests`; `keep` gets a sample for each as it arrives, an error being a sample too.

    `sample` makes a Sample of what is given here plus what the caller knows (arm, start, pass). What `keep` raises ends
    it, and is raised. Raises InfraError as `send_all`.
    """
    await send_all(sender, requests, lambda reply: keep(sample(id=reply.id, **_fields(reply))))


def _fields(reply: Reply) -> dict[str, object]:
    """The fields of a sample that the reply decides."""
    answer = reply.answer
    if answer is None:
        return {"status": reply.status, "error": reply.error}
    return {
        "status": reply.status,
        "output": answer.output,
        "digest": answer.digest,
        "said": answer.words_digest,
        "asked": answer.prompt_facts,
        "empty": answer.empty,
        "meta": answer.meta,
    }
