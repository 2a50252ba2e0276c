# SPDX-License-Identifier: Apache-2.0
"""Reads whether a message proves that what it reports lies outside the change, and what that asks for.

A client's failure against the job's own server is the change's. So the network counts only with a
host that is neither this machine nor a service of the job, or by the words of a package client
about its index. What no other run cures proves nothing either. A retry must never hide a
regression: a log asks for one only if another run cures the class of its cause, if the evidence
proves that the cause lies outside the change, and if the job ended by it (`finality.py`).
"""

import contextlib
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from ci_doctor.diagnosis.log_rules import LAST_OUTPUT, LogRule
from ci_doctor.model.cause import POLICIES, Cause, FailureClass, Owner, RetryPolicy, owner_of
from ci_doctor.model.outcome import Verdict
from ci_doctor.system.files.disks import full_disks, is_full

_OF_MACHINE: Final = frozenset(
    {FailureClass.DISK, FailureClass.GPU_HARDWARE, FailureClass.AGENT_LOST}
)
OF_NETWORK: Final = frozenset({FailureClass.NETWORK, FailureClass.REGISTRY})
# For other classes a log never asks for another run.
RETRIED: Final = _OF_MACHINE | OF_NETWORK
# An assertion may be about the words, and a line of its source may hold them.
_ASSERTED: Final = re.compile(r"\bassert|AssertionError|\bexpect(?:ed\b|\()|^> ", re.IGNORECASE)
# What such an exception says of an address is a mistake in a value.
_OF_PROGRAM: Final = re.compile(
    r"(?:[\w]+\.)*(?:ValueError|TypeError|KeyError|IndexError|AttributeError|NameError|SyntaxError"
    r"|\w*(?:Decode|Parse|Parsing|Validation|Assertion|Config\w*)Error)\b"
)
# inotify(7) and quotas of a kernel's tables end with ENOSPC too.
_NO_DISK: Final = re.compile(
    r"file watchers|inotify|/dev/(?:shm|full)\b|/sys/fs/cgroup\b|semget|shmget|epoll", re.IGNORECASE
)
# The system's message ends what a tool says, or stands before the call. In a sentence it is advice.
_DISK: Final = re.compile(
    r"(?i)(?:no space left on device|disk quota exceeded|not enough space on the disk|disk is full)"
    r"(?:['\"’`).\]\s]*$|['\"’`)]*: |,? \((?:os error )?\d+\)|, (?:write|mkdir|open|copy|rename|mkdtemp|sync)"
    r"| ?-> ?| \(addr=|\\n| @ |\.? : ['\"])|\b(?:ENOSPC|EDQUOT)\b"
    # Debug of Rust's std::io::Error; numbers of errno(3) and of Windows.
    r"|\bOs \{ code: (?:28|69|112|122), kind: \w+, message: "
)
# What `str` makes of an exception in Python: a program that prints it has caught it.
_CAUGHT: Final = re.compile(r"\[Errno \d+\]")
_SAYS_FAILED: Final = re.compile(
    r"(?i)\b(?:error|fatal|critical|failed|unable|could ?n[o']t|cannot|can't|exception)\b|Error\b"
)
# The words of the driver; that nvidia-smi fails may be a matter of the image.
_GPU_FAULT: Final = re.compile(r"(?i)\bXid \(PCI|fallen off the bus|uncorrectable|GPU is lost")
# 408, 425 and 429 ask for another try; all other codes from 400 to 499 say that the request is wrong.
_WRONG: Final = r"4(?!08|25|29)\d\d"
_LASTING: Final = re.compile(
    rf"\b(?:HTTP(?:/\d(?:\.\d)?)?|(?:HTTP )?[Ee]rror|ERROR|[Ss]tatus(?: code)?|[Cc]ode|[Ff]ailure"
    rf"|response|returned)[ :=]+\(?{_WRONG}\b"
    rf"|\b{_WRONG}[: ]+(?:Client Error|Not Found|Forbidden|Unauthori[sz]ed|Bad Request|Gone|Conflict)"
    r"|\bE4(?!08|25|29)\d\d\b"
    r"|(?i:certificate(?: is| has|s? verif| problem|_)|x509: |self[- ]signed|issuer certificate"
    r"|\b(?:hash(?:es)?|checksums?|digests?|sha(?:256|512)|integrity)\b.{0,60}(?:match|differ|fail|wrong)"
    r"|mismatch.{0,30}\b(?:hash|checksum|digest)|match the hash|EINTEGRITY)"
    r"|(?i:not found|no such (?:image|repository)|manifest unknown|access denied|denied\b"
    r"|authentication|unsupported protocol|wrong version number|packet length too long|bad/illegal|malformed|invalid url|offline mode is"
    r"|outgoing traffic has been disabled)"
)
# `host not found` and its like are the resolver's words, and come and go with it.
_RESOLVER: Final = re.compile(
    r"(?i)(?:host(?:name)?|domain|server|name)\S* (?:was )?not found|nxdomain|ENOTFOUND|no such host"
)
# A client against a server, in the names of Python's libraries: whose server it is, they do not tell.
_OF_CLIENT: Final = re.compile(
    r"\b(?:API(?:Timeout|Connection)Error|InternalServerError|ServiceUnavailableError"
    r"|(?:Read|Write|Connect|Connection|Server|Socket|Pool)Timeout(?:Error)?|Connect(?:ion|ionRefused|ionReset)?Error"
    r"|Client(?:Connector|OS)Error|(?:Server|Remote)Disconnected(?:Error)?|RemoteProtocolError|NewConnectionError"
    r"|MaxRetryError|_?InactiveRpcError|AioRpcError|HTTPStatusError: Server error|HTTPError: (?:HTTP Error )?5\d\d"
    r"|APIStatusError: .{0,40}\b5\d\d)\b|(?i:connection refused)|\bECONNREFUSED\b"
)
# An exception, by its name; of Python, Java, .NET and JavaScript.
_EXCEPTION: Final = re.compile(r"\b(?P<name>[A-Z]\w*(?:Error|Exception))\b")
# Those by which a runtime or a validator rejects what the program does or was given: the same input brings them again.
# Any other name (RuntimeError, OSError, a library's own) may stand for what the machine or a server did.
_REPEATED: Final = re.compile(
    r"(?:Type|Value|Key|Index|Lookup|Attribute|Name|UnboundLocal|NotImplemented|Syntax|Indentation|Tab|Recursion|Reference|Range"
    r"|ZeroDivision|Arithmetic|Assertion|Import|ModuleNotFound|Unicode\w*|\w*Validation|\w*Config(?:uration)?|\w*Parse|\w*Decode"
    r"|FileNotFound|IsADirectory|NotADirectory|FileExists|Usage|NoSuchMethod|NoSuchField|NoClassDefFound)Error"
    r"|(?:NullPointer|NullReference|ClassCast|ClassNotFound|IllegalArgument|IllegalState|Argument\w*|Invalid\w+|UnsupportedOperation"
    r"|NumberFormat|\w*OutOfBounds|\w*Validation|\w*Parse|FileNotFound|NotImplemented|NoSuch\w+)Exception"
)
# The words of package clients about their index that need not name it.
_CLIENT: Final = re.compile(
    r"Retrying \(Retry\(total=0\b"
    r"|^npm (?:ERR!|error) (?:(?:code|errno) (?:E(?:AI_AGAIN|NOTFOUND|CONN\w+|TIMEDOUT|5\d\d|429)"
    r"|ERR_SOCKET_TIMEOUT)|network )"
    r"|^error: RPC failed; |^fatal: (?:early EOF|the remote end hung up|unable to access ')"
    r"|\btoomanyrequests: |\bAPI rate limit exceeded\b|secondary rate limit"
)
# The library asks one hub. A refusal may come from a stand-in for it that the job starts.
_HUB: Final = re.compile(
    r"LocalEntryNotFoundError|Local entry not found|couldn't connect to 'https://huggingface\.co"
)
_REFUSED: Final = re.compile(r"(?i)refused|ECONNREFUSED")
# A name that nobody knows may be misspelt by the change; one that could not be looked up is not.
_UNKNOWN_NAME: Final = re.compile(
    r"(?i)could ?n[o']t resolve|name or service not known|no such host|nxdomain|ENOTFOUND"
    r"|unable to resolve host|nodename nor servname|UnknownHost"
)
# Whose name is spelt right: registries, hubs and mirrors that jobs everywhere ask.
_PUBLIC: Final = re.compile(
    r"(?:^|\.)(?:pypi\.org|pythonhosted\.org|python\.org|pytorch\.org|github\.com|githubusercontent\.com"
    r"|ghcr\.io|huggingface\.co|hf\.co|npmjs\.(?:org|com)|yarnpkg\.com|nodejs\.org|playwright\.dev"
    r"|debian\.org|ubuntu\.com|alpinelinux\.org|fedoraproject\.org|centos\.org|docker\.(?:io|com)|quay\.io"
    r"|nvcr\.io|nvidia\.com|gcr\.io|k8s\.io|crates\.io|rust-lang\.org|golang\.org|maven\.org"
    r"|apache\.org|gradle\.org|rubygems\.org|anaconda\.(?:org|com)|astral\.sh|gitlab\.com|bitbucket\.org"
    r"|buildkite\.com|modelscope\.cn)$"
    # The names of buckets, accounts and regions below these are the change's to spell.
    r"|^(?:s3|storage|sts|ecr)\.(?:amazonaws|googleapis)\.com$"
)
# A server's own error: of 500 the request may be the reason.
_SERVER_ERROR: Final = re.compile(r"\b500\b|Internal Server Error")
_HOSTS: Final = (
    re.compile(
        r"\b(?:[a-z]+\+)?(?:https?|ssh|git|s?ftps?|rsync|svn|wss?|grpcs?|tcp|rediss?|amqps?|mongodb"
        r"|mysql|postgres(?:ql)?)://(?:[^\s/@'\"`]*@)?(?P<host>\[[^\]\s]+\]|[\w.-]+)(?::(?P<port>\d+))?"
    ),
    re.compile(r"\bhost=['\"]?(?P<host>[\w.:-]+?)['\"]?, port=(?P<port>\d+)"),
    re.compile(
        r"(?i)\b(?:resolve(?: host(?:name)?)?(?: address)?|resolving|ENOTFOUND|EAI_AGAIN|lookup"
        r"|UnknownHostException|ssh: connect to host|connect(?:ing|ion|ed)? to|(?-i:E?CONN[A-Z]+)|tcp|IP|host)"
        r":? ['\"‘`(\[]*(?P<host>\[[0-9a-f:]+\]|[\w-]+(?:\.[\w-]+)+|\blocalhost\b|[\w-]+(?=['\"’`]))"
        r"(?:['\"’`\])]*(?::| port | )(?P<port>\d{2,5})\b)?"
    ),
    re.compile(r"\bcontainer registry (?P<host>[\w-]+(?:\.[\w-]+)+)(?::(?P<port>\d+))?"),
    re.compile(r"\b(?:git@|ssh://\w+@)(?P<host>[\w.-]+)"),
    re.compile(r"\b(?P<host>(?:\d{1,3}\.){3}\d{1,3}):(?P<port>\d{2,5})\b"),
)
# The server of names that was asked: `lookup pypi.org on 10.0.0.2:53: read udp 10.0.0.9:4321->10.0.0.2:53`.
# So is the near end of a connection: `read tcp 10.0.0.9:4321->140.82.121.4:443: i/o timeout`.
_RESOLVER_ADDRESS: Final = re.compile(
    r"(?<=tcp )\S+->(?=\S)| on \[?[\d.:a-f]+\]?:53\b(?:: (?:read|write) (?:udp|tcp) \S+->\S+)?"
)
# A page about the error, which nobody asked.
_DOCUMENTATION: Final = re.compile(
    r"For more information\b|(?:See|see|Read more)\b.{0,40}https?://|npm error .*npm help"
)
_LOCAL: Final = re.compile(
    r"\blocalhost\b|\b127(?:\.\d{1,3}){3}\b|\b0\.0\.0\.0\b|(?<![\w:])\[?::1?\]?(?=[\s:/,)'\"]|$)"
)
# Names that only a private resolver knows (RFC 6762, RFC 8375, RFC 2606 for .test, Kubernetes, Docker).
_PRIVATE_NAME: Final = re.compile(
    r"(?i)(?:^[^.]+|\.(?:local|localdomain|internal|lan|intranet|home\.arpa|test|svc|svc\.[\w.-]+"
    r"|cluster\.local|docker))$"
)
# An own server on a public name listens elsewhere than the servers of packages.
_USUAL_PORTS: Final = frozenset({"22", "80", "443", "9418"})


