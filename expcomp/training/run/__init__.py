"""Training runs: one pinned dataset to one candidate profile, in stages that a journal records, with a receipt that anyone can check."""

from __future__ import annotations
