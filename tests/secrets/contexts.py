"""Where secrets stand: tool arguments, logs, shells, configuration, diffs, tracebacks."""

from __future__ import annotations

import json
from collections.abc import Callable

ANYWHERE = (
    "{}",
    "using {} (cached)",
    "the value {}.",
    "2026-01-04T10:11:12Z INFO auth ok value={} region=eu",
    'curl -s "https://x.example.com/v1/list?v={}&n=2"',
    "https://x.example.com/cb?v={}",
    "$ echo {}\n",
    "export V={}\nrun",
    "  value: {}\n  other: 1",
    "  value: '{}'",
    'V = "{}"\n',
    "const v = `{}`;",
    "+    v = '{}'\n-    v = None",
    "ValueError: invalid literal for int() with base 10: '{}'",
    "INSERT INTO t VALUES (1, '{}', NULL);",
    "name,value\na,{},3",
    '<input name="v" value="{}">',
    "| v | `{}` |",
    "cat <<EOF\n{}\nEOF",
    "\x1b[32m{}\x1b[0m",
    "[{}](x)",
    "('{}',)",
)
KEYED = (
    "{k}={}",
    "export {k}={}\n",
    'export {k}="{}"',
    "{k}='{}'",
    '{"{k}": "{}", "n": 1}',
    '{"a":{"{k}":"{}"}}',
    "{'{k}': '{}'}",
    "{k}: {}\nother: 1",
    '  {k}: "{}"',
    "{k} = '{}'",
    '{k} = "{}"\n',
    "+{k}={}",
    '-  "{k}": "{}",',
    "docker run -e {k}={} image",
    "level=info {k}={} msg=ok",
    "'{k}' => '{}',",
    'os.environ["{k}"] = "{}"',
    "process.env['{k}'] = '{}';",
    'client = Client({k}="{}")',
    "ENV {k}={}",
    "{k} := '{}'",
)


def _twice(text: str) -> str:
    return json.dumps({"role": "tool", "arguments": json.dumps({"command": text})})


def _args(text: str) -> str:
    return json.dumps({"command": text, "timeout": 10})


ENCODINGS: tuple[Callable[[str], str], ...] = (str, _args, _twice)
