"""Training: what a dataset is made of, what was trained on it, and whether the result may be held against a benchmark."""

from __future__ import annotations