class KnownHosts(Struct, frozen=True, kw_only=True):
    """own: names and addresses of this machine. configured: hosts of indexes, registries, stores."""

    own: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()


def is_lasting(class_: str | None, text: str) -> bool:
    """Whether another run meets the same answer: 404, a refused key, a wrong hash, a certificate."""
    if class_ not in OF_NETWORK or _RESOLVER.search(text) is not None:
        return False
    # The hub's library says so of its cache whenever the hub does not answer.
    return _LASTING.search(text.replace("Local entry not found", "")) is not None


def lies_outside(rule: LogRule, text: str, around: Sequence[str], known: KnownHosts) -> bool:
    """Whether the line `text`, which `rule` matches, proves a cause outside the change.

    around: the other lines of the same message, which may name a host in its place.
    """
    # A rule that asks a person knows no proof.
    if rule.retry not in {None, RetryPolicy.YES}:
        return False
    # The driver expects an answer of the GPU, and says so.
    if rule.class_ is FailureClass.GPU_HARDWARE:
        return _GPU_FAULT.search(text) is not None
    if _ASSERTED.search(text) or _OF_PROGRAM.match(text) or is_lasting(rule.class_, text):
        return False
    if rule.class_ is FailureClass.DISK:
        # The system's own message about a full disk, in the words of what ended.
        is_other = any(_NO_DISK.search(line) for line in (text, *around))
        is_caught = _CAUGHT.search(text) is not None and _SAYS_FAILED.search(text) is None
        return _DISK.search(text) is not None and not is_other and not is_caught
    if rule.class_ in OF_NETWORK:
        return _is_remote(rule, text, around, known)
    return rule.class_ in _OF_MACHINE


