"""A run of the packaged trainer as a TOML file, with everything pinned that can be: a start to edit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from expcomp.io.canon import digest
from expcomp.io.digest import sha256_file
from expcomp.io.row_files import replacing
from expcomp.io.sinks import write_pieces
from expcomp.training.local_models import model_digest
from expcomp.version import __version__

_PINNED = ("torch", "transformers", "trl", "datasets")
OPTIONS: Mapping[str, Any] = {"max_steps": 100, "per_device_train_batch_size": 2, "learning_rate": 1e-5, "seed": 0}
"""Options of TRL that a spec starts with."""


def write_spec(
    out: Path,
    *,
    profile: Path,
    dataset: Path,
    dataset_digest: str,
    kind: str,
    model: Path,
    heldout: Path | None = None,
    options: Mapping[str, Any] | None = None,
    usd_per_hour: float | None = None,
    force: bool = False,
) -> None:
    """Write the TOML file of a run of `expcomp.training.trl_trainer` under this interpreter.

    Args:
        out: File; paths beside it stand in it relative to it.
        profile: Parent profile.
        dataset: Document or bundle.
        dataset_digest: Its digest.
        kind: `sft` or `dpo`.
        model: Folder of the model to start from.
        heldout: What may not be trained on.
        options: Of TRL, in place of or beside `OPTIONS`.
        usd_per_hour: Price of the machine; without it the cost of training is unknown.
        force: Replace a file that is there.

    Raises:
        UsageError: `model` is no folder.
        OutputError: `out` exists, or cannot be written.
    """
    digest_of_model = model_digest(model)
    root = out.absolute().parent
    top = {
        "profile": _beside(profile, root),
        "dataset": _beside(dataset, root),
        "dataset_digest": dataset_digest,
        "execution_ref": execution_ref(),
        "checkpoint": "directory",
        "out": "jobs",
    }
    python = Path(sys.executable)
    trainer = {
        "id": f"trl-{kind}",
        "executable": str(python),
        "executable_digest": sha256_file(python.resolve()),
        "args": ["-I", "-m", "expcomp.training.trl_trainer"],
    }
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(root / "hf"), "HOME": str(root), "OMP_NUM_THREADS": "1"}
    tables: list[tuple[str, Mapping[str, Any]]] = [("", top)]
    if heldout is not None:
        tables.append(("heldout", {"sources": [_beside(heldout, root)]}))
    tables += [
        ("costs", {"ledger": "costs.jsonl"} | ({} if usd_per_hour is None else {"usd_per_hour": usd_per_hour})),
        ("trainer", trainer),
        ("trainer.environment", environment),
        ("parameters", {"model": str(model.absolute()), "model_digest": digest_of_model}),
        ("parameters.options", {**OPTIONS, **(options or {})}),
    ]
    with replacing(out, force=force) as beside:
        write_pieces((line.encode() for line in _lines(tables)), beside)


def execution_ref() -> str:
    """Digest of the versions of this package, of Python, and of the libraries that train."""
    versions: dict[str, str | None] = {"expcomp": __version__, "python": sys.version.split()[0]}
    for name in _PINNED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return digest(versions)


def option_value(text: str) -> Any:
    """The value of an option: JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _beside(path: Path, root: Path) -> str:
    path = path.absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _lines(tables: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    for number, (name, values) in enumerate(tables):
        if name:
            yield f"{chr(10) if number else ''}[{name}]\n"
        # Texts, numbers, booleans and lists of them are written alike in JSON and in TOML.
        yield from (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
