"""Secrets in every shape that logs have them in; and what only looks like one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from conftest import FIXTURES
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logdoctor import mask
from logdoctor.mask import (
    HIDDEN,
    _opaque,
    masked,
    masked_lines,
    safe,
    secret,
    secrets_in,
    secrets_of,
    telling,
    visible,
    withheld,
    without,
)
from logdoctor.regexes import compiled

# Each holds the word PLANTED (or is a shape of its own, below) where a secret would stand, and `keep` where none does.
NAMED = [
    "api_key='PLANTED1', model='keep'",
    '"api_key": "PLANTED1", "model": "keep"',
    '"api_key": "PLANTED \\"quoted\\" PLANTED", "model": "keep"',
    r'{"log": "Args {\n  api_key: Some(\n        \"PLANTED1\",\n    ),\n    model_id: \"keep\"\n"}',
    r'{\"api_key\": \"PLANTED1\nPLANTED2\", \"model\": \"keep\"}',
    "api_key=['PLANTED1', 'PLANTED2'], model='keep'",
    "Namespace(api_key=['PLANTED1'], model='keep')",
    "--api-key PLANTED1 --model keep",
    "--api-key=PLANTED1 --model keep",
    "['vllm', 'serve', '--api-key', 'PLANTED1', '--model', 'keep']",
    '["--hf-token", "PLANTED1", "--model", "keep"]',
    'Args { api_key: Some("PLANTED1"), model_id: "keep" }',
    "api_key=SecretStr('PLANTED1'), model='keep'",
    "HF_TOKEN=PLANTED1,PLANTED2;PLANTED3 MODEL=keep",
    "export OPENAI_API_KEY=PLANTED1",
    "environ({'HF_TOKEN': 'PLANTED1', 'HOME': '/keep', 'AWS_SECRET_ACCESS_KEY': 'PLANTED/2+3='})",
    "AWS_ACCESS_KEY_ID: PLANTED1 AWS_REGION: keep",
    "PGPASSWORD=PLANTED1 psql keep",
    "SENTRY_DSN=PLANTED1 keep",
    '{"name": "HF_TOKEN", "value": "PLANTED1"}, {"name": "MODEL", "value": "keep"}',
    "flag name='api_key', value='PLANTED1', origin='argument' keep",
    "Authorization: Bearer PLANTED1 keep",
    "authorization: Basic UExBTlRFRDE6UExBTlRFRA==",
    "[(b'authorization', b'Bearer PLANTED1'), (b'host', b'keep')]",
    '{"Authorization": "Bearer PLANTED1", "Accept": "keep"}',
    "curl -H 'x-api-key: PLANTED1' http://192.0.2.1/keep",
    "curl -u user:PLANTED1 http://192.0.2.1/keep",
    "Cookie: session=PLANTED1; other=PLANTED2",
    "Set-Cookie: id=PLANTED1",
    '"GET /v1/models?api_key=PLANTED1&model=keep HTTP/1.1" 401',
    '"GET /v1/models?key=PLANTED1 HTTP/1.1" 401 keep',
    "https://s3.example/keep?X-Amz-Credential=PLANTED1&X-Amz-Signature=PLANTED2&X-Amz-Expires=60",
    "https://acc.blob.example/keep?sv=1&sig=PLANTED1%3D",
    "https://user:PLANTED1@hub.example/keep",
    "postgresql://me:PLANT@ED1@db.example/keep",
    "redis://:PLANTED1@cache.example:6379/0 keep",
    "https://PLANTEDtoken0123456789@git.example/keep",
    "Server=db;Password=PLANTED1;Timeout=keep",
    "DefaultEndpointsProtocol=https;AccountName=keep;AccountKey=PLANTED1==;",
    "ssl_keyfile='/keep.pem', ssl_keyfile_password='PLANTED1'",
    "{'password': {'old': 'PLANTED1'}, 'model': 'keep'}",
    "auth=('user', 'PLANTED1'), timeout='keep'",
    "passphrase=\"PLANTED one two PLANTED\" keep",
    "aws_session_token=PLANTED1 keep",
    "client_secret: PLANTED1 keep",
    "Invalid API key: PLANTED1",
    "args.api_key = 'PLANTED1'  keep",
    "kv_transfer_config.extra.access_token=PLANTED1 keep",
    "java -Djavax.net.ssl.keyStorePassword=PLANTED1 keep",
    "private_key: -----BEGIN RSA PRIVATE KEY-----\nPLANTED1\nPLANTED2\n-----END RSA PRIVATE KEY-----",
    "{'token': 'PLANTED0123456789abcdef', 'model': 'keep'}",
    "--api-key PLANTED1 PLANTED2 --model keep",
    '["--api-key", "PLANTED1", "PLANTED2", "--model", "keep"]',
    "huggingface-cli login --token PLANTED1 keep",
    "docker login -u keep -p PLANTED1 registry.example",
    "sshpass -p PLANTED1 ssh keep",
    "kubectl create secret generic keep --from-literal=hub=PLANTED1",
    "wandb: login with key 0123PLANTED0123456789012345678901234567".replace("PLANTED", "abcdef0"),
    "machine git.example login keep password PLANTED1",
    "aws configure set aws_secret_access_key PLANTED1 keep",
    "ENV HF_TOKEN PLANTED1 keep",
    "VLLM_API_KEY -> PLANTED1 keep",
    'os.environ["HF_TOKEN"] = "PLANTED1" keep',
    "env[HF_TOKEN]=PLANTED1 keep",
    'setenv("HF_TOKEN", "PLANTED1") keep',
    "| HF_TOKEN | PLANTED1 | keep |",
    "api_key: str = 'PLANTED1' keep",
    "api_key: Optional[str] = 'PLANTED1' keep",
    "TOKEN=PLANTED1 MODEL=keep",
    "user=keep pass=PLANTED1",
    '{"user": "keep", "pass": "PLANTED1"}',
    "<password>PLANTED1</password><model>keep</model>",
    "{&quot;api_key&quot;:&quot;PLANTED1&quot;,&quot;model&quot;:&quot;keep&quot;}",
    "GET /x?next=%2F%3Fapi_key%3DPLANTED1 HTTP/1.1 keep",
    '{"auths": {"keep.example": {"auth": "UExBTlRFRDE6UExBTlRFRA=="}}}',
    '{"kind": "Secret", "data": {"hub": "UExBTlRFRDE="}, "name": "keep"}',
    "https://discord.com/api/webhooks/123456789012345678/PLANTED_1-x keep",
    "https://keep.example/webhook/PLANTED1@x/IncomingWebhook/PLANTED2/y",
    "passwd hunter2PLANTED keep",
    "the password is PLANTED, keep",
    "the password was: hunter2PLANTED keep",
    "with password 'PLANTED' keep",
    "Password for user keep: hunter2PLANTED",
    "using token abcPLANTED123 keep",
    "Invalid token 'PLANTEDabc1' keep",
    "got token PLANTED4f5a6 from keep",
    "API key is PLANTED1 keep",
    "Setting api_key to PLANTED1 keep",
    "Incorrect API key provided: PLANTED1. keep",
    "api_key 'PLANTED1' keep",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nPLANTED1\n-----END PGP PRIVATE KEY BLOCK----- keep",
]  # fmt: skip
_RANDOM = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
SHAPES = [
    "hf_" + _RANDOM, "sk-" + _RANDOM, "sk-proj-" + _RANDOM, "sk-ant-api03-" + _RANDOM, "sk_live_" + _RANDOM,
    "rk_test_" + _RANDOM, "whsec_" + _RANDOM, "nvapi-" + _RANDOM, "gsk_" + _RANDOM, "xai-" + _RANDOM, "pplx-" + _RANDOM,
    "r8_" + _RANDOM, "AIza" + _RANDOM, "ya29." + _RANDOM, "GOCSPX-" + _RANDOM, "ghp_" + _RANDOM, "gho_" + _RANDOM,
    "ghs_" + _RANDOM, "github_pat_" + _RANDOM, "glpat-" + _RANDOM, "gldt-" + _RANDOM, "xoxb-1234567890-" + _RANDOM,
    "xapp-1-" + _RANDOM, "AKIA" + "ABCDEFGHIJ234567", "ASIA" + "ABCDEFGHIJ234567", "npm_" + _RANDOM, "pypi-" + _RANDOM,
    "dckr_pat_" + _RANDOM, "SG." + _RANDOM + "." + _RANDOM, "key-" + "0123456789abcdef" * 2, "shpat_" + "0123456789abcdef" * 2,
    "hvs." + _RANDOM, "dop_v1_" + "0123456789abcdef" * 4, "dapi" + "0123456789abcdef" * 2, "glsa_" + _RANDOM,
    "lin_api_" + _RANDOM, "figd_" + _RANDOM, "1234567890:AA" + _RANDOM, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "LTAI" + _RANDOM, "tgp_v1_" + _RANDOM, "hooks.slack.com/services/T0123/B0123/" + _RANDOM,
]  # fmt: skip
HARMLESS = [
    "max_tokens=16, num_tokens=5, tokens: 58,816, max_num_batched_tokens=2048",
    "GPU KV cache size: 58,816 tokens, Maximum concurrency for 40,960 tokens per request: 1.44x",
    "tokenizer='acme/llama-test-8b', tokenizer_mode=auto, tokenizer_revision=None, skip_tokenizer_init=False",
    "eos_token='</s>', bos_token=1, pad_token: '<pad>', stop_token_ids=[1, 2], image_token_id=7",
    "key_value_heads=8, num_key_value_heads=8, cache_key=abc123def, TRITON_CACHE_KEY=0f1e2d3c",
    "model='acme/task-secretary-8b', served_model_name=['sk-llama']",
    "'hf_token': None, 'api_key': None, hf_token=True, api_key=[], hf_overrides={'a': 1}",
    "unexpected token: 'end of print statement'",
    "The Bearer token is checked on /v1 only; Basic authentication is off",
    "Unable to locate credentials. You can configure credentials: none found",
    "received signal, sig=15, signature: (self, x)",
    "speculative_tokens: 3, access_tokens: 512",
    "http://192.0.2.1:8000/v1/chat/completions?model=x&stream=true",
    "argument --api-key: expected at least one argument",
    "unrecognized: ['api_key', 'model']",
    "ssh://git@git.example/acme/repo.git",
    "secret_santa_model at /models/secrets-of-the-deep",
    "Using default key value store, keys: 12",
    "revision=0a1b2c3d4e5f60718293a4b5c6d7e8f901234567, commit 8da31e3, sha256:0123456789abcdef0123456789abcdef",
    "Compile cache key: 0123456789abcdef0123, x-request-id: 0123456789abcdef, trace_id=0123456789abcdef",
    "Loaded 13,824 tokens; token ids 151645, next token 151645 of 40960, draft token 4; token budget set to 8192tok",
    "Time per output token 12.5ms, p99 token 128.75ms/tok, each token uses 131072B",
    "special token '<|im_end|>', invalid token id 128009, using token merging, speculative token method eagle3",
    "Using key model.layers.0.self_attn.q_proj; Missing key model.layers.12.mlp.gate_up_proj.weight; unknown key rope_theta2",
    "key: model.layers.0.self_attn.q_proj.weight, 'key': 'v1_fa_blackwell_default'",
    "Access token required for meta-llama/Llama-3.1-8B-Instruct; hf_token for meta-llama/Llama-3.1-8B is not set",
    "API key is required; api_key is None; the password is incorrect; your password is too short; --api-key is set",
    "set --api-key to protect it; use --token or HF_TOKEN to log in; --admin-api-key from 0.5.8 on",
    "pass=3, fail=0, PWD=/workspace/vllm pwd=/srv/work; 2 passed in 3.4s; webhooks disabled",
    '{"token": " world", "logprob": -0.123}, num_tokens: 512',
    "authentication method: sha256, kv cache dtype fp8_e4m3, key dtype float16, author: John",
    "--ssl-keyfile /etc/key.pem, --tokenizer-mode auto, the secret Qwen3-8B model, data: [DONE]",
]


@pytest.mark.parametrize("line", NAMED)
def test_a_secret_beside_its_name_is_hidden_and_its_neighbours_stay(line: str) -> None:
    """A value beside the name of a secret is masked in every notation; what stands around it is not."""
    shown = safe(line)
    assert "PLANTED" not in shown
    assert "ED1" not in shown
    assert "UExB" not in shown
    assert HIDDEN in shown
    assert line.count("keep") == shown.count("keep")


@pytest.mark.parametrize("value", SHAPES, ids=lambda value: value[:12])
@pytest.mark.parametrize("around", ["{}", "error at {} (x)", "'{}'", "/path/{}/x", "a={},b=1"])
def test_a_key_of_a_known_vendor_is_hidden_wherever_it_stands(value: str, around: str) -> None:
    """Keys that show by their shape whose they are need no name beside them."""
    shown = safe(around.format(value))
    assert _RANDOM not in shown
    assert value[-12:] not in shown


@pytest.mark.parametrize("line", HARMLESS)
def test_what_only_sounds_like_a_secret_stays(line: str) -> None:
    """Tokens of a tokenizer, keys of a cache, names of models and counts are not masked."""
    assert safe(line) == line


@pytest.mark.parametrize(
    ("said", "line", "told"),
    [
        ("api_key=abc", "INFO 11-02 08:00:00 [x.py:1] api_key=abc", "said"),
        ("api_key=abc", "INFO 11-02 08:00:00 [x.py:1] api_key=abc  ", "said"),
        ("a" * 300 + "b", "INFO " + "a" * 300, "said"),
        ("hunter2pass9", "HF_TOKEN: hunter2pass9", "line"),
        ("api_key=abc", "x api_key=abc api_token=def", "line"),
        ("", "HF_TOKEN=abc", "line"),
        ("other", "HF_TOKEN=abc", "line"),
    ],
)
def test_a_line_is_searched_where_its_secrets_can_be(said: str, line: str, told: str) -> None:
    """What a line says is searched without its envelope, unless that may hold a secret's name, or the line more."""
    assert telling(said, line) == {"said": said, "line": line}[told]


