"""Secrets out of every text that leaves the tool, and control characters made visible."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

import regex

from logdoctor.regexes import compiled

HIDDEN = "***"

# What the name of a secret ends in. A token of a tokenizer's vocabulary (eos_token) and a key that opens nothing
# (cache_key) are excused in _HARMLESS_NAME.
_NAME = (
    r"(?:[\w-]*(?:api|admin|access|secret|private|auth|signing|account|shared|encryption|master|service|storage|license"
    r"|webhook|bot|hmac|jwt|ssh|client|consumer|deploy|function|subscription|app|write|ingest)[-_ ]?keys?(?:[-_]id)?"
    r"|[\w-]*(?:secrets?|passw(?:or)?ds?|passphrase|sess(?:ion)?id)|[\w-]+[-_]pwd"
    r"|(?:user|db|database|admin|root|smtp|mail|ftp|ldap|proxy|basic|redis|mysql)[-_]?pass"
    r"|[\w-]*(?:hf|hub|auth|access|refresh|bearer|id|session|security|sas|github|gitlab|gh|git|wandb|openai|ngc|api|bot"
    r"|slack|npm|pypi|vault|user|service|admin|huggingface|hugging[-_]face|personal|deploy|registry|csrf|oauth|webhook"
    r"|jwt|login|secret|app|cloud|job)[-_]?tokens?"
    r"|(?:proxy-|x-)?authorization|credentials?|connection[-_]?string|(?:set-)?cookies?|basic[-_]?auth"
    r"|shared[-_]?access[-_]?signature|x-amz-(?:signature|credential|security-token))"
)
# The name of an environment variable says it by its last word alone.
_VARIABLE = (
    r"(?-i:(?:[A-Z0-9]+_)+(?:KEY|TOKEN|PASS|PASSWD|PASSWORD|PWD|SECRET|PAT|CREDENTIALS?|AUTH|DSN|KEY_ID)"
    r"|PGPASSWORD|TOKEN(?==))(?![A-Za-z0-9_])"
)
_HARMLESS_NAME = (
    r"(?i)(?:^|[-_ ])(?:eos|bos|pad|unk|sep|cls|mask|stop|image|audio|video|end|start|think|next|cache|sort|primary"
    r"|foreign|public|host|partition|routing|lookup|hash|tool|compile|dedup|group)[-_ ]?(?:key|token)s?$"
)
_SECRET = rf"(?i){_NAME}|{_VARIABLE}|[\w.-]*[._-](?:{_NAME})"
# One of these is in each name of a secret: most words of a log are done with after one look.
_HEARTS = r" ?key| ?token|secret|pass|pwd|auth|credential|connection|cookie|signature|sess|_pat|_dsn"
_SPACE = r"(?:\s|\\+[nrt])"
"""White space, as it is and as JSON escapes it."""
_QUOTE = r"""(?:\\*['"`]|&(?:quot|apos|#34|#39|#x22|#x27);|%2[27])"""
_WRAP = rf"""(?:(?:Some|SecretStr|SecretBytes|Secret|Ok|Redacted)\({_SPACE}*|[bru](?=['"]))"""
"""What may stand around a value: Some( of Rust, SecretStr( of pydantic, b of Python's bytes."""
_QUOTED = (
    r"""\\+"(?:[^"\\\n]|\\+(?!["\\]))*+(?:\\+")?|\\+'(?:[^'\\\n]|\\+(?!['\\]))*+(?:\\+')?"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|\[[^\]\n]*+\]?|\{[^}\n]*+\}?|\([^)\n]*+\)?"""
    r"""|(?:Bearer|Basic|Token|Digest|Negotiate)\s+[^\s'",;)}\]\\]+"""
)
_BARE = r"""[^\s'",;&)}\]\\]+"""
_TYPE = (
    r"(?:(?::\s*|\()(?:Optional|List|list)?\[?(?:str|string|String|SecretStr|bytes)\]?\)?(?:\s*\|\s*None)?\s*(?=[:=]))?"
)
"""What a declaration says between a name and its value: `api_key: str = …`."""
_SEPARATOR = rf"(?:{_QUOTE})?\]?{_SPACE}*{_TYPE}(?:=>|:=|->|[:=]|%3[ADad]){_SPACE}*(?:&(?:quot|apos|#\d+|#x\d+);|%2[27])?(?:{_WRAP})*"

_NAMED = (
    rf"""(?i)(?P<head>(?<![\w-])(?=[\w-]*(?:{_HEARTS}))-{{0,2}}(?P<name>{_NAME})(?:{_SEPARATOR}|{_SPACE}*(?=\[|Some\()(?:{_WRAP})*))"""
    rf"(?P<value>{_QUOTED}|{_BARE})"
)
# Without quotes, the value of a variable ends at white space only.
_ENVIRONMENT = rf"""(?i)(?P<head>(?<![A-Za-z0-9_])(?=\w*(?:{_HEARTS}))(?P<name>{_VARIABLE}){_SEPARATOR})(?P<value>{_QUOTED}|[^\s'"\\]+)"""
_MORE = r"""(?:\s+(?!-)(?=[^\s'",]*\d)[\w.+=~-]{6,})*+"""
"""Further values: `--api-key` takes several."""
_FLAG = (
    rf"""(?i)(?P<head>(?<![\w-])--(?P<name>{_NAME}|(?:[\w-]+-)?(?:token|password|pass))[ =]+)"""
    rf"""(?P<value>{_QUOTED}|[^\s'",]+{_MORE})"""
)
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)"""
# '--api-key', 'value' and (b'authorization', b'value')
_PAIR = (
    rf"""(?i)(?P<head>(?:['"]--(?P<name>{_NAME})|[(\[]b?['"](?:authorization|proxy-authorization|cookie|x-api-key|api-key))"""
    rf"""['"]\s*,\s*b?)(?P<value>{_STRING}(?:\s*,\s*(?=['"](?!--)[^'"\s]*\d){_STRING})*)"""
)
# {"name": "HF_TOKEN", "value": "…"}, as Kubernetes writes an environment
_ENTRY = (
    rf"""(?i)(?P<head>\b(?:name|key)(?:{_QUOTE})?\s*[:=]\s*(?:{_QUOTE})?(?P<name>{_NAME}|{_VARIABLE})(?:{_QUOTE})?{_SPACE}*,?"""
    rf"""{_SPACE}*(?:{_QUOTE})?value{_SEPARATOR})(?P<value>{_QUOTED}|{_BARE})"""
)
_XML = rf"(?i)(?P<head><(?P<name>{_NAME})(?:\s[^<>\n]{{0,80}})?>)(?P<value>[^<\n]+)"
# What people write: "using token abc…", "password is …", a table's row. Only what looks like no word is hidden there.
_LINK = r"(?:is|was|be|set|to|equals?|provided|value|given|used|got|received|now|as|header|string|supplied|configured|str)\b"
_OPAQUE = r"[^\s'\"`,;|<>(){}\[\]\\/&]{6,}"
_NEAR = (
    rf"(?i)(?P<head>(?<![\w-])(?=[\w-]*(?:{_HEARTS}))(?P<name>{_NAME}|{_VARIABLE}|(?:hf|hub|auth|access|refresh|bearer|session|api|bot|secret) token)"
    rf"(?![\w-])[\s:=>|.,'\"`()\]]{{1,40}}+(?:{_LINK}[\s:='\"`]{{1,4}}+){{0,4}}+(?:for (?:user )?[\w@.-]+\s?[:=]\s?)?)"
    rf"(?P<value>{_OPAQUE})(?![/\w])"
)
_SAYS = (
    rf"(?i)(?P<head>(?<![\w-])(?=[\w-]*(?:{_HEARTS}))(?P<name>{_NAME}|{_VARIABLE}|tokens?)(?![\w-])['\"`]?\s+(?:(?:{_LINK}\s*){{1,3}}+[:=]?\s*|(?=['\"`])))"
    r"(?P<value>'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|[^\s'\"`,;]+)"
)
_WITH = (
    r"(?i)(?P<head>\b(?:(?:us(?:e|es|ed|ing)|with|got|invalid|wrong|incorrect|bad|received|provided|expired|rejected|new|my|the"
    r"|your|generated|fetched|loaded|login)\s+(?:[\w-]+\s+)?(?:token|key|secret)|token)(?:\s+(?:is|was))?:?\s+['\"`]?)"
    rf"(?P<value>{_OPAQUE})(?![/\w])"
)
_LOGIN = r"(?i)(?P<head>\bwandb\b.{0,40}?\blog[- ]?in\b.{0,40}?\s)(?P<value>[0-9a-f]{32,})"
_OPTION = (
    r"(?P<head>\b(?:login\b.{0,200}?\s-p|(?:sshpass|mysql\w*)\b.{0,200}?\s-p)[ =]?|--from-literal[ =][\w.-]+="
    r"|\blogin\s+\S{1,80}\s+password\s+)(?P<value>'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)"
)
_PASS = rf"""(?i)(?P<head>(?<![\w-])(?P<name>pass|pwd|otp)(?:{_QUOTE})?\s*[=:]\s*)(?P<value>['"][^'"\n]+['"]?|(?<==)[^\s'",;&)}}\]]+)"""
# An object of Kubernetes: what its data is called says nothing.
_SECRET_KIND = r"""(?i)["']?kind["']?\s*:\s*["']?Secret\b"""
_DATA = r"""(?P<head>["'](?:stringData|data)["']\s*:\s*)(?P<value>\{[^{}\n]*\}?)"""
_TOKEN = rf"""(?i)(?P<head>(?<![\w.-])(?P<name>(?:[a-z]{{1,20}} )?(?:tokens?|keys?)){_SEPARATOR}(?:{_QUOTE})?)(?P<value>[\w.+/=-]{{8,}})"""
_SCHEME = r"(?i)(?P<head>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})"
_QUERY = (
    r"(?i)(?P<head>[?&;](?P<name>[\w-]*key|[\w-]*token|password|passwd|pwd|secret|[\w-]*secret|sig|[\w-]*signature"
    r"|[\w-]*credential|code|auth|apikey|jwt|se?ssion(?:id)?)=)(?P<value>[^&;\s\"'#]+)"
)
_USER = r"""(?P<head>\b[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<value>[^\s/'"@:]*:[^\s/'"]+|(?=[^\s/@]*\d)[^\s/'"@:]{12,})(?=@)"""
_CURL = r"(?P<head>\bcurl\b.{0,200}?\s(?:-u|--user)[ =]?)(?P<value>[^\s'\"]+|'[^']*'|\"[^\"]*\")"
_COOKIE = r"""(?i)(?P<head>\b(?:set-)?cookie:\s*)(?P<value>[^\n'"]+)"""
_AUTH = r"""(?P<head>\bauth\\*['"]?\s*[=:]\s*)(?P<value>\([^)\n]*\)?|\\*['"][A-Za-z0-9+/]{12,}={0,2}\\*['"]|[\w.-]+:[^\s'",;)}]+)"""
_PEM = r"(?s)(?P<head>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)(?P<value>.+?)(?=-----END|\Z)"
_SHAPE = (
    r"(?P<head>)(?P<value>(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}"
    r"|sk-[A-Za-z0-9_-]{12,}|[srp]k_(?:live|test)_[A-Za-z0-9]{12,}|whsec_[A-Za-z0-9]{16,}"
    r"|nvapi-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|tgp_v1_[\w-]{16,}|fw_[A-Za-z0-9]{20,}|csk-[a-z0-9]{20,}|jina_[A-Za-z0-9]{20,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|GOCSPX-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|dt|rt|ptt|cbt|ft|soat)-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{16,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dckr_(?:pat|oat)_[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|key-[0-9a-f]{32}"
    r"|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}|hv[sbr]\.[\w-]{16,}|do[opr]_v1_[0-9a-f]{32,}|dapi[0-9a-f]{32}"
    r"|ATATT3[\w=-]{16,}|sntrys_[\w=+/-]{16,}|gl(?:c|sa)_[\w=+/-]{16,}|NRAK-[A-Z0-9]{16,}|lin_api_\w{16,}|figd_[\w-]{16,}"
    r"|PMAK-[\w-]{16,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|ops_eyJ[\w-]{20,}|\d{8,10}:AA[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?))"
)
_HOOK = (
    r"(?P<head>hooks\.slack\.com/(?:services|workflows|triggers)/|://[^\s/]{1,80}/(?:[\w-]{1,40}/)?webhooks?\w*/"
    r"|api\.telegram\.org/bot)(?P<value>[^\s'\"<>]+)"
)
# A line that was cut may end in the beginning of a secret.
_CUT = (
    r"(?<![A-Za-z0-9])(?:hf_|sk-|nvapi-|gsk_|xai-|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|AIza|eyJ)"
    r"(?=[\w.-]*\d)[\w.-]{3,}\Z"
)
_NAMES = ("key", "token", "secret", "pass", "pwd", "auth", "credent", "connect", "cook", "shared", "x-amz", "sess")
_VARIABLES = (
    "_key", "_token", "_pass", "_pwd", "_secret", "_pat", "_credential", "_auth", "_dsn", "pgpassword", "token=",
)  # fmt: skip
_PATTERNS = {
    _PEM: ("private key",),
    _ENTRY: ("value",),
    _PAIR: (",",),
    _COOKIE: ("cook",),
    _AUTH: ("auth",),
    _NAMED: _NAMES,
    _ENVIRONMENT: _VARIABLES,
    _FLAG: ("--",),
    _XML: ("<",),
    _PASS: ("pass", "pwd", "otp"),
    _TOKEN: ("token", "key"),
    _SCHEME: ("bearer", "bas"),
    _QUERY: ("?", "&", ";"),
    _USER: ("://",),
    _CURL: ("curl",),
    _OPTION: ("login", "pass", "mysql", "--from-literal"),
    _LOGIN: ("wandb",),
    _HOOK: ("hook", "telegram"),
    _SHAPE: ("",),
    _SAYS: (*_VARIABLES, *_NAMES),
    _NEAR: (*_VARIABLES, *_NAMES),
    _WITH: ("key", "token", "secret"),
}
"""Each pattern with texts of which one stands in whatever it matches, in small letters: most need not be tried."""
_DOUBTFUL = frozenset((_NEAR, _WITH, _TOKEN))
"""Where what follows a name may as well be a word, a number or a path."""
_NOTHING = frozenset(
    ("none", "null", "true", "false", "some", "nil", "", HIDDEN, "[]", "{}", "()", "[none]", "undefined")
)
# Words that follow such a name in a sentence: "credentials: none found".
_PROSE = frozenset(
    (
        "no", "not", "is", "are", "was", "were", "has", "have", "must", "may", "can", "cannot", "could", "should", "will",
        "the", "a", "an", "and", "or", "of", "for", "in", "on", "to", "from", "with", "by", "if", "missing", "invalid",
        "required", "expected", "only", "unset", "set", "empty", "found", "failed", "expired", "wrong", "unable", "please", "provided",
        "incorrect", "optional", "used", "given", "needed", "too", "also", "now", "still", "already", "absent", "ok", "valid", "it",
        "as", "at", "this", "that", "your", "here", "there", "bad", "short", "long", "weak", "fine", "correct", "str", "string",
        "bytes", "int", "bool", "type", "value", "optional[str]", "list[str]", "secretstr", "undefined",
    )
)  # fmt: skip
_GRAMMAR = r"[A-Z]?[a-z]+(?:ed|ing|ly|able|ible|ary|n't)[.:]?"
_WORD = r"[A-Za-z]*\d{0,2}[A-Za-z]{0,2}|\d+[A-Za-z]{0,3}|\d+x\d+[A-Za-z]|[A-Za-z]{1,3}\d{1,2}[A-Za-z]{1,3}\d{1,2}"
"""A piece of an identifier, of a model's name or of a version."""
_QUANTITY = r"[\d.,:]+(?:[munµ]?s|min|sec|h|[kKMGT]?i?[Bb]|[kKMGTx%]|tok(?:ens?)?|reqs?|it)?(?:/\w{1,5})?"
_MARKS = (
    "key", "token", "secret", "pass", "pwd", "auth", "credent", "bearer", "basic", "bas\u0131c", "://", "cook", "connect", "sig",
    "s\u0131g", "sess", "otp", "log\u0131n", "login", "mysql", "--from-literal", "hook", "curl", ".org/bot", "hf_", "sk-",
    "sk_", "rk_", "pk_", "whsec", "api_org", "nvapi", "gsk_", "xai-", "pplx", "r8_", "tgp_", "fw_", "csk-", "ya29", "gocspx",
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-",
    "xox", "xapp", "jina_", "aiza", "akia", "asia", "abia", "acca", "ltai", "akid", "npm_", "pypi-", "dckr", "sg.", "shp",
    "hvs.", "hvb.", "hvr.", "doo_v1", "dop_v1", "dor_v1", "dapi", "atatt", "sntrys", "glc_", "glsa_", "nrak", "lin_api",
    "figd", "pmak", "ops_", ":aa", "eyj", "age-secret", "_pat", "_dsn",
)  # fmt: skip
"""One of these is in every text in which something could be hidden, in small letters."""
_INNOCENT = (
    r"(?<=\d )tokens(?=,| per | for | in |/|\))|tokens/s|tokenizer|(?<![a-z])(?:max|batched|num|prompt|total)_tokens"
    r"|keyerror|keyword|connectors?"
)
"""Words of most logs in which a mark stands that is none, in small letters."""
_CONTROL = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]"
    r"|[\ud800-\udfff]|[\U000e0000-\U000e007f]"
)


def masked(text: str) -> str:
    """Hide what looks like a secret; the name beside it stays."""
    return _scrubbed(text)[0] if _suspicious(text) else text


@lru_cache(maxsize=256)  # one line proves many things
def _scrubbed(text: str) -> tuple[str, frozenset[str]]:
    """A text without its secrets, and those that are long enough to be told from ordinary words."""
    found: set[str] = set()

    def gather(match: regex.Match[str]) -> str:
        hidden = _hide(match)
        if hidden != match[0]:
            found.update(
                piece for piece in re.split(r"""\\*['"]|\s*,\s*|[\[\](){}]""", match["value"]) if len(piece) >= 6
            )
        return hidden

    for pattern in _possible(text):
        text = compiled(pattern).sub(gather, text)
    if compiled(_SECRET_KIND).search(text):
        text = compiled(_DATA).sub(_hide, text)
    return compiled(_CUT).sub(HIDDEN, text), frozenset(found - {HIDDEN})


def _suspicious(text: str) -> bool:
    small = _telling(text)
    return any(mark in small for mark in _MARKS)


def _telling(text: str) -> str:
    """A text in small letters, without the words that look like marks and are none."""
    small = text.casefold()
    return compiled(_INNOCENT).sub("", small) if "token" in small or "key" in small or "connector" in small else small


def _possible(text: str) -> list[str]:
    small = _telling(text)
    return [pattern for pattern, needs in _PATTERNS.items() if any(need in small for need in needs)]


def _hide(match: regex.Match[str]) -> str:
    value, name = match["value"].strip(), match.groupdict().get("name") or ""
    bare = value.strip("\\'\"[](){} `")
    if bare.lower() in _NOTHING or bare.strip("*") == "" or (name and compiled(_HARMLESS_NAME).search(name)):
        return match[0]
    if not _is_secret(match, name, value, bare):
        return match[0]
    opening = re.match(r"""\\*['"`]|[\[({]""", value)
    if opening is None:
        return f"{match['head']}{HIDDEN}"
    closing = {"[": "']", "(": "')", "{": "'}"}.get(opening[0], opening[0])
    return (
        f"{match['head']}{opening[0]}{chr(39) if len(closing) == 2 and closing[0] == chr(39) else ''}{HIDDEN}{closing}"
    )


def _is_secret(match: regex.Match[str], name: str, value: str, bare: str) -> bool:
    """Whether a value is one, judged by how it was found: beside an equals sign nearly all is, in a sentence little."""
    kind = match.re.pattern
    word = bare.lower().rstrip(".:")
    if kind in _DOUBTFUL:
        strict = 16 if kind == _TOKEN and "key" in name.lower() else 12 if match["head"][:5].lower() == "token" else 8
        return not secret(word) and _opaque(bare, 6 if kind == _NEAR else strict)
    if kind == _SAYS:
        if word in _PROSE or compiled(_GRAMMAR).fullmatch(bare) or secret(bare) or bare[:1] in "/<%{(|":
            return False
        mixed = len(bare) >= 6 and not re.fullmatch(r"[A-Z]?[a-z_.-]+|.*\s.*", bare) and "token" not in name.lower()
        return mixed or _opaque(bare, 6) or re.search(r"(?i)passw|passphrase", name) is not None
    if kind == _NAMED:
        return not (word in _PROSE or (name[-1:] in "sS" and bare.isdigit()))
    if kind == _FLAG:
        return word not in _PROSE
    if kind == _PASS:
        return not (bare[:1] in "/~$" or bare.isdigit())
    if kind == _SCHEME:
        return not (len(bare) < 24 and re.fullmatch(r"[A-Z]?[a-z]+[.:]?", bare))  # "Basic authentication"
    return True


def _opaque(text: str, least: int) -> bool:
    """Whether a text is neither words, nor a number with a unit, nor a version, nor a name made of such pieces."""
    text = text.rstrip(".:")
    if len(text) < least or not re.search(r"\d", text) or not re.search(r"[A-Za-z]", text):
        return False
    pieces = re.split(r"[-._:/+@=]", text)
    return not (
        compiled(_QUANTITY).fullmatch(text) or (len(pieces) > 1 and all(map(compiled(_WORD).fullmatch, pieces)))
    )


@lru_cache(maxsize=1024)  # servers have the same settings
def secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    whole = compiled(_SECRET).fullmatch(name.strip("-"))
    return whole is not None and not compiled(_HARMLESS_NAME).search(name)


def withheld(name: str, value: Any) -> str:
    """The value of a setting as any output may show it."""
    text = str(value)
    return HIDDEN if secret(name) and text.strip("[]{}()'\" ").lower() not in _NOTHING else safe(text)


def secrets_in(settings: Iterable[tuple[str, Any]]) -> frozenset[str]:
    """The secrets themselves that settings hold, where they are long enough to be found again without doubt."""
    found: set[str] = set()

    def gather(value: Any) -> None:
        if isinstance(value, str) and (
            _opaque(value, 6) or (len(value) >= 8 and not re.fullmatch(r"[a-z]+|[A-Z]+|[\d.]+", value))
        ):
            found.add(value)
        elif isinstance(value, dict):
            for inner in value.values():
                gather(inner)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for inner in value:
                gather(inner)

    for name, value in settings:
        if secret(name):
            gather(value)
    return frozenset(found)


def secrets_of(lines: Iterable[str]) -> frozenset[str]:
    """The secrets that lines give away by a name beside them, where they are no ordinary words."""
    return frozenset(
        value for line in lines if _suspicious(line) for value in _scrubbed(line[:_READ])[1] if _opaque(value, 8)
    )


_READ = 20_000
"""Characters of a line that are searched for secrets that other lines may hold."""


def without(value: Any, secrets: Collection[str]) -> Any:
    """Plain data without these secrets, wherever they stand in its texts."""
    if not secrets:
        return value
    if isinstance(value, str):
        for one in secrets:
            if one in value:
                value = value.replace(one, HIDDEN)
        return value
    if isinstance(value, dict):
        return {without(key, secrets): without(inner, secrets) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without(inner, secrets) for inner in value]
    return value


_KUBERNETES = r"^(?P<head>(?:.*\s)?)(?P<kind>stringData|data):\s*$"
_DATUM = r"^(?P<head>\s*[\w.-]+:\s+)(?P<value>\S.*)$"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}="
_ALONE = (
    rf"(?i)(?<![\w-])-{{0,2}}(?P<name>{_NAME}|{_VARIABLE})(?:{_QUOTE})?\s*"
    rf"(?:(?:=>|:=|[:=])\s*(?:{_WRAP})*(?P<open>[\[({{]?)\s*[|>]?[-+]?|(?<=\w)\s*\\|['\"],)\s*$"
)
_CLOSING = r"[\])}]\s*[,;]?\s*$"
_NAME_ALONE = rf"(?i)\b(?:name|key)(?:{_QUOTE})?\s*[:=]\s*(?:{_QUOTE})?(?:{_NAME}|{_VARIABLE})(?:{_QUOTE})?,?\s*$"
_VALUE_LINE = rf"(?i)(?P<head>\bvalue(?:{_QUOTE})?\s*[:=]\s*)(?P<value>\S.*)$"
_STRINGS = r"""\\*"(?:[^"\\]|\\.)*"?|\\*'(?:[^'\\]|\\.)*'?"""
_LAST = r"(?P<head>(?:^|.*[\s|]))(?P<value>[^\s,]{4,})(?P<tail>,?\s*\\?\s*)$"
_ONLY_STRING = r"""\s*\\*(['"])[^'"]{4,}\1,?\s*"""
LOOK_BACK = 60
"""Lines before an excerpt that may decide what in it is secret: a private key has that many."""


