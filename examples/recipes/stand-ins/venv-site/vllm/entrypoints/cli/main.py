# SPDX-License-Identifier: Apache-2.0
"""Stands for vLLM's command line in the nightlies of April 2026: a thread imports transformers at once.

Pull request 40331 started the thread, 40438 took it out again. The names that are imported from LMCache
are those of vLLM 0.33.0 (v1/lmcache_mp_connector.py).
"""

import contextlib
import threading
import time


def _preload() -> None:
    with contextlib.suppress(Exception):
        import transformers  # noqa: F401


threading.Thread(target=_preload, name="vllm-torch-preload", daemon=True).start()


def main() -> None:
    """Import what the server needs, then serve."""
    time.sleep(0.1)  # the options are read
    from lmcache.v1.multiprocess.custom_types import (  # type: ignore[import-not-found]
        BlockAllocationRecord,
    )
    from transformers import GenerationConfig, PretrainedConfig

    needed = (BlockAllocationRecord, GenerationConfig, PretrainedConfig)
    print(f"imported {', '.join(each.__name__ for each in needed)}", flush=True)
    import vllm_serve

    vllm_serve.main()
