# SPDX-License-Identifier: Apache-2.0
"""Acts on the network: lets a server forget between two passes."""

import asyncio
import json

import httpx

from ci_doctor.load.sending import Sender
from ci_doctor.system import clock

# vLLM answers `{"success": false}` with status 200 while blocks are held, and asks callers to try
# again (vllm/entrypoints/serve/dev/cache/api_router.py, 0.33.0). An offload that is under way ends
# within that time, or hangs.
_AGAIN_S = 5.0
_PAUSE_S = 0.1


async def reset(sender: Sender, path: str) -> tuple[str, ...]:
    """POST to `path` until the server has forgotten.

    Returns one sentence if that is not certain.
    """
    deadline = clock.now() + min(_AGAIN_S, sender.timeout_s)
    while True:
        try:
            async with asyncio.timeout(sender.timeout_s), sender.client() as client:
                response = await client.post(path)
        except (TimeoutError, httpx.HTTPError) as error:
            return (f"the reset request {path} was not answered: {type(error).__name__}",)
        if not response.is_success:
            return (f"the reset request {path} was answered with HTTP {response.status_code}",)
        if not _is_refusal(response.content):
            return ()
        if clock.now() >= deadline:
            return (f"`success` is false in every answer to the reset request {path}",)
        await asyncio.sleep(_PAUSE_S)


def _is_refusal(body: bytes) -> bool:
    """Whether the body is JSON that says `"success": false`."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("success") is False
