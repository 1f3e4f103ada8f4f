"""OpenAI chat messages: fine-tuning rows, preference pairs, message lists and request logs (JSON, JSON lines, Parquet).

Recognised: records with messages of role and content and without labels, a bare list of such messages, or requests and chat completions.
"""

from __future__ import annotations

from expcomp.sources.chat._source import ChatSource

SOURCE = ChatSource(
    name="openai_chat",
    summary="OpenAI chat messages: fine-tuning rows, chosen/rejected pairs, bare message lists, request logs",
    carries={
        "system_prompt": "often",
        "tools": "often",
        "reasoning": "sometimes",
        "verdict": "no",
        "trial": "no",
        "tokens": "rarely",
        "cost": "no",
        "times": "no",
        "token_ids": "no",
    },
)
