"""`python -m tests`: everything that has to hold, in the order in which it fails fastest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
STEPS = (
    ("lint", (BIN / "ruff", "check", ".")),
    ("format", (BIN / "ruff", "format", "--check", ".")),
    ("types", (sys.executable, "-m", "mypy")),
    ("floors", (BIN / "lint-imports",)),
    ("tests", (sys.executable, "-m", "pytest", "-n", "2")),
)


def main() -> int:
    """Run all steps; the exit code is 1 when one failed."""
    failed = []
    for name, command in STEPS:
        print(f"== {name}", flush=True)
        if subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all steps passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
