"""Read the Python values that engines print of their arguments and configuration; never evaluates anything."""

from __future__ import annotations

from typing import Any

_CLOSING = {"{": "}", "[": "]", "(": ")"}
_DEPTH = 40
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class _Reader:
    """A forgiving reader: enum reprs, calls, nesting, and a text that was cut off anywhere."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.loose = False

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def string(self) -> str:
        quote = self.text[self.at]
        self.at += 1
        parts = []
        while self.at < len(self.text):
            end = self.text.find(quote, self.at)
            end = len(self.text) if end < 0 else end
            escape = self.text.find("\\", self.at, min(end, len(self.text) - 1))
            if escape < 0:
                parts.append(self.text[self.at : end])
                self.at = min(end + 1, len(self.text))
                break
            following = self.text[escape + 1]
            parts += (self.text[self.at : escape], _ESCAPES.get(following, following))
            self.at = escape + 2
        return "".join(parts)

    def angle(self) -> Any:
        """`<CompilationMode.NONE: 0>` is its member, `<object at 0x…>` its text."""
        start, level = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "'\"":
                self.string()
                continue
            self.at += 1
            level += (char == "<") - (char == ">")
            if level == 0:
                break
        inner = self.text[start + 1 : self.at - 1]
        name, colon, _ = inner.partition(": ")
        return name.rpartition(".")[2] if colon and " " not in name else inner

    def word(self, stops: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        return self.text[start : self.at].strip()

    def value(self, depth: int = 0) -> Any:
        self.space()
        char = self.peek()
        if depth > _DEPTH:
            return self.word("")
        if char in _CLOSING:
            return self.group(depth)
        if char == "<":
            return self.angle()
        if char and char in "'\"":
            return self.string()
        word = self.word(",)]}=:('\"" if depth else ",=('\"")
        if self.peek() == "(":
            if word.startswith("<") or not word.replace("_", "a").replace(".", "a").isalnum():
                return word + self.word(",)]}" if depth else ",")
            inner = self.group(depth)
            if isinstance(inner, list) and len(inner) == 1:
                return inner[0]
            return inner
        if depth and self.peek() == "=" and " " in word:
            # Some releases forget a comma: `a=False b=True`.
            word, _, following = word.rpartition(" ")
            self.at -= len(following)
            self.loose = True
        if self.peek() in ("'", '"') and word in ("b", "r", "u", "f"):
            return self.string()
        return scalar(word)

    def group(self, depth: int) -> Any:
        """A list, set, tuple or call's arguments as a list; a dict, or arguments by name, as a dict."""
        closing = _CLOSING[self.text[self.at]]
        self.at += 1
        items: list[Any] = []
        named: dict[str, Any] = {}
        while True:
            self.space()
            if not self.peek() or self.peek() == closing:
                self.at += 1
                break
            before = self.at
            value = self.value(depth + 1)
            self.space()
            if self.peek() and self.peek() in ":=":
                self.at += 1
                named[str(value)] = self.value(depth + 1)
                self.space()
            else:
                items.append(value)
            if self.loose:
                self.loose = False
                continue
            while self.peek() and self.peek() not in "," + closing:
                self.at += 1  # what no rule explains is passed over
            if self.peek() == "," or self.at == before:
                self.at += 1
        return named if named or (closing == "}" and not items) else items


def scalar(word: str) -> Any:
    """Turn a bare word into the value that it spells."""
    if word in _WORDS:
        return _WORDS[word]
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word) if word and (word[0].isdigit() or word[0] in "-+.") else _bare(word)
    except ValueError:
        return _bare(word)


def _bare(word: str) -> str:
    return word.removeprefix("torch.")


def read_values(text: str, reader: str) -> dict[str, Any]:
    """Read `text` with the named reader into names and values.

    python-repr reads a dict, namespace reads `Name(key=value, …)`, key-values reads `key=value, key=value`.
    """
    source = _Reader(text)
    if reader == "python-repr":
        found = source.value()
    elif reader == "namespace":
        source.word("(")
        found = source.value() if source.peek() == "(" else {}
    else:
        source.text = "(" + text + ")"
        found = source.value()
    return found if isinstance(found, dict) else {}
