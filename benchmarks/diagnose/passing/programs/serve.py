# SPDX-License-Identifier: Apache-2.0
"""A small model server that logs in the form of vLLM or SGLang: real processes, requests and errors.

    python serve.py vllm|sglang PORT SCENARIO

Each scenario meets errors that a server outlives: an optional package that is missing, a kernel's
plugin that is not there, a request that raises, a worker that dies once and is started again. Then
the server gets SIGTERM, as in CI after the tests, and ends with 0.
"""

import importlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = logging.getLogger("serve")
FORM, PORT, SCENARIO = sys.argv[1], int(sys.argv[2]), sys.argv[3]


class OutOfMemoryError(RuntimeError):
    """Stands for torch.OutOfMemoryError."""


def configure(process: str) -> None:
    """The line prefix of the server that is stood in for."""
    if FORM == "vllm":
        form = f"({process} pid={os.getpid()}) %(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"
        dates = "%m-%d %H:%M:%S"
    else:
        rank = {"EngineCore": " TP0", "Worker": " TP1"}.get(process, "")
        form = f"[%(asctime)s{rank}] %(message)s"
        dates = "%Y-%m-%d %H:%M:%S"
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Prefixing(form, dates))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], force=True)


class _Prefixing(logging.Formatter):
    """Puts the prefix before each line of a traceback, as vLLM does."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        first, *others = text.splitlines()
        if FORM == "vllm":
            prefix = first.partition("]")[0] + "] "
            others = [prefix + line for line in others]
        return "\n".join([first, *others])


def import_optional(*names: str) -> None:
    """Import packages that the server can do without; their absence is a warning."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            log.warning("Failed to import %s (ignored): %r", name, error, exc_info=error)


def print_plugin_warnings() -> None:
    """What NCCL and others say to stdout at a start that goes well."""
    host, pid = os.uname().nodename, os.getpid()
    missing = "libnccl-net.so: cannot open shared object file: No such file or directory"
    print(f"{host}:{pid}:{pid} [0] NCCL INFO NET/Plugin: Could not find: {missing}", flush=True)
    print(f"{host}:{pid}:{pid} [0] NCCL WARN NET/Plugin: dlopen failed, using internal", flush=True)
    print(f"{host}:{pid}:{pid} [0] NCCL INFO NET/IB : No device found.", flush=True)
    print("[Gloo] Rank 0 is connected to 0 peer ranks. Expected number is : 0", flush=True)
    print("UserWarning: Failed to initialize NumPy: _ARRAY_API not found (ignored)", flush=True)


def allocate_cache() -> None:
    """Halve the size of the cache until it fits; each miss is logged with its traceback."""
    blocks = 8192
    while True:
        try:
            allocate(blocks)
        except OutOfMemoryError:
            log.warning("cache of %d blocks does not fit, trying half", blocks, exc_info=True)
            blocks //= 2
        else:
            log.info("GPU KV cache size: %d tokens", blocks * 16)
            return


def allocate(blocks: int) -> None:
    if blocks > 2048:
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {blocks / 512:.2f} GiB.")


def be_worker(attempt: int) -> None:
    configure("Worker")
    log.info("Worker started, attempt %d", attempt)
    if SCENARIO == "worker-restart" and attempt == 1:
        raise RuntimeError(
            "NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
        )
    time.sleep(60)


def be_engine(ready) -> None:
    configure("EngineCore")
    log.info("Initializing a V1 LLM engine (v0.14.0) with config: model='tiny', max_retries=3")
    import_optional("flash_attn_3_of_nobody", "deep_gemm_of_nobody.kernels")
    print_plugin_warnings()
    if SCENARIO == "out-of-memory-retried":
        allocate_cache()
    worker = multiprocessing.Process(target=be_worker, args=(1,))
    worker.start()
    if SCENARIO == "worker-restart":
        worker.join()
        log.error(
            "Worker proc VllmWorker-0 died unexpectedly, exit code %d, starting again",
            worker.exitcode,
        )
        worker = multiprocessing.Process(target=be_worker, args=(2,))
        worker.start()
    log.info("init engine (profile, create kv cache, warmup model) took 0.61 seconds")
    ready.set()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        worker.join()
    except SystemExit:
        worker.terminate()
        worker.join()
        log.warning("Worker_TP0 died, exit code %d", worker.exitcode)


class Handler(BaseHTTPRequestHandler):
    """Answers requests; some of them raise, and the client gets 500 and lives on."""

    def do_GET(self) -> None:
        try:
            status = self.answer()
        except Exception:
            log.exception("Error in processing request %s", self.path)
            status = 500
        self.send_response(status)
        self.end_headers()

    def answer(self) -> int:
        if self.path == "/v1/raise":
            raise ValueError("This model's maximum context length is 128 tokens, got 4096")
        if self.path == "/v1/timeout":
            raise TimeoutError("Request cmpl-1 timed out, aborted")
        return 200

    def log_message(self, form: str, *values: object) -> None:
        print(f"INFO:     127.0.0.1 - {form % values}", flush=True)


def main() -> None:
    configure("APIServer")
    log.info("vLLM API server version 0.14.0, args: {'port': %d}", PORT)
    ready = multiprocessing.Event()
    engine = multiprocessing.Process(target=be_engine, args=(ready,))
    engine.start()
    ready.wait()
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    log.info("Application startup complete.")
    server.serve_forever()
    log.warning("Received SIGTERM, shutting down; unfinished requests are aborted")
    if SCENARIO == "engine-terminated":
        os.kill(engine.pid, signal.SIGKILL)
    engine.terminate()
    engine.join()
    log.info("Engine core proc exited, exit code %s", engine.exitcode)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
