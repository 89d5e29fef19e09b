"""`logdoctor facts`: every fact with its line."""

from __future__ import annotations

from typing import Annotated

import typer

from logdoctor.cli.options import new_app
from logdoctor.cli.output import write
from logdoctor.cli.prepare import load_knowledge, suggestion
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("facts", epilog="Example: logdoctor facts server.log --kind flag")
def facts(
    log: Annotated[str, typer.Argument(help="Log file; - is standard input.", show_default=False)],
    kind: Annotated[str, typer.Option(help="Only facts of this kind.")] = "",
) -> None:
    """Print every fact of a log with its line."""
    from logdoctor.check import label, reason
    from logdoctor.mask import safe
    from logdoctor.read.reader import Index, Reader

    knowledge = load_knowledge()
    known = sorted(knowledge.kinds)
    if kind and kind not in knowledge.kinds:
        raise Stop(f"there is no kind of fact {kind!r}{suggestion(kind, known)} (there are {', '.join(known)})")
    reader = Reader(Index(knowledge), log, label(log))
    try:
        for fact in reader.facts():
            if kind and fact.kind != kind:
                continue
            fields = ", ".join(f"{key}={value!r}" for key, value in fact.fields.items() if value not in ("", ()))
            who = f" [{fact.speaker.process}]" if fact.speaker.process else ""
            write(safe(f"{fact.evidence.line}: {fact.kind}{who} {fields}  ({fact.by})"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(f"{label(log)}: {reason(error)}") from None
    if reader.binary:
        raise Stop(f"{label(log)}: is not text")
