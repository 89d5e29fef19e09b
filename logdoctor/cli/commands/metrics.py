"""`logdoctor metrics`: a log and a server as metrics."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from logdoctor.cli.options import Parser, add_key, add_quiet, add_rules, between
from logdoctor.cli.prepare import choose_rules, how_to_ask, load_knowledge
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor metrics --log server.log --url http://127.0.0.1:8000 --port 9108"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.option("--log", required=True, help="Log file; - is standard input.")
    parser.option("--url", many=True, help="Address of a server to ask, too.")
    parser.option("--port", type=between(int, 0, 65535), default=9108, help="Port to listen on.")
    parser.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 is all.")
    parser.option("--every", type=between(float, 1, 3600), default=15, help="Seconds between two checks.")
    add_key(parser)
    add_rules(parser)
    add_quiet(parser)


def run(given: Namespace) -> int:
    """Export what a log and a server are like as metrics for Prometheus."""
    from logdoctor.check import label, reason
    from logdoctor.metrics import export
    from logdoctor.read.follow import open_source

    knowledge = load_knowledge()
    pack = [rule for rule in choose_rules(knowledge, given.rules, (), ()) if rule.per != "live"]
    ask = None
    if given.url:
        from logdoctor.probe import BadTarget, parse_target
        from logdoctor.probe import probe as ask_servers

        try:
            addresses = [parse_target(one).url for one in given.url]
        except BadTarget as bad:
            raise Stop(f"--url: {bad}") from None
        how = how_to_ask(
            key_env=given.key_env,
            key_file=given.key_file,
            completion=False,
            exposure=False,
            timeout=min(10.0, given.every),
        )

        def ask() -> list[dict[str, Any]]:
            return ask_servers(addresses, how).live

    def begun(number: int) -> None:
        if not given.quiet:
            print(f"logdoctor: metrics at http://{given.host}:{number}/metrics", file=sys.stderr)

    try:
        export(open_source(given.log), ask, knowledge, pack, given.host, given.port, given.every, begun)
    except OSError as error:
        where = f"{given.host}:{given.port}" if error.errno in (13, 98, 99) else label(given.log)
        raise Stop(f"{where}: {reason(error)}") from None
    return 0
