"""The frame of a page: style, script and the policy that allows these two and nothing else."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape

STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1b;--quiet:#5a5a5a;--paper:#fff;--line:#d4d4d4;--band:#f4f4f4;--link:#0072b2}
@media (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--quiet:#a8a8a8;--paper:#161616;--line:#3c3c3c;--band:#212121;--link:#56b4e9}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:72rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
nav{font-size:.9rem}nav a{margin-right:1rem;white-space:nowrap}a{color:var(--link)}
p{margin:.4rem 0;max-width:60rem}.note,footer,figcaption,caption small{color:var(--quiet);font-size:.87rem}
.scroll{overflow-x:auto;margin:1rem 0}.tall{max-height:44rem}.scroll:focus-visible{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.2rem 0 .4rem}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right}td.n,td.s{white-space:nowrap}td.l{min-width:22rem;max-width:40rem;overflow-wrap:anywhere}
tbody tr:nth-child(even){background:var(--band)}
thead th{position:sticky;top:0;background:var(--paper);white-space:nowrap}
th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid var(--link)}
th button::after{content:" \\2195";color:var(--quiet)}th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
figure{margin:1.2rem 0}img{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){img{filter:invert(.91) hue-rotate(180deg)}}
@page{size:landscape;margin:12mm}
@media print{:root{--ink:#000;--quiet:#444;--paper:#fff;--line:#bbb;--band:#f4f4f4;--link:#000}body{max-width:none;padding:0;font-size:10pt}
nav{display:none}
.scroll{overflow:visible;max-height:none}
table{font-size:7.5pt}td,th{padding:.1rem .35rem}td.s,td.n,thead th{white-space:normal}
th button::after{content:none!important}thead th{position:static}
img{filter:none}figure,tr{break-inside:avoid}h2,caption{break-after:avoid}}
"""

# Sorts by the keys of the cells, numbers as numbers, nothing last; equal rows keep their order.
SCRIPT = """
document.querySelectorAll("table").forEach(table => {
  const body = table.tBodies[0];
  table.querySelectorAll("th button").forEach((button, column) => button.addEventListener("click", () => {
    const head = button.closest("th"), down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const numeric = head.classList.contains("n");
    const rows = Array.from(body.rows, row => [row, row.cells[column].dataset.v]);
    rows.sort(([, a], [, b]) => a === "" || b === "" ? (a === "") - (b === "")
      : down * (numeric ? a - b : a.localeCompare(b, undefined, {numeric: true})));
    table.querySelectorAll("th").forEach(other => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
    body.append(...rows.map(([row]) => row));
  }));
});
"""


def page(title: str, content: str) -> str:
    """A whole document around the content; `title` is plain text. It loads nothing, and its policy lets it load nothing."""
    policy = f"default-src 'none'; img-src data:; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{content}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