def test_no_pattern_is_passed_over_that_would_match() -> None:
    """The texts that tell which patterns need not be tried are in everything that those patterns match."""
    texts = [*NAMED, *SHAPES, *(line for block in BLOCKS.values() for line in block)]
    for log in sorted(FIXTURES.glob("*/*/server.log"))[::5]:
        texts += log.read_text("utf-8", "replace").splitlines()
    matched = set()
    for one in texts:
        for text in (one, one.upper(), one.replace("k", "\u212a").replace("s", "\u017f"), one.replace("i", "\u0131")):
            possible = mask._possible(text)
            for pattern in mask._PATTERNS:
                if compiled(pattern).search(text):
                    assert pattern in possible, text
                    matched.add(pattern)
    assert len(matched) == len(mask._PATTERNS)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([line for line in NAMED if "PLANTED" in line and "\n" not in line]),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_+=-]{10,40}[A-Za-z0-9]", fullmatch=True),
)
def test_whatever_the_secret_is_it_is_hidden(line: str, value: str) -> None:
    """Beside its name any value is masked; in a sentence any that is neither words nor a number."""
    assume(_opaque(value, 8))
    assert value not in safe(re.sub(r"(?:hunter2|abc)?PLANTED\w*", value, line, count=1))


def test_a_secret_that_one_line_names_is_hidden_in_all() -> None:
    """What stands beside its name once is found again where nothing says what it is; words are not taken for it."""
    lines = ["HF_TOKEN=PLANTED7x9q model=keep", "password: production", "max_tokens=16 tokenizer=Qwen3-8B"]
    assert secrets_of(lines) == {"PLANTED7x9q"}


