"""Items of OpenAI's Responses API: rows with input and output, bare items, logs of responses.

Recognised: items that only the Responses API has, alone, in rows, or in answers.
"""

from __future__ import annotations

from expcomp.sources.chat._source import ChatSource

SOURCE = ChatSource(
    name="openai_responses",
    summary="OpenAI Responses: rows of input and output items, bare items, request logs",
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
