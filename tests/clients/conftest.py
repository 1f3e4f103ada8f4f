"""Runs where TRL and `datasets` are installed (requirements.txt); everywhere else each test skips with that reason."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from expcomp.tables.targets import GROUPS
from tests.clients.crafted import write
from tests.helpers import RUN_CLI

HERE = Path(__file__).parent
CLIENTS = ("datasets", "trl", "mlcroissant")
OTHERS = {"test_ray.py": ("ray",), "test_s3.py": ("moto", "boto3", "s3fs")}  # a stage of their own in run.sh


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is below this folder; warnings of other people's code are no errors of ours."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.client)
            item.add_marker(pytest.mark.filterwarnings("default"))
            if absent := [n for n in OTHERS.get(item.path.name, CLIENTS) if importlib.util.find_spec(n) is None]:
                item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(absent)}"))


@pytest.fixture(scope="session", autouse=True)
def _offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No network, and caches that end with the session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hf")))
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS"):
            patch.setenv(name, "1")
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield


def run(*command: str | Path) -> None:
    """Run the CLI as a user does."""
    done = subprocess.run([*RUN_CLI, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.fixture(scope="session")
def compiled_rollouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile of the crafted rollouts."""
    folder = tmp_path_factory.mktemp("rollouts")
    run("compile", write(folder / "source"), "--out", folder / "compiled", "--workers", "1")
    return folder / "compiled"


@pytest.fixture(scope="session")
def build(compiled_rollouts: Path) -> Callable[..., Path]:
    """Makes a dataset of the crafted rollouts: `build(out, *options)`, all targets unless the options say which."""

    def made(out: Path, *options: str) -> Path:
        to = () if "--to" in options else ("--to", ",".join(GROUPS))
        keep = ("--length-ratio", "any", "--longer-share", "any", "--workers", "1")
        run("dataset", compiled_rollouts, *to, "--out", out, *keep, *options)
        return out

    return made


@pytest.fixture(scope="session")
def crafted(tmp_path_factory: pytest.TempPathFactory, build: Callable[..., Path]) -> Path:
    """Every target, made of the crafted rollouts. EXPCOMP_CRAFTED names a folder that is there already."""
    if given := os.environ.get("EXPCOMP_CRAFTED"):
        return Path(given)
    return build(tmp_path_factory.mktemp("crafted") / "crafted")


@pytest.fixture(scope="session", params=["crafted", "given"])
def dataset_dir(request: pytest.FixtureRequest) -> Path:
    """The crafted dataset, and the one that `.ci/run` made of real traces and names in EXPCOMP_DATASETS."""
    if request.param == "crafted":
        return request.getfixturevalue("crafted")
    if not (given := os.environ.get("EXPCOMP_DATASETS")):
        pytest.skip("EXPCOMP_DATASETS names no dataset folder")
    return Path(given)


@pytest.fixture(scope="session")
def trainers() -> Path:
    """Folder with the packages of other trainers, made by install_trainers.sh."""
    if not (given := os.environ.get("EXPCOMP_TRAINERS")):
        pytest.skip("EXPCOMP_TRAINERS names no folder; install_trainers.sh makes one")
    return Path(given)


@pytest.fixture(scope="session")
def tokenizer():
    """One token a byte and the marks of ChatML; the template says nothing that the messages do not say."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    out = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    out.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    out.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return out


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """Chat templates that TRL ships, by name."""
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.jinja"))}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, tokenizer) -> Path:
    """A model of two layers with seeded weights, and its tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    made = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, pad_token_id=pad, eos_token_id=end, **sizes)
    )
    folder = tmp_path_factory.mktemp("model")
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