def test_masking_twice_changes_nothing() -> None:
    """A masked line is masked for good."""
    for line in [*NAMED, *SHAPES, *HARMLESS]:
        assert safe(safe(line)) == safe(line)


BLOCKS = {
    "a structure of Rust, spread over lines": ("    api_key: Some(", '        "PLANTED1",', "    ),", "    keep: 1,"),
    "with docker's times before": (
        "2026-11-02T08:00:00Z     api_key: Some(",
        '2026-11-02T08:00:00Z         "PLANTED1",',
        "2026-11-02T08:00:00Z     ), keep",
    ),
    "a list in JSON": ('"api_keys": [', '  "PLANTED1",', '  "PLANTED2"', "],", '"keep": "keep"'),
    "YAML below its name": ("password:", "  PLANTED1", "model: keep"),
    "a block of YAML": ("api_key: |", "  PLANTED1", "model: keep"),
    "an environment of Kubernetes": ("- name: HF_TOKEN", "  value: PLANTED1", "- name: MODEL", "  value: keep"),
    "a command on several lines": ("vllm serve keep --api-key \\", "  PLANTED1 \\", "  --port 8000"),
    "a secret of Kubernetes": ("data:", "  hub: UExBTlRFRA==", "  plain: keep it", "kind: Secret"),
    "a secret of Kubernetes, as text": ("stringData:", "  hub: PLANTED", "  other: |", "    PLANTED two", "kind: keep"),
    "a key block": (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "PLANTED",
        "-----END PGP PRIVATE KEY BLOCK-----",
        "keep",
    ),
    "a private key": ("-----BEGIN PRIVATE KEY-----", "PLANTED1", "PLANTED2", "-----END PRIVATE KEY-----", "keep"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_secret_below_its_name_is_hidden(name: str) -> None:
    """Where lines are shown together, a name at the end of one hides the value on the next."""
    lines = BLOCKS[name]
    shown = list(masked_lines(lines))
    assert len(shown) == len(lines)
    assert "PLANTED" not in "\n".join(shown)
    assert "UExB" not in "\n".join(shown)
    assert "\n".join(shown).count("keep") == "\n".join(lines).count("keep")


def test_a_name_at_the_end_hides_no_log_line_behind_it() -> None:
    """A sentence that ends in such a name costs the next record nothing."""
    lines = [
        "ERROR 11-02 08:00:00 [x.py:1] Wrong API key:",
        "INFO 11-02 08:00:00 [core.py:77] Using max model len 8192",
    ]
    assert list(masked_lines(lines)) == lines


def test_real_logs_lose_next_to_nothing() -> None:
    """Of the recorded logs only a key in a query and the like is masked."""
    lines = [line for path in sorted(FIXTURES.glob("*/*/server.log")) for line in _lines(path.read_bytes())]
    changed = [line for line, shown in zip(lines, masked_lines(lines), strict=True) if line != shown]
    assert len(lines) > 3000
    assert len(changed) <= 20, changed
    assert all(re.search(r"(?i)key|token|secret|passw", line) for line in changed)


def _lines(data: bytes) -> Iterator[str]:
    for raw in data.split(b"\n"):
        yield raw.decode("utf-8", "backslashreplace")


def test_a_setting_is_known_by_its_name() -> None:
    """Where a name and a value come apart, as in a comparison, the name decides."""
    for name in ("api_key", "hf_token", "ssl_keyfile_password", "VLLM_API_KEY", "kv_transfer.api_key", "admin-api-key"):
        assert secret(name)
        assert withheld(name, "PLANTED1") == HIDDEN
    for name in ("tokenizer", "max_num_batched_tokens", "eos_token", "ssl_keyfile", "model", "cache_key"):
        assert not secret(name)
    assert withheld("api_key", None) == "None"
    assert withheld("model", "acme/x") == "acme/x"


def test_a_secret_that_a_setting_holds_is_hidden_everywhere() -> None:
    """A key that was given as an argument is masked also where nothing beside it says that it is one."""
    found = secrets_in([("api_key", ["token-abc123", "x"]), ("model", "acme/llama"), ("hf_token", "EMPTY")])
    assert found == {"token-abc123"}
    assert without({"a": ["asked with token-abc123"], "b": 1}, found) == {"a": [f"asked with {HIDDEN}"], "b": 1}


def test_control_characters_are_shown_not_obeyed() -> None:
    """No escape sequence, no change of direction, nothing invisible, half a character least of all."""
    assert visible("a\x1b[31mb\x07c\td\u202ee\u200bf\ud800\U000e0041") == (
        "a\\x1b[31mb\\x07c d\\u202ee\\u200bf\\ud800\\U000e0041"
    )


@pytest.mark.parametrize(
    "piece", ["a_", "x-", "password ", "://", "'", '\\"', "curl ", "eyJ", "token=", "A_", "name=api_key,", "[(", "=" ]
)  # fmt: skip
def test_masking_is_fast_on_whatever_comes(piece: str) -> None:
    """A line that was made to be slow is not: no regex goes back over it again and again."""
    text = (piece * 2000)[:2000]
    begin = time.process_time()
    masked(text + "key")
    list(masked_lines([text, text]))
    assert time.process_time() - begin < 0.5


@given(
    parts=st.lists(
        st.sampled_from(
            [
                *(
                    "tokens/s",
                    "16,384 tokens, ",
                    "8 tokens per request ",
                    "tokenizer",
                    "max_tokens=16",
                    "num_tokens: 4 ",
                ),
                *(
                    "KeyError: ",
                    "keyword=",
                    "connector ",
                    "auth_tokens, ",
                    "hf_token=",
                    "API_KEY=",
                    "token ",
                    "is ",
                    ": ",
                ),
                *(
                    "a1b2c3d4e5f6",
                    "'9f8e7d6c5b4a'",
                    "Bearer ",
                    "http://",
                    "u:p@h/",
                    "?key=",
                    " ",
                    "\n",
                    "HF_PAT=",
                    "5 ",
                ),
            ]
        ),
        max_size=9,
    )
)
def test_what_is_passed_over_holds_no_secret(parts: list[str]) -> None:
    """A text comes out the same whether only some patterns are tried or all of them."""
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        mask._scrubbed.cache_clear()
        fast = masked(text)
        patch.setattr(mask, "_possible", lambda text: list(mask._PATTERNS))
        patch.setattr(mask, "_suspicious", lambda text: True)
        mask._scrubbed.cache_clear()
        assert masked(text) == fast
    mask._scrubbed.cache_clear()
