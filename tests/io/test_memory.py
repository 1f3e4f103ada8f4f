"""A memory budget decides how many processes run."""

from __future__ import annotations

import pytest

from expcomp.errors import UsageError
from expcomp.io.memory import Need, memory_bytes, processes_within

NEED = Need(base=100, worker=1000)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5g", 1_500_000_000), ("2e9", 2 * 10**9), (" 700 ", 700)],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "4XB", "four", "0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a size"):
        memory_bytes(text)


def test_as_many_as_fit() -> None:
    assert processes_within(None, None, NEED) is None
    assert processes_within(None, 7, NEED) == 7
    assert processes_within(2100, 7, NEED) == 2
    assert processes_within(10**9, 7, NEED) == 7
    with pytest.raises(UsageError, match="give 1 MiB or more"):
        processes_within(1099, 1, NEED)