def _is_remote(rule: LogRule, text: str, around: Sequence[str], known: KnownHosts) -> bool:
    text = _RESOLVER_ADDRESS.sub("", text)
    around = [line for line in around if _DOCUMENTATION.match(line) is None]
    whole = _RESOLVER_ADDRESS.sub("", "\n".join((text, *around)))
    if _LOCAL.search(whole) is not None:
        return False
    # A refusal beside an error of the network is what the job ended by.
    if any(is_lasting(rule.class_, line) for line in around):
        return False
    hosts = list(_hosts(text)) or list(_hosts(whole))
    if any(not _is_outside(host, port, known) for host, port in hosts):
        return False
    is_clients = rule.is_outside or _CLIENT.search(whole) is not None
    if _HUB.search(whole) is not None and not hosts:
        is_nobodys = _REFUSED.search(whole) or _UNKNOWN_NAME.search(whole)
        is_clients = is_clients or is_nobodys is None
    if _SERVER_ERROR.search(text) is not None and not is_clients:
        return False
    unknown = [
        host for host, _ in hosts if host not in known.configured and not _PUBLIC.search(host)
    ]
    if unknown and _UNKNOWN_NAME.search(whole) is not None:
        return False
    return is_clients or bool(hosts)


def _hosts(text: str) -> Iterator[tuple[str, str | None]]:
    """Each host that `text` names, with its port if one stands beside it."""
    for pattern in _HOSTS:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            yield groups["host"].strip("[].").lower(), groups.get("port")


