"""Secrets out of every text that leaves the tool, and control characters made visible."""

from __future__ import annotations

import re

HIDDEN = "***"

_NAMES = (
    r"(?:[\w-]*(?:api|admin|access|secret|private|auth|signing|account|shared)[-_]?keys?|[\w-]*secrets?|[\w-]*passw(?:or)?d|passphrase"
    r"|[\w-]*(?:hf|hub|auth|access|refresh|bearer|id|session|security|sas|github|gitlab|wandb|openai|ngc|api)[-_]?tokens?"
    r"|HUGGING_FACE_HUB_TOKEN|authorization|x-api-key|proxy-authorization|credentials?|client_secret|connection_string|sig|signature)"
)
_PATTERNS = (
    # name='value', "name": "value", --name value, NAME=value, name=['a', 'b'], Some("value")
    (
        re.compile(
            rf"""(?ix) (?P<head> (?<![\w.]) (?:--)? ['"]?{_NAMES}['"]? \s* (?:[:=]\s*|\s+(?=Some\(|\[)|(?<=[a-z])\s+(?=['"]?[A-Za-z0-9_-]{{16,}})) (?:Some\()? )
            (?P<value> \[[^\]\n]*\]? | \\?"(?:[^"\\\n]|\\.)*\\?"? | \\?'(?:[^'\\\n]|\\.)*'? | (?:Bearer|Basic|Token)\s+[^\s'",;)}}\]]+ | [^\s'",;&)}}\]]+ )"""
        ),
        "named",
    ),
    (re.compile(r"(?i)(?P<head>--(?:[\w-]*api-key|[\w-]*password|[\w-]*token)[ =])(?P<value>[^\s'\",]+)"), "named"),
    (re.compile(r"(?i)(?P<head>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})"), "named"),
    (
        re.compile(
            r"(?i)(?P<head>[?&](?:[\w-]*key|[\w-]*token|password|passwd|secret|sig|signature|code|auth|apikey)=)(?P<value>[^&\s\"'#]+)"
        ),
        "named",
    ),
    (re.compile(r"(?P<head>\b[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<value>[^/\s:@'\"]*:[^/\s@'\"]+)(?=@)"), "named"),
    (
        re.compile(
            r"(?P<head>)(?P<value>\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{12,}|nvapi-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
            r"|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
            r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*))"
        ),
        "shape",
    ),
    (re.compile(r"(?P<head>-----BEGIN [A-Z ]*PRIVATE KEY-----)(?P<value>.*)"), "named"),
)
_NOTHING = frozenset(
    ("none", "null", "''", '""', "true", "false", HIDDEN, f"'{HIDDEN}'", f'"{HIDDEN}"', "[]", "some", "[none]")
)
_GATE = re.compile(
    r"(?i)key|token|secret|passw|passphrase|authorization|credential|bearer|basic|://|hf_|sk-|nvapi|gh[pousr]_|github_pat|glpat|xox|AKIA|AIza|ya29|eyJ|BEGIN|connection_string|sig"
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udfff]"
)


def masked(text: str) -> str:
    """Hide what looks like a secret; the name beside it stays."""
    if not _GATE.search(text):
        return text
    for pattern, how in _PATTERNS:
        text = pattern.sub(lambda match, how=how: _hide(match), text)  # type: ignore[misc]
    return text


def _hide(match: re.Match[str]) -> str:
    value = match["value"]
    bare = value.strip()
    if bare.lower() in _NOTHING or bare.lower().strip("'\"\\") in ("none", "null", "", HIDDEN):
        return match[0]
    if bare[:1] in "'\"":
        return f"{match['head']}{bare[0]}{HIDDEN}{bare[0]}"
    if bare[:1] == "[":
        return f"{match['head']}['{HIDDEN}']"
    return f"{match['head']}{HIDDEN}"


def visible(text: str) -> str:
    """Show control characters as escapes; tabs and newlines are spaces."""
    text = text.replace("\t", " ").replace("\n", " ")
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", text)


def safe(text: str) -> str:
    """What any output may show of an input's text."""
    return visible(masked(text))