def masked_lines(lines: Iterable[str]) -> Iterator[str]:
    """Mask lines that follow each other: the value of a name that stands at the end of one is in the next ones."""
    state = ""
    left = indent = 0
    for text in lines:
        hidden = masked(text)
        if state == "pem":
            hidden = HIDDEN if "-----END" not in text else hidden
            state = "" if "-----END" in text or left <= 0 else state
        elif state in ("data", "stringData"):
            datum = compiled(_DATUM).match(text[indent:])
            if text[indent : indent + 1] != " ":
                state = ""
            elif datum is None:
                hidden = text[:indent] + HIDDEN if state == "stringData" else hidden
            elif state == "stringData" or compiled(_BASE64).fullmatch(datum["value"].strip("'\" ")):
                hidden = f"{text[:indent]}{datum['head']}{HIDDEN}"
        elif state == "entry":
            hidden = compiled(_VALUE_LINE).sub(rf"\g<head>{HIDDEN}", hidden)
            state = ""
        elif state and text.strip():
            hidden = _value_of(hidden)
            if state == "value" or compiled(_CLOSING).search(text):
                state = ""
        left -= 1
        if left <= 0 and state not in ("pem", "data", "stringData"):
            state = ""
        if state in ("data", "stringData"):
            yield hidden
            continue
        kubernetes = compiled(_KUBERNETES).match(text)
        alone = compiled(_ALONE).search(text)
        if kubernetes:
            state, indent = kubernetes["kind"], len(kubernetes["head"])
        elif re.search(r"PRIVATE KEY(?: BLOCK)?-----", text) and "-----BEGIN" in text and "-----END" not in text:
            state, left = "pem", LOOK_BACK * 4
        elif alone and not compiled(_HARMLESS_NAME).search(alone["name"]):
            state, left = ("list", LOOK_BACK) if alone["open"] else ("value", 3)
        elif compiled(_NAME_ALONE).search(text):
            state, left = "entry", 2
        yield hidden