def _is_outside(host: str, port: str | None, known: KnownHosts) -> bool:
    if host in known.own:
        return False
    if host in known.configured:
        return True
    if port is not None and port not in _USUAL_PORTS:
        return False
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return _PRIVATE_NAME.search(host) is None


# Where pip, uv, npm, yarn, go, cargo, conda, the Hugging Face hub and the AWS clients are told an address.
_VARIABLES: Final = re.compile(
    r"(?i)^(?:PIP_(?:EXTRA_)?INDEX_URL|UV_(?:EXTRA_|DEFAULT_)?INDEX(?:_URL)?|NPM_CONFIG_REGISTRY"
    r"|YARN_(?:NPM_REGISTRY_SERVER|REGISTRY)|GOPROXY|CARGO_REGISTRIES_\w+_INDEX|CONDA_CHANNEL_ALIAS"
    r"|HF_ENDPOINT|AWS_ENDPOINT_URL\w*|DOCKER_REGISTRY\w*|CI_REGISTRY)$"
)
# Files of the machine and of its user. One of the repository is part of the change.
_FILES: Final = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf", "~/.npmrc")
_URL: Final = re.compile(r"\bhttps?://[^\s\"',|]+")
_MOST_BYTES: Final = 64 * 1024


@cache
def known_hosts() -> KnownHosts:
    """Those of this machine; what cannot be read is left out, and then proves nothing."""
    name = os.uname().nodename.lower()
    texts = [value for variable, value in os.environ.items() if _VARIABLES.match(variable)]
    for path in _FILES:
        # Also without a home directory.
        with (
            contextlib.suppress(OSError, RuntimeError),
            Path(path).expanduser().open(errors="replace") as file,
        ):
            texts.append(file.read(_MOST_BYTES))
    configured = set()
    for url in (url for text in texts for url in _URL.findall(text)):
        with contextlib.suppress(ValueError):
            configured.add(urlsplit(url).hostname or "")
    return KnownHosts(
        own=frozenset({name, name.partition(".")[0]}), configured=frozenset(configured - {""})
    )


