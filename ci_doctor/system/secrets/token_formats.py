# SPDX-License-Identifier: Apache-2.0
"""Reads the list beside it: the forms of secrets that are known by their beginning.

The rows here are the issuers whose tokens a CI job of LLM serving meets, by their own pages. They
are wider than a scanner's: half a token, cut off at an excerpt's end, is hidden too. gitleaks.json
adds the rules of a maintained scanner (gitleaks, MIT); benchmarks/secret_formats.py makes it.
"""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct


class TokenFormat(Struct, frozen=True):
    """A kind of token.

    `heads` are the letters and digits that it begins with, up to its first other character, or
    `HEAD_LETTERS` of them if a random part follows at once. `pattern` matches the whole.
    """

    id: str
    heads: tuple[str, ...]
    pattern: str


HEAD_LETTERS = 4
_WORD = r"[A-Za-z0-9_-]"
_OWN = (
    # https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
    TokenFormat("github", ("ghp", "gho", "ghu", "ghs", "ghr"), r"gh[pousr]_[A-Za-z0-9]{16,}"),
    TokenFormat("github-fine-grained", ("github",), r"github_pat_\w{16,}"),
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    TokenFormat(
        "gitlab",
        (
            *("glpat", "gldt", "glrt", "glrtr", "glcbt", "glptt", "glft"),
            *("glsoat", "glagent", "gloas", "glimt", "glffct"),
        ),
        rf"gl(?:pat|dt|rtr?|cbt|ptt|ft|soat|agent|oas|imt|ffct)-{_WORD}{{14,}}(?:\.\w+)*",
    ),
    # https://huggingface.co/docs/hub/security-tokens
    TokenFormat("hugging-face", ("hf",), r"hf_[A-Za-z0-9]{16,}"),
    TokenFormat("hugging-face-organization", ("api",), r"api_org_[A-Za-z0-9]{16,}"),
    # OpenAI, Anthropic, DeepSeek, OpenRouter, LiteLLM: a kind, or a long random run. A branch that
    # is called sk-learn-something has neither.
    TokenFormat(
        "sk",
        ("sk",),
        rf"sk-(?:(?:ant|proj|svcacct|admin|or|lf)-{_WORD}{{8,}}"
        rf"|{_WORD}{{0,40}}?[A-Za-z0-9]{{16,}}{_WORD}*)",
    ),
    TokenFormat("nvidia", ("nvapi",), rf"nvapi-{_WORD}{{16,}}"),
    TokenFormat("groq", ("gsk",), r"gsk_[A-Za-z0-9]{16,}"),
    TokenFormat("xai", ("xai",), r"xai-[A-Za-z0-9]{16,}"),
    TokenFormat("cerebras", ("csk",), r"csk-[A-Za-z0-9]{16,}"),
    TokenFormat("perplexity", ("pplx",), r"pplx-[A-Za-z0-9]{16,}"),
    TokenFormat("replicate", ("r8",), r"r8_[A-Za-z0-9]{16,}"),
    TokenFormat("fireworks", ("fw",), r"fw_[A-Za-z0-9]{16,}"),
    TokenFormat("together", ("tgp",), rf"tgp_v1_{_WORD}{{16,}}"),
    TokenFormat("runpod", ("rpa",), r"rpa_[A-Za-z0-9]{20,}"),
    TokenFormat("langsmith", ("lsv2",), r"lsv2_(?:pt|sk)_\w{16,}"),
    TokenFormat("wandb", ("wandb",), r"wandb_v1_\w{16,}"),
    # https://buildkite.com/docs/platform/security/tokens: bkua_ of a user, bkaj_ of a job, bkct_ …
    TokenFormat(
        "buildkite",
        tuple(f"bk{kind}" for kind in ["ua", "aj", "at", "ct", "cr", "js", "mt", "pt", "rt", "oi", "ps", "pi"]),
        r"bk(?:ua|aj|at|ct|cr|js|mt|pt|rt|oi|ps|pi)_[\w-]{16,}(?:\.[\w-]+)*",
    ),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    TokenFormat("aws", ("AKIA", "ASIA", "ABIA", "ACCA"), r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{12,}"),
    TokenFormat("google-api-key", ("AIza",), rf"AIza{_WORD}{{16,}}"),
    TokenFormat("google-oauth", ("ya29", "GOCSPX"), rf"(?:ya29\.|GOCSPX-){_WORD}{{16,}}"),
    # https://api.slack.com/authentication/token-types
    TokenFormat(
        "slack",
        tuple(f"xox{kind}" for kind in "abceoprsd"),
        r"xox[abceoprsd](?:\.xox[bp])?-[A-Za-z0-9-]{10,}",
    ),
    TokenFormat("slack-app", ("xapp",), r"xapp-\d-[A-Za-z0-9-]{10,}"),
    TokenFormat("npm", ("npm",), r"npm_[A-Za-z0-9]{16,}"),
    # A macaroon (pypi.org/help/#apitoken): base64 of its version and the length of the location.
    TokenFormat("pypi", ("pypi",), rf"pypi-(?:AgE{_WORD}{{12,}}|{_WORD}*[A-Za-z0-9]{{24,}}{_WORD}*)"),
    TokenFormat("digitalocean", ("dop", "doo", "dor"), r"do[por]_v1_[a-f0-9]{16,}"),
    TokenFormat("stripe", ("sk", "rk", "pk"), r"[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    TokenFormat("sendgrid", ("SG",), rf"SG\.{_WORD}{{14,}}(?:\.{_WORD}+)?"),
    TokenFormat("docker", ("dckr",), rf"dckr_[po]at_{_WORD}{{16,}}"),
    TokenFormat("vault", ("hvs", "hvb", "hvr"), rf"hv[sbr]\.{_WORD}{{20,}}"),
    TokenFormat("tailscale", ("tskey",), rf"tskey-{_WORD}{{16,}}"),
    TokenFormat("databricks", ("dapi",), r"dapi[a-f0-9]{24,}(?:-\d)?"),
    TokenFormat("atlassian", ("ATAT", "ATCT"), r"AT[AC]TT3[\w=-]{20,}"),
    # RFC 7519 and RFC 7516: three parts or five. The header is base64 of `{"` and a small letter.
    TokenFormat(
        "jwt",
        tuple(f"eyJ{letter}" for letter in "hijklmnopqrstuvwxyz0123456"),
        rf"eyJ[h-z0-6]{_WORD}{{5,4096}}\.{_WORD}{{6,8192}}(?:\.{_WORD}{{1,8192}}){{0,3}}",
    ),
)  # fmt: skip


class _VendoredList(Struct):
    version: str
    formats: tuple[TokenFormat, ...]


@cache
def token_formats() -> dict[bytes, tuple[TokenFormat, ...]]:
    """All formats by their heads."""
    path = Path(__file__).with_name("gitleaks.json")
    vendored = msgspec.json.decode(path.read_bytes(), type=_VendoredList)
    formats: dict[bytes, tuple[TokenFormat, ...]] = {}
    for each in (*_OWN, *vendored.formats):
        for head in each.heads:
            key = head.encode()
            formats[key] = (*formats.get(key, ()), each)
    return formats
