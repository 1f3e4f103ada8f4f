"""Token counts, advice, and what chat templates cannot take. Nothing is read from the network; templates are made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.datasets import templates, tokens
from expcomp.errors import ConfigError
from expcomp.tables.family import CHAT
from expcomp.tables.targets import TARGETS, WIRE_CHAT

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}({{ c.function.arguments.q }}){% endfor %}{% endfor %}{% if tools %}T{% endif %}"
)


def turn(role: str, content: str = "", *calls: str, **more: Any) -> dict[str, Any]:
    made = [{"id": f"c{i}", "name": c, "arguments": '{"q": "x"}'} for i, c in enumerate(calls)]
    return {"role": role, "content": content, "tool_calls": made or None} | more


def rows(*chats: list[dict[str, Any]], tools: str | None = None) -> pl.DataFrame:
    names = [f.name for f in CHAT.inner.fields]  # type: ignore[union-attr]
    full = [[{n: m.get(n) for n in names} for m in c] for c in chats]
    return pl.DataFrame(
        {"messages": full, "tools": [tools] * len(chats)}, schema={"messages": CHAT, "tools": pl.String}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer of words and signs, with a chat template."""
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "chat_template": TEMPLATE}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_counts_rendered_rows(folder: Path) -> None:
    frame = rows([turn("user", "one two"), turn("assistant", "", "f")], [turn("user", "one")])
    # `<user>one two<assistant>f(x)` is < user > one two < assistant > f ( x )
    assert tokens.Counter(folder).count(frame, TARGETS["trl-sft"]).to_list() == [12, 4]
    with_tools = frame.with_columns(tools=pl.lit("[{}]"))
    assert tokens.Counter(folder).count(with_tools, TARGETS["trl-sft"]).to_list()[1] == 4  # oneT is one word


def test_without_a_template_texts_are_counted(folder: Path) -> None:
    counter = tokens.Counter(folder / "tokenizer.json")
    assert not counter.templated
    assert counter.count(rows([turn("user", "one two"), turn("assistant", "three")])).to_list() == [3]


def test_a_pair_counts_its_longer_side(folder: Path) -> None:
    schema = {"prompt": WIRE_CHAT, "chosen": WIRE_CHAT, "rejected": WIRE_CHAT}
    blank = dict.fromkeys(("reasoning_content", "tool_calls", "tool_call_id", "name"))
    said = [
        [{"role": r, "content": c, **blank}] for r, c in (("user", "a"), ("assistant", "b"), ("assistant", "b c d"))
    ]
    frame = pl.DataFrame(dict(zip(schema, ([s] for s in said), strict=True)), schema=schema)
    assert tokens.Counter(folder).count(frame).to_list() == [10]


def test_a_row_that_the_template_refuses_is_named(folder: Path) -> None:
    broken = rows([turn("assistant", "", "f", tool_calls=[{"id": "c", "name": "f", "arguments": "{broken"}])])
    (folder / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    with pytest.raises(tokens.RenderError, match="row 0"):
        tokens.Counter(folder).count(broken)


def test_a_missing_tokenizer_is_told_and_nothing_is_fetched(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match="no tokenizer"):
        tokens.Counter(tmp_path / "gpt2")
    with pytest.raises(ConfigError, match="no tokenizer"):
        tokens.Counter(tmp_path)


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ConfigError, match=r"expcomp\[tokenizers\]"):
        tokens.need("no_such_module_of_the_extra")


def test_advice() -> None:
    made = tokens.advice(pl.Series(range(1, 101), dtype=pl.UInt32) * 100)
    assert made["max"] == 10_000
    assert made["keep"] == {"95": 9600, "99": 10_000, "100": 10_000}
    assert made["over"] == {"4096": 0.6, "8192": 0.19, "16384": 0.0, "32768": 0.0}
    assert tokens.advice(pl.Series([], dtype=pl.UInt32)) == {"rows": 0}


def test_keep_really_keeps_that_share() -> None:
    counts = pl.Series([1, 2, 3, 1000], dtype=pl.UInt32)
    made = tokens.advice(counts)
    assert (counts <= made["keep"]["95"]).mean() >= 0.95  # type: ignore[operator]


PLAIN = [turn("user", "u"), turn("assistant", "a")]
PARALLEL = [
    turn("user", "u"),
    turn("assistant", "", "f", "g"),
    turn("tool", "1"),
    turn("tool", "2"),
    turn("assistant", "a"),
]
BESIDE = [turn("user", "u"), turn("assistant", "now", "f"), turn("tool", "1"), turn("assistant", "a")]
SYSTEM = [turn("system", "s"), *PLAIN]
THOUGHT = [turn("user", "u"), turn("assistant", "a", reasoning="hm")]


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        (PLAIN, set()),
        (PARALLEL, {"calls", "parallel calls", "role order"}),
        (BESIDE, {"calls", "text beside a call", "role order"}),
        (SYSTEM, {"system prompt"}),
        (THOUGHT, {"reasoning"}),
        ([turn("assistant", "a")], {"role order"}),
        ([turn("user", "u"), turn("user", "v")], {"role order"}),
        ([], set()),
    ],
)
def test_shapes(chat: list[dict[str, Any]], expected: set[str]) -> None:
    found = templates.shapes(rows(chat, PLAIN))
    assert {c for c in found.columns if found[c][0]} == expected
    assert not any(found[c][1] for c in found.columns)


def test_both_sides_of_a_pair_are_looked_at() -> None:
    whole = rows(PLAIN, PARALLEL, PLAIN)["messages"]
    frame = pl.DataFrame({"prompt": whole[:1], "chosen": whole[2:], "rejected": whole[1:2]})
    assert templates.shapes(frame)["parallel calls"].to_list() == [True]


def test_counts_by_template() -> None:
    made = templates.counts(rows(PLAIN, PARALLEL, BESIDE, SYSTEM))
    assert made["Llama 3.1"] == 2
    assert made["Gemma"] == 3
    assert made["Phi-3"] == 2
    assert "Qwen2.5" not in made
    known = templates.known(rows(PLAIN, PARALLEL, BESIDE, SYSTEM))
    llama = known.filter(template="Llama 3.1", shape="parallel calls")
    assert llama["rows"].to_list() == [1]
    assert llama["effect"].to_list() == ["refused"]


def test_render_all_names_what_fails(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("jinja2")
    (tmp_path / "good.jinja").write_text(TEMPLATE)
    (tmp_path / "single.jinja").write_text(
        "{% for m in messages %}{% if m.tool_calls and m.tool_calls|length > 1 %}{{ raise_exception('one call') }}{% endif %}{% endfor %}"
    )
    failed = templates.render_all(rows(PLAIN, PARALLEL), tmp_path)
    assert failed["template"].to_list() == ["single"]
    assert failed["row"].to_list() == [1]
    assert "one call" in failed["error"][0]


def test_a_folder_without_templates_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no \.jinja"):
        templates.render_all(rows(PLAIN), tmp_path)