# From the last line of a log to the end of its process: an interpreter takes its modules down meanwhile.
AT_ONCE_S: Final = 3.0
_UNPROVEN = "the log does not prove that it lies outside the change"
_NOT_FINAL = "something else may have ended the job"


def retry_policy(class_: str | None, text: str) -> RetryPolicy:
    """Whether another run can help a failure of `class_`, of which `text` is the line."""
    if class_ is None:
        return RetryPolicy.ASK
    if is_lasting(class_, text):
        return RetryPolicy.NO
    exception = _EXCEPTION.search(text)
    if class_ == FailureClass.CODE_BUG and exception is not None:
        is_of_program = _REPEATED.fullmatch(exception["name"]) is not None
        return RetryPolicy.NO if is_of_program else RetryPolicy.ASK
    is_of_clients = class_ in {FailureClass.CODE_BUG, FailureClass.TEST_ASSERTION}
    if is_of_clients and _OF_CLIENT.search(text) is not None:
        return RetryPolicy.ASK
    # A server on this machine is one of the job's own.
    if class_ in OF_NETWORK and _LOCAL.search(text) is not None:
        return RetryPolicy.ASK
    return POLICIES[class_].retry


def judged(cause: Cause, *, is_outside: bool, is_final: bool) -> Cause:
    """`cause` with what is known of the job's end, and all that follows from it."""
    owner = owner_of(cause.class_, cause.retry, is_outside=is_outside)
    # Last words that no rule knows prove nothing.
    if cause.rule == LAST_OUTPUT.id:
        owner = Owner.UNKNOWN
    against = []
    if cause.retry is RetryPolicy.YES and not is_outside:
        against.append(_UNPROVEN)
    if not is_final:
        against.append(_NOT_FINAL)
    return structs.replace(
        cause, is_outside=is_outside, is_final=is_final, owner=owner, against=tuple(against)
    )


# The path in the message of an OSError: `[Errno 28] No space left on device: '/data/x'`.
_NAMED_PATH: Final = re.compile(r"'(/[^']+)'")


def is_disk_full(cause: Cause) -> bool:
    """Whether a local disk of this machine is full now, or that of the path which the line of `cause` names."""
    named = _NAMED_PATH.search(cause.place.text)
    return bool(full_disks()) or (named is not None and is_full(Path(named[1])))


def as_seen_here(cause: Cause | None, full: Sequence[Path] | None = None) -> Cause | None:
    """`cause`, which a log of this machine names; that a disk was full lies outside only if one is full now.

    The words alone prove nothing: a program may raise them itself, and a change may fill what it then removes.
    full: where disks were full before the command that wrote the log; None if nobody looked.
    """
    if cause is None or cause.class_ != FailureClass.DISK or not cause.is_outside:
        return cause
    still = is_disk_full(cause) if full is None else any(map(is_full, full))
    return cause if still else judged(cause, is_outside=False, is_final=cause.is_final)


def verdict_by_class(cause: Cause | None) -> Verdict:
    """The verdict whose exit code stands for `cause`: `infra` (75), else `failed` (1).

    It chooses an exit code and is no verdict of the report: a diagnosis judges nothing. A
    repository's own `[exit-codes]` hold for it.
    """
    return Verdict.INFRA if cause is not None and cause.may_be_retried else Verdict.FAILED