def _value_of(text: str) -> str:
    """Hide the value on a line that holds nothing else, but for an envelope before it."""
    if compiled(_STRINGS).search(text):
        return compiled(_STRINGS).sub(lambda m: f"{m[0][0]}{HIDDEN}{m[0][0]}" if m[0][0] != "\\" else HIDDEN, text)
    last = compiled(_LAST).match(text)
    if last is None:
        return text
    alone = not last["head"].strip(" -|\t")
    if alone or (re.search(r"\d", last["value"]) and re.search(r"[A-Za-z]", last["value"]) and len(last["value"]) >= 8):
        return f"{last['head']}{HIDDEN}{last['tail']}"
    return text


def visible(text: str) -> str:
    """Show control characters as escapes; tabs and newlines are spaces."""
    text = text.replace("\t", " ").replace("\n", " ")
    return text if text.isprintable() else compiled(_CONTROL).sub(_escaped, text)


def _escaped(match: regex.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def telling(said: str, line: str) -> str:
    """The piece of a line that tells its secrets: what is said, unless the envelope before it may hold one's name."""
    begin = line.find(said[:64]) if said else -1
    # A long line is cut, and what it says may go on behind the cut.
    whole = begin >= 0 and said.startswith(line[begin:].rstrip())
    return said if whole and not _suspicious(line[:begin]) else line


def safe_part(part: str, whole: str) -> str:
    """What may be shown of a piece of a line: its name may stand in another piece of the same line."""
    shown = masked(part)
    if part == whole or not _suspicious(whole):
        return visible(shown)
    whole = telling(part, whole)
    if compiled(_ONLY_STRING).fullmatch(shown):
        return f'"{HIDDEN}"'  # a line of a structure that was spread over lines inside one record
    for value in sorted(_scrubbed(whole)[1], key=len, reverse=True):
        shown = shown.replace(value, HIDDEN)
    return visible(shown)


@lru_cache(maxsize=256)  # names of inputs and replicas come again and again
def safe(text: str) -> str:
    """What any output may show of an input's text."""
    return visible(masked(text))
