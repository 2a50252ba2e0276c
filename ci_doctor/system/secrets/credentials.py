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
    rb"""\bcurl\s(?:(?!curl\s)[^\n]){0,512}?(?<=\s)(?:-u|-U|--user|--proxy-user)[ =]?['"]?"""
    rb"""[^\s:'"]{1,128}:(?P<secret>(?!\$)[^\s'"]{1,512})"""
)
_NETRC = re.compile(
    rb"\bmachine\s{1,8}\S{1,256}\s{1,8}login\s{1,8}\S{1,256}\s{1,8}password\s{1,8}"
    rb"(?P<secret>\S{1,512})"
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
    (b"LS0tLS1CRUdJTi", _PEM_IN_BASE64),
)
