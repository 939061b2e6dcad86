"""The shapes of the matrix-product suite: which there are, and which make the geometric mean."""

from __future__ import annotations

from dataclasses import dataclass

from tk.schedulers.problem import MAX_SIZE

LANGUAGE_MODEL_WEIGHTS = (  # (N, K): attention and feed-forward of an 8B model, its vocabulary
    (4096, 4096),
    (6144, 4096),
    (14336, 4096),
    (4096, 14336),
    (128256, 4096),
)
LANGUAGE_MODEL_TOKENS = (1, 16, 128, 512, 2048, 8192)
CUBES = (4096, 8192, 16384)
SHALLOW_DEPTHS = (64, 128, 256, 512, 1024)
SHALLOW_DEPTHS_IN_MEAN = (64, 256, 1024)
AWKWARD = ((1000, 1000, 1000), (4104, 4088, 4072), (3000, 5000, 7000), (8192, 28672, 8192))


@dataclass(frozen=True)
class Shape:
    """(M, N, K) of a product: a is (M, K), b is (K, N)."""

    m: int
    n: int
    k: int
    group: str = ""
    in_mean: bool = True

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def suite() -> list[Shape]:
    """All 42 shapes; the 40 with ``in_mean`` make the geometric mean.

    30 of language models, 4 of awkward sizes, 3 cubes, and 4096x4096xK for K of 64, 256 and 1024;
    the two other K are measured and shown beside them, so that this family does not weigh more.
    """
    shapes = [Shape(size, size, size, "cube") for size in CUBES]
    shapes += [
        Shape(4096, 4096, k, "shallow", in_mean=k in SHALLOW_DEPTHS_IN_MEAN) for k in SHALLOW_DEPTHS
    ]
    shapes += [
        Shape(m, n, k, "language model")
        for n, k in LANGUAGE_MODEL_WEIGHTS
        for m in LANGUAGE_MODEL_TOKENS
    ]
    shapes += [Shape(m, n, k, "awkward") for m, n, k in AWKWARD]
    return shapes


def quick() -> list[Shape]:
    """A dozen of the suite, at least one of every kind."""
    chosen = {
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (4096, 4096, 64),
        (4096, 4096, 1024),
        (1, 4096, 14336),
        (16, 4096, 4096),
        (128, 4096, 14336),
        (512, 4096, 4096),
        (2048, 14336, 4096),
        (8192, 4096, 14336),
        (1000, 1000, 1000),
        (3000, 5000, 7000),
    }
    return [shape for shape in suite() if (shape.m, shape.n, shape.k) in chosen]


def host() -> list[Shape]:
    """Small shapes for the host architecture: whole tiles, clipped ones, one row, few columns."""
    return [
        Shape(128, 256, 64, "one tile"),
        Shape(256, 512, 256, "whole tiles"),
        Shape(512, 768, 1024, "a ring run through"),
        Shape(100, 200, 72, "clipped"),
        Shape(1, 512, 1024, "one row"),
        Shape(33, 65, 129, "odd strides"),
    ]


def parse(text: str) -> list[Shape]:
    """Shapes from "MxNxK,MxNxK" (a size alone, "4096", is a cube); ValueError says what is wrong.

    A shape of the suite keeps its group and whether it counts in the mean.
    """
    known = {(shape.m, shape.n, shape.k): shape for shape in suite()}
    shapes = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        fields = part.lower().split("x")
        if len(fields) == 1:
            fields = fields * 3
        if len(fields) != 3 or not all(field.isdecimal() for field in fields):
            raise ValueError(f"'{part}' is no shape: write MxNxK, for example 4096x4096x1024")
        m, n, k = (int(field) for field in fields)
        if not 1 <= min(m, n, k) <= max(m, n, k) <= MAX_SIZE:
            raise ValueError(f"'{part}': sizes are 1 to {MAX_SIZE}")
        shapes.append(known.get((m, n, k), Shape(m, n, k, "chosen")))
    if not shapes:
        raise ValueError("no shape given: write MxNxK, several separated by commas")
    return shapes
