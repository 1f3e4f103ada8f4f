"""Real clients instead of mocks: what `datasets`, TRL, mlcroissant and the dataset classes of other trainers make of our files."""

from __future__ import annotations
