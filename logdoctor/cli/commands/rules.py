"""`logdoctor rules`: the list of rules."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import SHORT_FORMS, Parser, add_format, add_rules
from logdoctor.cli.output import write
from logdoctor.cli.prepare import choose_rules, load_knowledge

EXAMPLE = "Example: logdoctor rules --rules my-rules/"


def options(parser: Parser) -> None:
    """Add the options."""
    add_rules(parser)
    add_format(parser, SHORT_FORMS)


def run(given: Namespace) -> int:
    """List all rules: name, severity, title, and what each reads."""
    from logdoctor.render.markdown import escaped

    knowledge = load_knowledge()
    found = choose_rules(knowledge, given.rules, (), ())
    if given.format == "json":
        from logdoctor.render.json import render as to_json

        keys = ("name", "topic", "severity", "title", "per", "file")
        write(
            to_json(
                {"schema": 1, "rules": [{**{k: getattr(r, k) for k in keys}, "needs": list(r.needs)} for r in found]}
            )
        )
        return 0
    ordered = sorted(found, key=lambda r: (r.topic, r.name))
    if given.format == "markdown":
        rows = [f"| {r.name} | {r.severity} | {escaped(r.title)} |" for r in ordered]
        write("\n".join(["| rule | severity | what is wrong |", "|---|---|---|", *rows]))
        return 0
    for rule in ordered:
        write(f"{rule.name:<44} {rule.severity:<8} {rule.title}\n{'':<44} reads {', '.join(rule.needs)}")
    return 0
