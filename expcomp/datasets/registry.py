"""All kinds of logical rows. Adding one is a schema in `contract`, a module here and a target that asks for it."""

from __future__ import annotations

from expcomp.datasets.contract import Kind
from expcomp.datasets.conversations import CONVERSATION, TURN
from expcomp.datasets.judged import JUDGED
from expcomp.datasets.pairs import PAIR
from expcomp.datasets.process import PROCESS
from expcomp.datasets.prompts import PROMPT
from expcomp.datasets.world import WORLD

KINDS: dict[str, Kind] = {k.name: k for k in (CONVERSATION, TURN, PAIR, JUDGED, PROMPT, PROCESS, WORLD)}
