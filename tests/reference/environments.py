"""Where the recorded environments of the reference data stand; what imports this skips as a whole without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference environments", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference data", allow_module_level=True)

ROOT = Path(REFERENCE) / "environment"
