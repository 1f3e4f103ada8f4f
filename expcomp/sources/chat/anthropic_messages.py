"""Messages of the Anthropic API: results are blocks of a user turn, the system prompt stands beside the messages.

Recognised: messages with blocks that only this API has, or a system prompt beside messages of role and content.
"""

from __future__ import annotations

from expcomp.sources.chat._source import ChatSource

SOURCE = ChatSource(
    name="anthropic_messages",
    summary="Anthropic messages: rows of system and messages with content blocks, request logs",
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
