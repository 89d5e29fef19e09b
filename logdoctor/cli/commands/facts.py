"""`logdoctor facts`: every fact with its line."""

from __future__ import annotations

from argparse import Namespace

from logdoctor.cli.options import Parser
from logdoctor.cli.output import write
from logdoctor.cli.prepare import load_knowledge
from logdoctor.cli.stop import Stop, suggestion

EXAMPLE = "Example: logdoctor facts server.log --kind flag"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("log", help="Log file; - is standard input.")
    parser.option("--kind", default="", help="Only facts of this kind.")


def run(given: Namespace) -> int:
    """Print every fact of a log with its line."""
    from logdoctor.check import label, reason
    from logdoctor.mask import safe
    from logdoctor.read.reader import Index, Reader

    knowledge = load_knowledge()
    known = sorted(knowledge.kinds)
    if given.kind and given.kind not in knowledge.kinds:
        near = suggestion(given.kind, known)
        raise Stop(f"there is no kind of fact {given.kind!r}{near} (there are {', '.join(known)})")
    reader = Reader(Index(knowledge), given.log, label(given.log))
    try:
        for fact in reader.facts():
            if given.kind and fact.kind != given.kind:
                continue
            fields = ", ".join(f"{key}={value!r}" for key, value in fact.fields.items() if value not in ("", ()))
            who = f" [{fact.speaker.process}]" if fact.speaker.process else ""
            write(safe(f"{fact.evidence.line}: {fact.kind}{who} {fields}  ({fact.by})"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Stop(f"{label(given.log)}: {reason(error)}") from None
    if reader.binary:
        raise Stop(f"{label(given.log)}: is not text")
    return 0
