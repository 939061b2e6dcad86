"""TMA copies that cannot be made do not compile, and the compiler says why in words."""

from __future__ import annotations

import host_programs
import pytest

# What is written, and the words that the compiler must find for it.
_REFUSED = {
    "store(matrix, memory.half, {0, 0});": ("does not list among its Tiles", "st<cutlass::half_t"),
    "store(matrix, memory.tile.subtile<16, 64>(0, 0), {0, 0});": (
        "does not list among its Tiles",
        "16, 64",
    ),
    "store(matrix, memory.tile.subtile<64, 32>(0, 0), {0, 0});": ("whole panels", "tma_box"),
    "tma::store_min_async(numbers, memory.number, {0, 0});": ("the tile's dtype is another",),
    "tma::cluster::store_async(memory.tile, memory.half, 0, memory.ready);": ("they differ",),
}
_SOURCE = """
#include "tk/tk.hpp"
using namespace tk;
struct shared {{
    st_bf<64, 64> tile;
    st_hf<64, 64> half;
    st_fl<64, 64> number;
    semaphore ready;
}};
const auto store = [](const auto& to, const auto& from, coord at) {{
    tma::store_async(to, from, at);
}};
void kernel(gl<bf16, 1, 1, -1, -1, st_bf<64, 64>>& matrix,
            gl<float, 1, 1, -1, -1, st_fl<64, 64>>& numbers, shared& memory) {{
    {}
    (void)matrix, (void)numbers, (void)memory;
}}
"""


_ALLOWED = "store(matrix, memory.tile, {0, 0});"

pytestmark = pytest.mark.prepare(
    host_programs.start_syntax_checks,
    [_SOURCE.format(statement) for statement in (*_REFUSED, _ALLOWED)],
)


@pytest.mark.parametrize("statement", _REFUSED)
def test_a_copy_that_cannot_be_is_refused_in_words(statement: str) -> None:
    messages = host_programs.syntax_errors(_SOURCE.format(statement))
    for word in _REFUSED[statement]:
        assert word in messages


def test_a_copy_that_can_be_is_not_refused() -> None:
    assert host_programs.syntax_errors(_SOURCE.format(_ALLOWED)) == ""
