"""One module per format: bytes to tables. Adding a format is one module and one entry in `registry`."""

from __future__ import annotations
