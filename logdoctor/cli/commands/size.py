"""`logdoctor size`: how many users fit."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from logdoctor.cli.options import SHORT_FORMS, Parser, add_format, add_no_color
from logdoctor.cli.output import width, write
from logdoctor.cli.stop import Stop

EXAMPLE = "Example: logdoctor size Qwen/Qwen3-8B --gpu L40S --users 50 --prompt-tokens 3000 --output-tokens 500    or: logdoctor size --log server.log --prompt-tokens 3000 --output-tokens 500"


def options(parser: Parser) -> None:
    """Add the options."""
    parser.argument("model", help="config.json, a folder with one, or a known name.", nargs="?", default="")
    parser.option("--log", default="", help="Take model, flags, weights and pool from this log, and recompute them.")
    parser.option("--config-json", type=Path, help="The model's config.json, where the name alone does not tell.")
    parser.option("--users", type=int, help="Users at once.")
    parser.option("--prompt-tokens", type=int, help="Tokens of a usual prompt.")
    parser.option("--output-tokens", type=int, help="Tokens of a usual answer.")
    parser.option("--shared-prefix-tokens", type=int, help="Tokens that all prompts begin with.")
    parser.option("--traffic", many=True, help="More requests, as PROMPT:OUTPUT[:USERS[:SHARED]].")
    parser.option("--gpu", help="Name of the card, such as L40S.")
    parser.option("--gpu-gib", type=float, help="GiB of a card.")
    parser.option("--pool-gib", type=float, help="GiB of the KV cache, per card.")
    parser.option("--gpu-memory-utilization", type=float, help="Share of the card that the server may take.")
    parser.option("--weights-gib", type=float, help="GiB of the weights, per card.")
    parser.option("--parameters", type=float, help="Parameters of the model, in 10^9.")
    parser.option("--quantization", help="How the weights are stored: fp8, awq, nvfp4, …")
    parser.option("--max-model-len", type=int, help="Longest request, in tokens.")
    parser.option("--max-num-seqs", type=int, help="Requests that may run at once.")
    parser.option("--max-num-batched-tokens", type=int, help="Tokens that one step may take in.")
    parser.option("--kv-dtype", help="Data type of the KV cache: auto, fp8, nvfp4, …")
    parser.option("--dtype", help="Data type that the engine computes in.")
    parser.option("--block-size", type=int, help="Tokens per block.")
    parser.option("--tensor-parallel", "--tp", type=int, help="Cards that share every layer.")
    parser.option("--pipeline-parallel", "--pp", type=int, help="Stages that share the layers.")
    parser.option("--data-parallel", "--dp", type=int, help="Engines with a pool of their own.")
    parser.option("--instances", type=int, default=1, help="Equal servers on the same card.")
    parser.option("--other-gib", type=float, default=0.0, help="GiB that another server holds on the same card.")
    parser.option("--draft-model", "--draft", help="Draft model, for speculative decoding.")
    parser.option(
        "--draft-tokens", type=int, help="Tokens drafted per step; without --draft by the model's own extra layers."
    )
    parser.option("--engine", help="Engine whose accounting counts.")
    parser.option("--engine-version", help="Its version.")
    parser.option(
        "--bench",
        type=Path,
        many=True,
        help="Measured results, JSON: of a serving benchmark, or of probe --samples; one per number of users.",
    )
    parser.option("--tpot", type=float, help="Promised seconds per output token, judged by --bench.")
    parser.option("--itl-p99", type=float, help="Promised P99 of seconds between tokens, judged by --bench.")
    add_format(parser, SHORT_FORMS)
    add_no_color(parser)


def run(given: Namespace) -> int:
    """Say how many users fit, by the model's config.json or by a log, and which flag to change."""
    from logdoctor.render import sizing as shown
    from logdoctor.size import Refusal
    from logdoctor.sizing import Wish
    from logdoctor.sizing import size as sized

    left_out = ("format", "no_color", "traffic", "bench")
    wish = Wish(
        **{k: v for k, v in vars(given).items() if k not in left_out},
        traffic=given.traffic or (),
        bench=given.bench or (),
    )
    try:
        plain = sized(wish)
    except Refusal as refusal:
        raise Stop(str(refusal)) from None
    if given.format == "json":
        from logdoctor.render.json import render as to_json

        write(to_json(plain))
    elif given.format == "markdown":
        write(shown.render_markdown(plain))
    elif sys.stdout.isatty() and not given.no_color and not os.environ.get("NO_COLOR"):
        shown.show(plain, sys.stdout, width())
    else:
        write(shown.render(plain, width()))
    return 0
