"""Times of envelopes to seconds, by fixed fields: strptime costs more than the rest of a line."""

from __future__ import annotations

import re
from functools import lru_cache

import regex

from logdoctor.regexes import compiled

_FIELDS = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>\d{1,2}?)",
    "d": r"(?P<d>\d\d| ?\d)",
    "b": r"(?P<b>[A-Z][a-z]{2})",
    "a": r"[A-Z][a-z]{2}",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<H>\d{1,2})",
    "p": r"(?P<p>[AP]M)",
    "M": r"(?P<M>\d{2})",
    "S": r"(?P<S>\d{2})",
    "f": r"(?P<f>\d{1,9})",
    "z": r"(?P<z>Z|[+-]\d\d:?\d\d)",
    "Z": r"[A-Z]{1,5}",
}
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_RFC3339 = (
    r"(?P<Y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)[T ](?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
    r"(?:[.,](?P<f>\d{1,9}))?(?P<z> ?(?:Z|[+-]\d\d:?\d\d))?"
)
_EPOCH = r"\d{1,19}(?:\.\d+)?"


@lru_cache(maxsize=64)
def _compiled(form: str) -> regex.Pattern[str]:
    parts = []
    at = 0
    while at < len(form):
        if form[at] == "%" and at + 1 < len(form):
            parts.append(_FIELDS[form[at + 1]])
            at += 2
        else:
            parts.append(r"\s+" if form[at] == " " else re.escape(form[at]))
            at += 1
    return compiled("".join(parts))


def seconds(text: str, forms: tuple[str, ...]) -> float | None:
    """Seconds since 1970 (where no year is printed: since the start of an unnamed leap year)."""
    for form in forms:
        if form == "epoch":
            if compiled(_EPOCH).fullmatch(text):
                value = float(text)
                while value > 1e11:
                    value /= 1000.0
                return value
            continue
        match = (compiled(_RFC3339) if form == "rfc3339" else _compiled(form)).match(text.strip())
        if match:
            return _seconds({key: value for key, value in match.groupdict().items() if value})
    return None


def _seconds(part: dict[str, str]) -> float | None:
    year = int(part["Y"]) if "Y" in part else 2000 + int(part["y"]) if "y" in part else 1972
    month = _MONTHS.get(part["b"], 0) if "b" in part else int(part.get("m", 1))
    if not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (
        (year - 1970) * 365
        + (year - 1969) // 4
        - (year - 1901) // 100
        + (year - 1601) // 400
        + _BEFORE[month - 1]
        + (leap and month > 2)
        + int(part.get("d", 1))
        - 1
    )
    hour = int(part.get("H", 0))
    if "p" in part:
        hour = hour % 12 + 12 * (part["p"] == "PM")
    total = float(days * 86400 + hour * 3600 + int(part.get("M", 0)) * 60 + int(part.get("S", 0)))
    if "f" in part:
        total += float("0." + part["f"])
    zone = part.get("z", "").strip().replace(":", "")
    if len(zone) == 5:
        total -= (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[3:5]) * 60)
    return total
