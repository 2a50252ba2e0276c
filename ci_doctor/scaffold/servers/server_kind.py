# SPDX-License-Identifier: Apache-2.0
"""Pure. What is known of one kind of server: its command, its port, its probe, its APIs."""

from enum import StrEnum

from msgspec import Struct


class Api(StrEnum):
    """What a server can be asked; each has a form of request."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    TGI_GENERATE = "tgi-generate"
    SGLANG_GENERATE = "sglang-generate"
    VLLM_GENERATE = "vllm-generate"
    # The routes of a repository's own application.
    ROUTES = "routes"


class ServerKind(Struct, frozen=True, kw_only=True):
    """A row of the table.

    starts: the words with which the command begins; for `-m` the interpreter and its options stand
    before them. port_options: those that take a port, the first one is added if none is there;
    bind_options: those that take HOST:PORT. model_options: those that name the model;
    takes_model: the first word without a dash does. ready: a readiness probe (docs/probes.md).
    prefix: what stands before the paths of its APIs. is_engine: it serves a large model, so it needs a GPU and takes long prompts. is_app: the words
    name an application of the repository. positional_port: the place of the port among the words
    that are no options.
    """

    name: str
    starts: tuple[tuple[str, ...], ...]
    port_options: tuple[str, ...] = ("--port",)
    bind_options: tuple[str, ...] = ()
    model_options: tuple[str, ...] = ()
    takes_model: bool = False
    ready: str = "/health"
    apis: tuple[Api, ...] = ()
    prefix: str = "/v1"
    is_engine: bool = False
    is_app: bool = False
    positional_port: int | None = None
