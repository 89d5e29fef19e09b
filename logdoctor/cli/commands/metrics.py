"""`logdoctor metrics`: a log and a server as metrics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logdoctor.cli.options import KeyEnv, KeyFile, Quiet, RulesOption, new_app
from logdoctor.cli.prepare import choose_rules, how_to_ask, load_knowledge
from logdoctor.cli.stop import Stop

app = new_app()


@app.command("metrics", epilog="Example: logdoctor metrics --log server.log --url http://127.0.0.1:8000 --port 9108")
def metrics(
    log: Annotated[str, typer.Option(help="Log file; - is standard input.", show_default=False)],
    url: Annotated[list[str] | None, typer.Option(help="Address of a server to ask, too.", show_default=False)] = None,
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 9108,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all.")] = "127.0.0.1",
    every: Annotated[float, typer.Option(help="Seconds between two checks.", min=1, max=3600)] = 15,
    key_env: KeyEnv = "",
    key_file: KeyFile = None,
    rules: RulesOption = None,
    quiet: Quiet = False,
) -> None:
    """Export what a log and a server are like as metrics for Prometheus."""
    from logdoctor.check import label, reason
    from logdoctor.metrics import export
    from logdoctor.read.follow import open_source

    knowledge = load_knowledge()
    pack = [rule for rule in choose_rules(knowledge, rules, (), ()) if rule.per != "live"]
    ask = None
    if url:
        from logdoctor.probe import BadTarget, parse_target
        from logdoctor.probe import probe as ask_servers

        try:
            addresses = [parse_target(one).url for one in url]
        except BadTarget as bad:
            raise Stop(f"--url: {bad}") from None
        how = how_to_ask(key_env=key_env, key_file=key_file, completion=False, exposure=False, timeout=min(10.0, every))

        def ask() -> list[dict[str, Any]]:
            return ask_servers(addresses, how).live

    def begun(number: int) -> None:
        if not quiet:
            typer.echo(f"logdoctor: metrics at http://{host}:{number}/metrics", err=True)

    try:
        export(open_source(log), ask, knowledge, pack, host, port, every, begun)
    except OSError as error:
        where = f"{host}:{port}" if error.errno in (13, 98, 99) else label(log)
        raise Stop(f"{where}: {reason(error)}") from None
