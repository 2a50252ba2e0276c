"""A test closes the event loop of the main thread and leaves it in place."""

import asyncio


async def _answer() -> int:
    return 42


def test_with_a_loop() -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    assert loop.run_until_complete(_answer()) == 42
    loop.close()


def test_default_loop() -> None:
    policy = asyncio.get_event_loop_policy()
    loop = policy.get_event_loop()
    coroutine = _answer()
    try:
        assert loop.run_until_complete(coroutine) == 42
    finally:
        coroutine.close()
