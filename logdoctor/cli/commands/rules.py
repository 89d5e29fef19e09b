"""`logdoctor rules`: the list of rules."""

from __future__ import annotations

from logdoctor.cli.options import RulesOption, Short, ShortOption, new_app
from logdoctor.cli.output import write
from logdoctor.cli.prepare import choose_rules, load_knowledge

app = new_app()


@app.command("rules", epilog="Example: logdoctor rules --rules my-rules/")
def list_rules(rules: RulesOption = None, format: ShortOption = Short.terminal) -> None:
    """List all rules: name, severity, title, and what each reads."""
    from logdoctor.render.markdown import escaped

    knowledge = load_knowledge()
    found = choose_rules(knowledge, rules, (), ())
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        keys = ("name", "topic", "severity", "title", "per", "file")
        write(
            to_json(
                {"schema": 1, "rules": [{**{k: getattr(r, k) for k in keys}, "needs": list(r.needs)} for r in found]}
            )
        )
        return
    ordered = sorted(found, key=lambda r: (r.topic, r.name))
    if format is Short.markdown:
        rows = [f"| {r.name} | {r.severity} | {escaped(r.title)} |" for r in ordered]
        write("\n".join(["| rule | severity | what is wrong |", "|---|---|---|", *rows]))
        return
    for rule in ordered:
        write(f"{rule.name:<44} {rule.severity:<8} {rule.title}\n{'':<44} reads {', '.join(rule.needs)}")
