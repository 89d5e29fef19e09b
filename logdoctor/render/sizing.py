"""A sizing for people: the answer first, then how it comes about, what would change it, and the line to start with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from logdoctor.render import colours
from logdoctor.render.card import WIDTH, Plain, Row, _fit, _wrapped
from logdoctor.render.markdown import code, escaped

HEAD = 14
GIB = 1 << 30


def render(sizing: Plain, width: int = WIDTH) -> str:
    """Write the sizing as plain text that wraps at `width` columns."""
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows(sizing, width))


def show(sizing: Plain, out: TextIO, width: int) -> None:
    """Print the sizing in colours."""
    colours.show(rows(sizing, width), out)


def rows(sizing: Plain, width: int = WIDTH) -> Iterator[Row]:
    """Yield the sizing line by line, each a list of styled spans that fits the width."""
    yield from _fit(_answer(sizing), width)
    yield from _wrapped(_about(sizing), "", width, "dim")
    yield []
    for head, text in _arithmetic(sizing):
        yield from _wrapped(text, f"  {head:<{HEAD - 2}}", width)
    if sizing.get("what_if"):
        yield []
        yield from _what_if(sizing, width)
    if sizing.get("traffic") and len(sizing["traffic"]) > 1:
        yield []
        yield from _classes(sizing, width)
    yield from _latency(sizing, width)
    if sizing["advice"]:
        yield []
        for number, one in enumerate(sizing["advice"]):
            head = f"  {'change' if not number else '':<{HEAD - 2}}"
            yield [(head, ""), (f"{one['flag']} {_value(one['value'])}", "bold")]
            yield from _wrapped(one["why"], " " * HEAD, width)
    if sizing.get("command"):
        yield []
        yield from _command(sizing["command"], width)
    if sizing["notes"]:
        yield []
        for note in sizing["notes"]:
            yield from _wrapped(note, f"  {'note':<{HEAD - 2}}", width, "dim")


def _answer(sizing: Plain) -> Row:
    """The answer: how many users, or how many requests of full length, or that there is no room."""
    pool = sizing["pool"]
    if pool["gib"] is None:
        return [
            (_kib(sizing["kv"]["bytes_per_token"]) + " a token", "bold"),
            ("; give --gpu or --pool-gib for users", ""),
        ]
    first = (sizing.get("traffic") or [None])[0]
    if pool["users"] is None:
        fits = pool.get("fits_one_request", True)
        word = f"{pool['max_concurrency']:,.2f} requests" if fits else "NOT ONE request"
        return [
            (word, "bold green" if fits else "bold red"),
            (f" of {sizing['kv']['max_model_len']:,} tokens fit at once", "bold"),
            ("; give --prompt-tokens and --output-tokens for users", ""),
        ]
    users = pool.get("users_in_all", pool["users"])
    asked = sizing.get("mix", first)
    wanted = asked["users_wanted"] * pool.get("pools", 1) if asked and asked["users_wanted"] else None
    short = users == 0 or (wanted is not None and users < wanted)
    row: Row = [
        (f"{users:,} {'user fits' if users == 1 else 'users fit'} at once", "bold red" if short else "bold green")
    ]
    if "users_in_all" in pool:
        row.append((f" ({pool['users']:,} in each of {pool['pools']} pools)", ""))
    if "users_range" in pool and len(set(pool["users_range"])) > 1:
        low, high = (n * pool.get("pools", 1) for n in pool["users_range"])
        row.append((f" (estimate: {low:,} to {high:,})", ""))
    if wanted:
        row.append((f", {wanted:,} {'is' if wanted == 1 else 'are'} wanted", ""))
    return row


def _about(sizing: Plain) -> str:
    parts = [sizing["model"]]
    budget = sizing["budget"]
    if budget and budget["card"]:
        parts.append(f"{budget['card']} ({budget['total_gib']:g} GiB)")
    elif budget:
        parts.append(f"{budget['total_gib']:g} GiB a card")
    first = (sizing.get("traffic") or [None])[0]
    if "mix" in sizing:
        parts.append(f"{len(sizing['traffic'])} kinds of requests")
    elif first:
        shared = (
            f", {first['shared_prefix_tokens']:,} of them the same for all" if first["shared_prefix_tokens"] else ""
        )
        parts.append(f"{first['prompt_tokens']:,} tokens in{shared}, {first['output_tokens']:,} out")
    return " · ".join(parts)


def _arithmetic(sizing: Plain) -> Iterator[tuple[str, str]]:
    yield from _log(sizing)
    kv, pool = sizing["kv"], sizing["pool"]
    at = "" if _plain_cache(kv) else f" at {kv['max_model_len']:,} tokens"
    text = f"{kv['formula']} = {_kib(kv['bytes_per_token'])}{at}" if kv["formula"] else "nothing that grows"
    if abs(kv["engine_bytes_per_token"] / kv["bytes_per_token"] - 1) > 0.005 if kv["bytes_per_token"] else True:
        text += f"; the engine allots {_kib(kv['engine_bytes_per_token'])}"
    if kv["state_bytes_per_sequence"]:
        text += f"; and {_size(kv['state_bytes_per_sequence'])} of state a request, whatever its length"
    yield "a token", text
    if pool["gib"] is None:
        return
    yield "the pool", _pool(sizing)
    first = (sizing.get("traffic") or [None])[0]
    if "mix" in sizing and pool["gib"] > 0:
        mix = sizing["mix"]
        yield (
            "users",
            f"{pool['gib']:.2f} GiB ÷ {_size(mix['bytes_per_user'])} a user on average = {mix['users_by_pool']:,}",
        )
    elif first and first.get("bytes_per_user") and pool["gib"] > 0:
        prefix = f" beside {first['shared_prefix_tokens']:,} shared tokens" if first["shared_prefix_tokens"] else ""
        text = f"{pool['gib']:.2f} GiB ÷ {_size(first['bytes_per_user'])} a user{prefix} = {first['users_by_pool']:,}"
        length = first["prompt_tokens"] + first["output_tokens"]
        if length > kv["max_model_len"]:
            text = f"requests of {length:,} tokens are longer than max_model_len {kv['max_model_len']:,}: none is taken"
        elif first["users"] < first["users_by_pool"]:
            text += f"; max_num_seqs lets {first['users']:,} run at once"
        yield "users", text
    if sizing["budget"]:
        yield "the card", _card(sizing["budget"])


def _plain_cache(kv: Plain) -> bool:
    return len(kv["groups"]) == 1 and kv["groups"][0]["kind"] == "full"


def _pool(sizing: Plain) -> str:
    kv, pool = sizing["kv"], sizing["pool"]
    by = {"log": "as logged", "explicit": "as given", "estimate": "estimate"}.get(pool.get("source", ""), "")
    parts = by
    budget = sizing["budget"]
    if pool.get("source") == "estimate" and budget:
        parts = f"estimate: {max(0.0, budget['pool_gib']['low']):.1f} to {max(0.0, budget['pool_gib']['high']):.1f}"
    if pool["gib"] <= 0:
        return "nothing is left of the card"
    text = f"{pool['gib']:.2f} GiB ({parts}) ÷ {_kib(kv['engine_bytes_per_token'])} = {pool['tokens']:,} tokens"
    if "tokens_range" in pool:
        low, high = pool["tokens_range"]
        text += f" ({low:,} to {high:,})"
    return f"{text} = {pool['max_concurrency']:,.2f} requests of {kv['max_model_len']:,}"


def _card(budget: Plain) -> str:
    whole, other = budget["total_gib"], budget["other_gib"]
    text = f"{whole:g} GiB"
    if other and budget["others"] == "share-of-free":
        whole -= other
        text = f"({text} − {other:g} of others)"
    share = whole * budget["utilization"]
    text += f" × {budget['utilization']:g} = {share:.2f} GiB"
    weights = budget["weights_gib"]
    if budget["pool_gib"]["source"] == "log":
        rest = share - weights["expected"] - budget["pool_gib"]["expected"]
        return f"{text} = weights {_range(weights)} + pool {_range(budget['pool_gib'])} + all else {rest:.2f}"
    if budget["pool_gib"]["source"] == "explicit":
        return f"{text}; the pool is given, weights {_range(weights)}"
    names = {"weights_gib": "weights", "activation_gib": "activation", "graphs_gib": "graphs", "context_gib": "context"}
    outside = budget["outside_of_share"]
    taken = " − ".join(f"{label} {_range(budget[name])}" for name, label in names.items() if name not in outside)
    beside = "; beside the share: " + ", ".join(f"{names[name]} {_range(budget[name])}" for name in outside)
    if other and budget["others"] == "counts-as-own":
        taken += f" − others {other:g}"
    made = f"{text} − {taken} = {_range(budget['pool_gib'])} for the pool (in brackets: the range of the estimate)"
    return made + beside if outside else made


def _range(value: Plain) -> str:
    """A number, or its expected value with both ends."""
    if value["low"] == value["high"]:
        return f"{value['expected']:.2f}"
    return f"{value['expected']:.1f} ({value['low']:.1f} to {value['high']:.1f})"


def _log(sizing: Plain) -> Iterator[tuple[str, str]]:
    log = sizing.get("log")
    if not log:
        return
    said = []
    if log["kv_gib"] is not None:
        said.append(f"{log['kv_gib']:.2f} GiB" + (f" (line {log['kv_gib_line']})" if log["kv_gib_line"] else ""))
    if log["tokens"] is not None:
        said.append(f"{log['tokens']:,} tokens" + (f" (line {log['tokens_line']})" if log["tokens_line"] else ""))
    if log["max_concurrency"] is not None:
        said.append(f"{log['max_concurrency']:,.2f} requests of {log['max_model_len']:,}")
    token = f": {_kib(log['bytes_per_token'])} a token" if log["bytes_per_token"] else ""
    yield "log says", ", ".join(said) + token if said else "nothing of the pool"
    if log["agrees"] is None:
        missing = "GiB" if log["kv_gib"] is None else "tokens"
        yield "computed", f"{_kib(log['computed_bytes_per_token'])} a token; the log prints no {missing} to check it by"
        return
    token = log["computed_bytes_per_token"]
    computed = f"{_kib(token)} a token, " if token else ""
    computed += f"{log['computed_tokens']:,} tokens"
    apart = log["apart_percent"] or 0.0
    if log["agrees"]:
        yield "computed", f"{computed}: the log agrees ({abs(apart):.1f} % apart)"
    else:
        yield "computed", f"{computed}: THE LOG DISAGREES ({apart:+.1f} %)"


def _columns(sizing: Plain) -> list[tuple[str, str, str, str]]:
    """The what-if table as texts: change, tokens, requests of full length, users."""
    found = []
    for row in sizing["what_if"]:
        change = f"{row['flag']} {_value(row['value'])}" if row["flag"] else row["change"]
        users = "" if row["users"] is None else f"{row['users']:,}"
        found.append((change, f"{row['tokens']:,}", f"{row['concurrency']:,.2f}", users))
    return found


def _what_if(sizing: Plain, width: int) -> Iterator[Row]:
    table = _columns(sizing)
    users = any(row[3] for row in table)
    room = width - 2 - 15 - 14 - (9 if users else 0)
    head = f"  {'what if':<{room}}{'tokens':>15}{'full length':>14}" + (f"{'users':>9}" if users else "")
    yield [(head, "dim")]
    for number, (change, tokens, most, fit) in enumerate(table):
        text = f"  {change[:room]:<{room}}{tokens:>15}{most:>14}" + (f"{fit:>9}" if users else "")
        yield [(text, "bold" if not number else "")]


def _classes(sizing: Plain, width: int) -> Iterator[Row]:
    for number, one in enumerate(sizing["traffic"]):
        wanted = f", {one['users_wanted']:,} wanted" if one["users_wanted"] else ""
        text = f"{one['prompt_tokens']:,} in, {one['output_tokens']:,} out: {one['users']:,} users alone{wanted}"
        yield from _wrapped(text, f"  {'requests' if not number else '':<{HEAD - 2}}", width)
    for number, one in enumerate(sizing.get("endpoints", ())):
        lengths = ", ".join(f"{length:,}" for length in one["lengths"])
        text = f"max_model_len {one['max_model_len']:,} for requests of {lengths} tokens: {one['why']}"
        yield from _wrapped(text, f"  {'servers' if not number else '':<{HEAD - 2}}", width)


def _latency(sizing: Plain, width: int) -> Iterator[Row]:
    latency = sizing["latency"]
    if not latency["measured"]:
        if sizing["pool"]["users"] is not None:
            yield []
            yield from _wrapped(latency["note"], f"  {'latency':<{HEAD - 2}}", width)
        return
    yield []
    points = list(latency["points"])
    made = [at for name in ("at_users", "at_wanted") if (at := latency.get(name)) and at not in points]
    points += [at for number, at in enumerate(made) if at not in made[:number]]
    yield [(f"  {'latency':<{HEAD - 2}}{'users':>8}{'TPOT':>12}{'ITL P99':>12}{'tokens/s':>12}", "dim")]
    for point in sorted(points, key=lambda p: float(p["users"])):
        between = "  interpolated" if point in made else ""
        itl = "-" if point["itl_p99_seconds"] is None else f"{point['itl_p99_seconds'] * 1000:.1f} ms"
        rate = "-" if point["tokens_per_second"] is None else f"{point['tokens_per_second']:,.0f}"
        tpot = f"{point['tpot_seconds'] * 1000:.1f} ms"
        yield [(f"{'':<{HEAD}}{point['users']:>8g}{tpot:>12}{itl:>12}{rate:>12}{between}", "bold" if between else "")]
    if latency.get("note"):
        yield from _wrapped(latency["note"], " " * HEAD, width)
    if "users_within_slo" in latency:
        yield from _wrapped(_slo(latency), " " * HEAD, width)


def _slo(latency: Plain) -> str:
    within = latency["users_within_slo"]
    return (
        f"{within:,} users keep the objectives"
        if within is not None
        else "not even the fewest users keep the objectives"
    )


def _command(command: str, width: int) -> Iterator[Row]:
    """The line to start with, in pieces that a shell puts together again."""
    line = ""
    for word in _words(command):
        if line and len(line) + 1 + len(word) + 2 > width - 2:
            yield [(f"  {line} \\", "green")]
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    yield [(f"  {line}", "green")]


def _words(command: str) -> list[str]:
    """The words of a command, a flag and its values together."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        split = list(lexer)
    except ValueError:
        return command.split(" ")
    words: list[str] = []
    for word in split:
        if words and words[-1].startswith("--") and " " not in words[-1] and not word.startswith("-"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def _value(value: Any) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float) and value != int(value)
        else str(int(value) if isinstance(value, float) else value)
    )


