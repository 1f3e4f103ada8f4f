"""ShareGPT conversations: turns of from and value, or role and content under the same key.

Recognised: records with conversations and without labels, or turns that say from whom they are.
"""

from __future__ import annotations

from expcomp.sources.chat._source import ChatSource

SOURCE = ChatSource(
    name="sharegpt",
    summary="ShareGPT conversations: {from, value} turns with human, gpt, function_call, observation, system",
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
