"""The suites of the matrix product as data: shapes by name, for ``tk bench gemm --suite NAME``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tk.benchmarks import shapes
from tk.benchmarks.shapes import Shape


@dataclass(frozen=True)
class Suite:
    """Shapes that are measured together, and what for."""

    name: str
    about: str
    shapes: tuple[Shape, ...]


def _of_group(group: str) -> tuple[Shape, ...]:
    return tuple(shape for shape in shapes.suite() if shape.group == group)


def _few_rows() -> tuple[Shape, ...]:
    return tuple(shape for shape in _of_group("language model") if shape.m <= 128)


SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("full", "everything that makes the geometric mean", tuple(shapes.suite())),
        Suite("quick", "a dozen of them, one of every kind", tuple(shapes.quick())),
        Suite("cubes", "large square products: tensor cores bind", _of_group("cube")),
        Suite("shallow", "4096 x 4096 x K of a small K: the output binds", _of_group("shallow")),
        Suite(
            "language-model",
            "linear layers of an 8B model, 1 to 8192 tokens",
            _of_group("language model"),
        ),
        Suite("few-rows", "the same up to 128 tokens: memory binds", _few_rows()),
        Suite("awkward", "sizes that no tile divides, and a very large one", _of_group("awkward")),
        Suite("host", "small ones that the host architecture computes", tuple(shapes.host())),
    )
}
"""By name, in the order in which they are listed."""


def suite_named(name: str) -> Suite:
    """A suite; ValueError names those that there are."""
    if name not in SUITES:
        raise ValueError(f"'{name}' is no suite; there are {', '.join(SUITES)}")
    return SUITES[name]
