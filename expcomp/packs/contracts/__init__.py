"""Output contracts: inferred from what passing attempts handed over, and verified on any folder."""

from __future__ import annotations