def _kib(size: float) -> str:
    """Bytes of a token, in KiB: as many digits as they have, up to one (two below 10)."""
    kib = size / 1024
    return f"{kib:,.1f} KiB" if kib >= 10 else f"{kib:.3g} KiB"


def _size(size: float) -> str:
    for unit, name in ((GIB, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}" if size < 100 * unit else f"{size / unit:,.1f} {name}"
    return _kib(size)


def render_markdown(sizing: Mapping[str, Any]) -> str:
    """Write the sizing as Markdown, to be pasted into a ticket."""
    lines = [f"## {escaped(''.join(text for text, _ in _answer(sizing)))}", "", escaped(_about(sizing)), ""]
    lines += ["| | |", "|---|---|"]
    lines += [f"| {head} | {escaped(text)} |" for head, text in _arithmetic(sizing)]
    lines.append("")
    if sizing.get("what_if"):
        lines += ["| what if | tokens | full length | users |", "|---|---:|---:|---:|"]
        for change, *numbers in _columns(sizing):
            lines.append(f"| {code(change) if change.startswith('-') else change} | {' | '.join(numbers)} |")
        lines.append("")
    if sizing.get("traffic") and len(sizing["traffic"]) > 1:
        lines += _bullets(_classes(sizing, 10_000))
    lines += _bullets(_latency(sizing, 10_000))
    for number, one in enumerate(sizing["advice"], 1):
        lines.append(f"{number}. {code(one['flag'] + ' ' + _value(one['value']))}: {escaped(one['why'])}")
    if sizing["advice"]:
        lines.append("")
    if sizing.get("command"):
        lines += ["```sh", sizing["command"].replace("```", "` ` `"), "```", ""]
    lines += [f"- {escaped(note)}" for note in sizing["notes"]]
    return "\n".join(lines).rstrip() + "\n"


def _bullets(made: Iterator[Row] | Sequence[Row]) -> list[str]:
    texts = [" ".join("".join(text for text, _ in row).split()) for row in made]
    return [f"- {escaped(text)}" for text in texts if text] + [""]
