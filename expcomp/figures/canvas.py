"""What all figures share: axes, colours that print in grey, short names, labels of numbers, and pictures as bytes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib import import_module
from io import BytesIO
from math import isnan
from typing import TYPE_CHECKING, Any, ParamSpec
from warnings import catch_warnings, filterwarnings

import polars as pl

from expcomp.errors import ConfigError, UsageError
from expcomp.io.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

P = ParamSpec("P")

_HIDDEN: ContextVar[bool] = ContextVar("_HIDDEN", default=False)
_LACKING = "figures need matplotlib: pip install matplotlib"

INK = "#222222"
QUIET = "#6b6b6b"
RULE = "#dddddd"
# Okabe and Ito: (colour, marker, line style, hatch). Each differs from its neighbours in all four and in lightness.
SERIES: tuple[tuple[str, str, Any, str], ...] = (
    ("#0072B2", "o", "-", ""),
    ("#E69F00", "s", "--", "///"),
    ("#000000", "^", "-.", "\\\\"),
    ("#56B4E9", "D", ":", "xx"),
    ("#D55E00", "v", (0, (5, 1, 1, 1, 1, 1)), "++"),
    ("#CC79A7", "X", (0, (6, 2)), "oo"),
    ("#009E73", "P", (0, (1, 1)), "..."),
)
# Decimals by size, and what is 0 but for rounding, as the lower end of Wilson's interval of 0 successes.
_FORMS = ((1000, "{:,.0f}"), (100, "{:.1f}"), (10, "{:.2f}"), (0.001, "{:.3f}"), (0, "{:.1e}"))
_NOTHING = 1e-12
UP, DOWN, SAME = "#0072B2", "#D55E00", "#8a8a8a"
_SETTINGS: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "expcomp",
}


def drawn(draw: Callable[P, Axes]) -> Callable[P, Axes]:
    """A figure function that, where it makes its own axes, draws with the same settings whatever the user's are.

    Raises:
        ConfigError: matplotlib is not installed.
    """

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Axes:
        if kwargs.get("ax") is not None:
            return draw(*args, **kwargs)
        with _settings():
            return draw(*args, **kwargs)

    return inside


def _settings() -> AbstractContextManager[None]:
    try:
        style = import_module("matplotlib.style")
    except ImportError as error:
        raise ConfigError(_LACKING) from error
    context: AbstractContextManager[None] = style.context(["default", _SETTINGS])
    return context


def new_axes(size: tuple[float, float] = (7.0, 4.0)) -> Axes:
    """Axes of a new figure: one of pyplot under IPython, so that a notebook shows it below the cell, a plain `Figure` elsewhere.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    told: dict[str, Any] = {"figsize": size, "dpi": 120, "layout": "constrained"}
    try:
        # Without pyplot nothing is registered, so nothing has to be closed; a notebook closes what it has shown.
        made = import_module("matplotlib.pyplot").figure if _shown() else import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise ConfigError(_LACKING) from error
    axes: Axes = made(**told).subplots()
    return axes


@contextmanager
def unshown() -> Iterator[None]:
    """Figures made inside are for a document: a notebook does not show them."""
    token = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(token)


def _shown() -> bool:
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return not _HIDDEN.get() and ipython is not None and ipython() is not None


def axes_of(ax: Axes | None, *, size: tuple[float, float] = (7.0, 4.0), grid: str = "y") -> Axes:
    """The axes given, or those of a new figure; only the left and the lower border, a light grid behind the data."""
    if ax is None:
        ax = new_axes(size)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=RULE, linewidth=0.6)  # type: ignore[arg-type]
    return ax


def picture(ax: Axes, kind: str = "svg") -> bytes:
    """The figure of the axes as `svg` or `png`; the same figure gives the same bytes.

    Raises:
        UsageError: Another kind.
    """
    if kind not in ("svg", "png"):
        msg = f"a picture is svg or png, not {kind!r}"
        raise UsageError(msg)
    told: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    out = BytesIO()
    # Any: the figure of a subfigure has no such method, of which these axes are none.
    whole: Any = ax.figure
    with _settings(), catch_warnings():
        if kind == "svg":  # its text stays text: whoever shows it has a font for it
            filterwarnings("ignore", message="Glyph .* missing from font")
        whole.savefig(out, format=kind, metadata=told)
    return out.getvalue()


def require(frame: pl.DataFrame, figure: str, columns: Sequence[str]) -> None:
    """Refuse a frame without what a figure draws.

    Raises:
        UsageError: A column is missing.
    """
    lacks = [c for c in columns if c not in frame.columns]
    if lacks:
        msg = (
            f"{figure} needs {', '.join(columns)}; the frame has no {', '.join(lacks)}, only {', '.join(frame.columns)}"
        )
        raise UsageError(msg)


def series(index: int) -> tuple[str, str, Any, str]:
    """Colour, marker, line style and hatch of the n-th series."""
    return SERIES[index % len(SERIES)]


def short(names: Sequence[Any], limit: int = 28) -> list[str]:
    """Names cut in the middle to about `limit` characters, since ids differ at their ends; longer where two would look alike."""
    texts = ["none" if n is None else visible(" ".join(str(n).split())) for n in names]
    different = len(set(texts))
    cut = texts
    for size in (limit, limit * 3 // 2, limit * 2):
        cut = [_cut(t, size) for t in texts]
        if len(set(cut)) == different:
            break
    # A dollar sign would begin a formula.
    return [t.replace("$", r"\$") for t in cut]


def _cut(text: str, limit: int) -> str:
    half = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[: limit - 1 - half]}…{text[-half:]}"


def number(value: float | None, *, signed: bool = False) -> str:
    """Three decimals below 10, fewer above, whole numbers as they are; a true minus sign; a dash for none."""
    if value is None or isnan(value):
        return "–"
    size = abs(value)
    if isinstance(value, int):
        text = f"{size:,}"
    elif size < _NOTHING:
        return "0"
    else:
        text = next(form.format(size) for least, form in _FORMS if size >= least)
    sign = "−" if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{text}"


def interval(value: float | None, low: float | None, high: float | None, *, signed: bool = False) -> str:
    """`0.42 [0.31, 0.53]`; the value alone when there is no interval."""
    told = number(value, signed=signed)
    if low is None or high is None:
        return told
    return f"{told} [{number(low, signed=signed)}, {number(high, signed=signed)}]"


def nothing(ax: Axes, why: str) -> Axes:
    """Say in the axes why nothing is drawn."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=QUIET)
    return ax


def title(ax: Axes, text: str, under: str = "") -> None:
    """A title at the left, with a quieter line under it."""
    ax.set_title(text, loc="left", color=INK, pad=19 if under else 8)
    if under:
        ax.annotate(
            under, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", color=QUIET, fontsize=8
        )


def beside(ax: Axes, y: float, text: str, points: float, **how: Any) -> None:
    """A text at the right of the axes, at a distance in points."""
    told: dict[str, Any] = {"color": INK, "fontsize": 8, "va": "center", **how}
    place = ("axes fraction", "data")
    ax.annotate(text, (1, y), (points, 0), xycoords=place, textcoords="offset points", annotation_clip=False, **told)


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only."""
    axis.get_major_locator().set_params(integer=True)
