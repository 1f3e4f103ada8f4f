"""Trajectory sets of the Hugging Face Hub: a row holds a conversation, its task and how it ended (JSON, JSON lines, Parquet).

Recognised: records with a conversation beside a column of labels, instances or runs.
"""

from __future__ import annotations

from expcomp.sources.chat._source import ChatSource

SOURCE = ChatSource(
    name="hf_trajectories",
    summary="Trajectory sets of the Hub: messages, conversations or trajectory beside labels and instance columns",
    carries={
        "system_prompt": "yes",
        "tools": "some",
        "reasoning": "in text",
        "verdict": "resolved, target, verified, ...",
        "trial": "repeated rows; a number in some",
        "tokens": "no",
        "cost": "no",
        "times": "no",
        "token_ids": "no",
    },
)
