# SPDX-License-Identifier: Apache-2.0
"""Makes ci_doctor/system/secrets/gitleaks.json from a checkout of gitleaks.

    git clone --depth 1 --branch v8.30.1 https://github.com/gitleaks/gitleaks /tmp/gitleaks
    python benchmarks/secret_formats.py /tmp/gitleaks

Taken are the rules whose tokens are known by their beginning. Rules that need a name beside the
value are left out (the redactor has its own for names), and so are those in `LEFT_OUT`.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "ci_doctor" / "system" / "secrets" / "gitleaks.json"
LICENCE = TARGET.with_name("gitleaks.LICENSE.txt")
# Rule: why its form is no proof of a token in a log.
LEFT_OUT = {
    "artifactory-reference-token": "base64 of any text that begins with `reft`",
    "clickhouse-cloud-api-secret-key": "four hexadecimal digits are a beginning of many digests",
    "facebook-page-access-token": "base64",
    "curl-auth-header": "a command and not a token; the redactor knows the header",
    "curl-auth-user": "a command and not a token",
    "microsoft-teams-webhook": "tokens.py has the addresses",
    "sidekiq-sensitive-url": "the redactor knows passwords in addresses",
    "jwt": "our own row is wider",
    "jwt-base64": "base64 of a JWT: one long group of alternatives",
    "square-access-token": "`EAAA` begins base64",
    "twilio-api-key": "`SK` and a digest",
    "vault-service-token": "`s.` begins an attribute",
    "aws-access-token": "our own row is wider",
    "slack-config-access-token": "our own row is wider",
    "slack-config-refresh-token": "our own row is wider",
    "slack-webhook-url": "tokens.py has the addresses",
}
_EDGE = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_LITERAL = re.compile(r"(?:[A-Za-z0-9_~-]|\\[.-])+")


def update(checkout: Path) -> None:
    document = tomllib.loads((checkout / "config" / "gitleaks.toml").read_text())
    rows = []
    for rule in document["rules"]:
        row = converted(rule)
        if row is not None:
            rows.append(row)
    version = git(checkout, "describe", "--tags", "--always")
    commit = git(checkout, "rev-parse", "HEAD")
    content = {
        "source": "https://github.com/gitleaks/gitleaks, config/gitleaks.toml",
        "license": "MIT, Copyright (c) 2019 Zachary Rice; gitleaks.LICENSE.txt",
        "version": version,
        "commit": commit,
        "formats": rows,
    }
    TARGET.write_text(json.dumps(content, indent=1) + "\n")
    LICENCE.write_text((checkout / "LICENSE").read_text())
    print(f"{len(rows)} of {len(document['rules'])} rules of gitleaks {version}")


def converted(rule: dict[str, str]) -> dict[str, object] | None:
    """A row of the list, or None for a rule that is not known by its beginning."""
    pattern = rule.get("regex", "")
    if rule["id"] in LEFT_OUT or r"[\w.-]{0,50}?" in pattern:
        return None
    pattern = pattern.removesuffix(_EDGE).removesuffix(r"\b")
    is_caseless = pattern.startswith("(?i)")
    pattern = pattern.removeprefix("(?i)").removeprefix(r"\b")
    if pattern.startswith("(") and not pattern.startswith("(?") and pattern.endswith(")"):
        pattern = pattern[1:-1]
    pattern = in_python(pattern)
    literal = _LITERAL.match(pattern)
    if literal is None:
        return None
    # Issuers write the beginning in one case; what follows may be in any.
    if is_caseless:
        pattern = f"{literal[0]}(?i:{pattern[literal.end() :]})"
    text = literal[0].replace("\\", "")
    head = re.match(r"[A-Za-z0-9]*", text)
    assert head is not None
    run = head[0] if len(head[0]) < len(text) else head[0][:4]
    is_known = len(text) >= 4 or (len(text) == 3 and not text.isalnum())
    if not is_known or not run or (len(text) == len(head[0]) and len(run) < 4):
        return None
    try:
        re.compile(pattern.encode())
    except re.error:
        return None
    return {"id": f"gitleaks:{rule['id']}", "heads": [run], "pattern": pattern}


def in_python(pattern: str) -> str:
    """RE2 as `re` reads it: a flag in the middle becomes a group up to the end."""
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    while "(?i)" in pattern:
        before, _, after = pattern.partition("(?i)")
        pattern = f"{before}(?i:{after})"
    return pattern


def git(checkout: Path, *words: str) -> str:
    ended = subprocess.run(
        ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


if __name__ == "__main__":
    update(Path(sys.argv[1]))
