# SPDX-License-Identifier: Apache-2.0
"""Pure. The forms of credentials that are known by what stands around them, in logs too.

Every repetition is bounded: a log may be hostile.
"""

import re

_RANDOM = rb"(?=[A-Za-z._~+/=-]{0,200}[0-9])[A-Za-z0-9._~+/-]{16,8192}={0,2}"
# Between a header's name and its value: as sent, as JSON, and as Python shows a dict and a pair.
_BETWEEN = rb"""\\?['"]?\s{0,4}[:=,]\s{0,4}(?:b(?=\\?['"]))?\\?['"]?"""
# RFC 6750 and RFC 7617. `Bearer token required` is a sentence: a credential holds a digit.
_BEARER = re.compile(rb"\b(?i:bearer)(?:\s|%20){1,4}['\"]?(?P<secret>" + _RANDOM + rb")")
_AUTHORIZATION = re.compile(
    rb"(?i:authorization)" + _BETWEEN + rb"(?:\w{1,16}\s{1,4})?(?P<secret>" + _RANDOM + rb")"
)
# RFC 6265; the name of the first cookie stays.
_COOKIE = re.compile(
    rb"\b(?i:(?:set-)?cookie)" + _BETWEEN
    + rb"""[\w.-]{1,128}=(?P<secret>[^\r\n'"\\]{8,4096})"""
)  # fmt: skip
_USER_AND_PASSWORD = re.compile(
    rb"""://[^\s/'\":@]{0,256}:(?P<secret>[^\s/?#'"\\]{1,1024})@[\w\[]"""
)
# https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
_AZURE_KEY = re.compile(rb"\b(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/%]{20,512}={0,2})")
# The form of gitleaks' rule for Azure AD's client secrets.
_AZURE_SECRET = re.compile(
    rb"(?<![\w~.-])(?P<secret>[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?![\w~-])"
)
# ~/.docker/config.json: base64 of user and password.
_DOCKER = re.compile(
    rb"""\\?"auth\\?"\s{0,4}:\s{0,4}\\?"(?P<secret>[A-Za-z0-9+/]{12,4096}={0,2})\\?\""""
)
# No further than the next curl: each character of a hostile log is read for one of them.
_CURL = re.compile(
    # The words of a command line may stand each on a line of its own.
    rb"""\bcurl(?:\s(?:(?!curl\s)[^\n]){0,512}?(?<=\s)|\n(?:(?!curl\n)[^\n]{1,256}\n){0,16}?)"""
    rb"""(?:-u|-U|--user|--proxy-user)[ =\n]?['"]?"""
    rb"""[^\s:'"]{1,128}:(?P<secret>(?!\$)[^\s'"]{1,512})"""
)
_NETRC = re.compile(
    rb"\bmachine\s{1,8}\S{1,256}\s{1,8}login\s{1,8}\S{1,256}\s{1,8}password\s{1,8}"
    rb"(?P<secret>\S{1,512})"
)
# A password as an option of a client. `docker run -p 80:80` is none.
_CLIENT = re.compile(
    rb"""\b(?:sshpass|(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|helm|registry)\s{1,8}login|az\s{1,8}login"""
    rb"""|mysql(?:dump|admin)?|mariadb|mongosh?|redis-cli|twine\s{1,8}upload|htpasswd)\s{1,8}"""
    rb"""(?:[^\s]{1,64}\s{1,8}){0,8}?(?:-p|-a|--password|--pass)(?:=|\s{1,8}|(?=[^\s-]))['"]?"""
    rb"""(?P<secret>(?![$-])[^\s'"]{4,512})"""
)
# RFC 7517: the private members of a key. OpenSSL's text of one: bytes in hexadecimal.
_MEMBERS = (b"d", b"p", b"q", b"dp", b"dq", b"qi", b"k")
_JWK = re.compile(
    rb"""\\?"(?:d|p|q|dp|dq|qi|k)\\?"\s{0,4}:\s{0,4}\\?"(?P<secret>[A-Za-z0-9_-]{20,1400})\\?\""""
)
_OPENSSL = re.compile(
    rb"\b(?:priv|privateExponent|prime1|prime2|exponent1|exponent2|coefficient):"
    rb"(?P<secret>(?:\s{1,16}[0-9a-f]{2}(?::[0-9a-f]{2}){0,31}:?){1,80})"
)
# Base64 of `-----BEGIN` and the four kinds of private keys, as in a kubeconfig.
_PEM_IN_BASE64 = re.compile(
    rb"LS0tLS1CRUdJTi(?:BSU0EgUFJJVk|BQUklWQVRFIE|BFQyBQUklWQV|BPUEVOU1NIIF)"
    rb"[A-Za-z0-9+/_-]{0,16384}={0,2}"
)
# A piece of text that is in whatever the pattern matches, and the pattern: to look for the piece
# first is what keeps a log without credentials cheap.
CREDENTIALS = (
    (b"earer", _BEARER),
    (b"BEARER", _BEARER),
    (b"uthorization", _AUTHORIZATION),
    (b"AUTHORIZATION", _AUTHORIZATION),
    (b"ookie", _COOKIE),
    (b"COOKIE", _COOKIE),
    (b"://", _USER_AND_PASSWORD),
    (b"Key=", _AZURE_KEY),
    (b"Q~", _AZURE_SECRET),
    (b'"auth', _DOCKER),
    (b"curl", _CURL),
    (b"machine", _NETRC),
    (b"sshpass", _CLIENT),
    (b"login", _CLIENT),
    (b"mysql", _CLIENT),
    (b"mariadb", _CLIENT),
    (b"mongo", _CLIENT),
    (b"redis-cli", _CLIENT),
    (b"twine", _CLIENT),
    (b"htpasswd", _CLIENT),
    *((b'"' + member + mark, _JWK) for member in _MEMBERS for mark in (b'"', b'\\"')),
    (b"priv:", _OPENSSL),
    (b"privateExponent:", _OPENSSL),
    (b"prime1:", _OPENSSL),
    (b"exponent1:", _OPENSSL),
    (b"coefficient:", _OPENSSL),
    (b"LS0tLS1CRUdJTi", _PEM_IN_BASE64),
)
