"""`logdoctor size`: how many users fit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from logdoctor.cli.options import NoColor, Short, ShortOption, new_app
from logdoctor.cli.output import width, write
from logdoctor.cli.stop import Stop

app = new_app()


def _plain(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, show_default=False)


@app.command(
    "size",
    epilog="Example: logdoctor size Qwen/Qwen3-8B --gpu L40S --users 50 --prompt-tokens 3000 --output-tokens 500    "
    "or: logdoctor size --log server.log --prompt-tokens 3000 --output-tokens 500",
)
def size(
    model: Annotated[
        str, typer.Argument(help="config.json, a folder with one, or a known name.", show_default=False)
    ] = "",
    log: Annotated[str, _plain("Take model, flags, weights and pool from this log, and recompute them.")] = "",
    config_json: Annotated[Path | None, _plain("The model's config.json, where the name alone does not tell.")] = None,
    users: Annotated[int | None, _plain("Users at once.")] = None,
    prompt_tokens: Annotated[int | None, _plain("Tokens of a usual prompt.")] = None,
    output_tokens: Annotated[int | None, _plain("Tokens of a usual answer.")] = None,
    shared_prefix_tokens: Annotated[int | None, _plain("Tokens that all prompts begin with.")] = None,
    traffic: Annotated[list[str] | None, _plain("More requests, as PROMPT:OUTPUT[:USERS[:SHARED]].")] = None,
    gpu: Annotated[str | None, _plain("Name of the card, such as L40S.")] = None,
    gpu_gib: Annotated[float | None, _plain("GiB of a card.")] = None,
    pool_gib: Annotated[float | None, _plain("GiB of the KV cache, per card.")] = None,
    gpu_memory_utilization: Annotated[float | None, _plain("Share of the card that the server may take.")] = None,
    weights_gib: Annotated[float | None, _plain("GiB of the weights, per card.")] = None,
    parameters: Annotated[float | None, _plain("Parameters of the model, in 10^9.")] = None,
    quantization: Annotated[str | None, _plain("How the weights are stored: fp8, awq, nvfp4, …")] = None,
    max_model_len: Annotated[int | None, _plain("Longest request, in tokens.")] = None,
    max_num_seqs: Annotated[int | None, _plain("Requests that may run at once.")] = None,
    max_num_batched_tokens: Annotated[int | None, _plain("Tokens that one step may take in.")] = None,
    kv_dtype: Annotated[str | None, _plain("Data type of the KV cache: auto, fp8, nvfp4, …")] = None,
    dtype: Annotated[str | None, _plain("Data type that the engine computes in.")] = None,
    block_size: Annotated[int | None, _plain("Tokens per block.")] = None,
    tensor_parallel: Annotated[int | None, _plain("Cards that share every layer.", "--tp")] = None,
    pipeline_parallel: Annotated[int | None, _plain("Stages that share the layers.", "--pp")] = None,
    data_parallel: Annotated[int | None, _plain("Engines with a pool of their own.", "--dp")] = None,
    instances: Annotated[int, _plain("Equal servers on the same card.")] = 1,
    other_gib: Annotated[float, _plain("GiB that another server holds on the same card.")] = 0.0,
    draft_model: Annotated[str | None, _plain("Draft model, for speculative decoding.", "--draft")] = None,
    draft_tokens: Annotated[
        int | None, _plain("Tokens drafted per step; without --draft by the model's own extra layers.")
    ] = None,
    engine: Annotated[str | None, _plain("Engine whose accounting counts.")] = None,
    engine_version: Annotated[str | None, _plain("Its version.")] = None,
    bench: Annotated[
        list[Path] | None,
        _plain("Measured results, JSON: of a serving benchmark, or of probe --samples; one per number of users."),
    ] = None,
    tpot: Annotated[float | None, _plain("Promised seconds per output token, judged by --bench.")] = None,
    itl_p99: Annotated[float | None, _plain("Promised P99 of seconds between tokens, judged by --bench.")] = None,
    format: ShortOption = Short.terminal,
    no_color: NoColor = False,
) -> None:
    """Say how many users fit, by the model's config.json or by a log, and which flag to change."""
    given = dict(locals())
    from logdoctor.render import sizing as shown
    from logdoctor.size import Refusal
    from logdoctor.sizing import Wish
    from logdoctor.sizing import size as sized

    left_out = ("format", "no_color", "traffic", "bench")
    wish = Wish(**{k: v for k, v in given.items() if k not in left_out}, traffic=traffic or (), bench=bench or ())
    try:
        plain = sized(wish)
    except Refusal as refusal:
        raise Stop(str(refusal)) from None
    if format is Short.json:
        from logdoctor.render.json import render as to_json

        write(to_json(plain))
    elif format is Short.markdown:
        write(shown.render_markdown(plain))
    elif sys.stdout.isatty() and not no_color and not os.environ.get("NO_COLOR"):
        shown.show(plain, sys.stdout, width())
    else:
        write(shown.render(plain, width()))
