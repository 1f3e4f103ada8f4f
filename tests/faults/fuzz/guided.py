"""The same properties with coverage to guide the search: `python -m tests.faults.fuzz.guided FORMAT [libFuzzer options]`.

Needs `atheris`, which is no dependency of the suite. libFuzzer keeps what reaches new code; the mutations are ours, one input an execution.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["expcomp.sources"]):
    from tests.faults.fuzz import harness
from tests.faults.fuzz.mutate import Files, mutate
from tests.faults.fuzz.seeds import decoded, encoded, seeds


def _taken(data: bytes) -> Files | None:
    try:
        return decoded(json.loads(data))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def main() -> None:
    """Run libFuzzer on one format; it stops at the first property that does not hold."""
    name = sys.argv.pop(1)
    own = list(seeds(name))

    def one(data: bytes) -> None:
        files = _taken(data)
        if files and (found := harness.problem([files], name)) is not None:
            raise AssertionError(f"{found.what}: {found.detail}")

    def change(data: bytes, size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        out = json.dumps(encoded(mutate(_taken(data) or rng.choice(own), own, rng))).encode()
        return out if len(out) <= size else data

    with tempfile.TemporaryDirectory() as folder:
        for n, files in enumerate(own):
            (Path(folder) / str(n)).write_text(json.dumps(encoded(files)), "utf-8")
        atheris.Setup([sys.argv[0], folder, "-max_len=200000", *sys.argv[1:]], one, custom_mutator=change)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
