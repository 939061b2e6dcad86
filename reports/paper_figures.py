"""What ThunderKittens' paper measured, as data: arXiv 2410.20399 (ICLR 2025), on one H100 80 GB SXM
with CUDA 12.6. A figure that is not known stays None; where the paper says it in words, words."""

from __future__ import annotations

from dataclasses import dataclass

PAPER_DEVICE = "H100 80 GB SXM, CUDA 12.6"


@dataclass(frozen=True)
class Timed:
    """A candidate of a row of a ``tk bench paper`` record: its rate in TFLOP/s."""

    group: str
    size: tuple[int, int, int]
    candidate: str


@dataclass(frozen=True)
class Traffic:
    """The bytes that the model expects from memory for a timed plan, over its measured time, in
    GB/s. Counters of the device would say what was really read."""

    of: Timed


@dataclass(frozen=True)
class Counted:
    """A figure of a record by its experiment and name."""

    experiment: str
    name: str


@dataclass(frozen=True)
class MeanRatio:
    """The geometric mean of the rival's time over ours, of a record of ``suite``."""

    suite: str


@dataclass(frozen=True)
class Cell:
    """One figure: what it is of, the paper's, and where ours is found (None: nowhere yet)."""

    name: str
    unit: str
    paper: float | str | None
    ours: Timed | Traffic | Counted | MeanRatio | None = None
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """The figures of one table or picture of the paper."""

    title: str
    where: str
    cells: tuple[Cell, ...]


_TFLOPS, _GBS = "TFLOP/s", "GB/s"
_CUBE, _LARGE = (4096, 4096, 4096), (16384, 16384, 16384)
_CONFLICTS = "wavefronts / fewest"


def _depth(stages: int, paper: float | None) -> Cell:
    name = f"{stages} stage{'s' if stages > 1 else ''}"
    note = "our ring has two stages or more" if stages == 1 else ""
    ours = Timed("pipeline depth", _CUBE, name) if stages > 1 else None
    return Cell(name, _TFLOPS, paper, ours, note)


def _grid(
    k: int, one_shot: float | None, persistent: float | None, cublas: float | None
) -> list[Cell]:
    size = (4096, 4096, k)
    return [
        Cell(f"K={k}, {name}", _TFLOPS, paper, Timed("persistent grid", size, candidate))
        for name, candidate, paper in (
            ("one-shot grid", "one-shot", one_shot),
            ("persistent grid", "persistent", persistent),
            ("cuBLAS", "torch", cublas),
        )
    ]


# The paper names the axis that advances fastest first: {N, M} is our row order.
def _order(name: str, candidate: str, rate: float, traffic: float) -> list[Cell]:
    timed = Timed("block order", _LARGE, candidate)
    bytes_note = "ours: the model's bytes over the measured time"
    return [
        Cell(f"{name}, {candidate}", _TFLOPS, rate, timed),
        Cell(f"{name}, from HBM", _GBS, traffic, Traffic(timed), bytes_note),
    ]


def _layout(name: str, paper: float | None) -> Cell:
    return Cell(name, _CONFLICTS, paper, Counted("shared layouts", name))


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "pipeline depth, product 4096x4096x4096",
        "table 1",
        (_depth(1, 260.0), _depth(2, None), _depth(3, None), _depth(4, 760.0)),
    ),
    Experiment(
        "persistent against one-shot grids, product 4096x4096xK",
        "table 2",
        (
            *_grid(64, None, None, None),
            *_grid(128, None, None, None),
            *_grid(256, 271.0, 309.0, 242.0),
            *_grid(512, None, None, None),
            *_grid(1024, 600.0, None, 633.0),
        ),
    ),
    Experiment(
        "block order, product 16384x16384x16384",
        "table 3",
        (
            *_order("{8, N, M/8}", "grouped_m(8)", 805.0, 982.0),
            *_order("{N, M}", "row", 392.0, 3070.0),
            Cell("as planned", _TFLOPS, None, Timed("block order", _LARGE, "tk")),
        ),
    ),
    Experiment(
        "block order, attention forward, head dimension 128",
        "table 3",
        (
            Cell("{N, H, B}", _TFLOPS, 600.0),
            Cell("{N, H, B}, from HBM", _GBS, 213.0),
            Cell("{B, H, N}", _TFLOPS, 494.0),
            Cell("{B, H, N}, from HBM", _GBS, 2390.0),
        ),
    ),
    Experiment(
        "bank conflicts of shared layouts, tensor-core fragments",
        "figure 4",
        (
            _layout("naive row-major", 8.0),
            _layout("padded by 16 bytes", None),
            _layout("swizzle 32 bytes", None),
            _layout("swizzle 64 bytes", None),
            _layout("swizzle 128 bytes", None),
        ),
    ),
    Experiment(
        "occupancy, 1 to 6 consumer warpgroups",
        "figure 6",
        (
            Cell(
                "asynchronous template against a synchronous kernel",
                "",
                "above at every count, falling off past 5 or 6",
            ),
        ),
    ),
    Experiment(
        "kernels against the libraries in use",
        "figures 7 to 9",
        (
            Cell("product", "x cuBLAS", "about 1", MeanRatio("gemm")),
            Cell("attention forward", "x FlashAttention-3", "about 1"),
            Cell("attention backward", "x FlashAttention-3", "over 1.4 short, about 1.1 long"),
            Cell("linear attention, polynomial", "x flash-linear-attention", "up to 14"),
            Cell("linear attention, learned map", "x flash-linear-attention", "up to 6.5"),
            Cell("long convolution, 1024", "x FlashFFTConv", 7.9),
            Cell("long convolution, 4096", "x FlashFFTConv", 4.7),
            Cell("long convolution", "x PyTorch's FFT", "up to 8.7"),
            Cell("Mamba-2", "x Triton", "over 3"),
            Cell("dropout, residual, layer norm", "x Triton", "ahead"),
            Cell("rotary", "x Triton", "ahead"),
        ),
    ),
    Experiment(
        "profile of attention backward",
        "table 4",
        (
            Cell("tensor cores busy, TK", "%", 58.2),
            Cell("tensor cores busy, FlashAttention-3", "%", 61.2),
            Cell("issue slots busy, TK", "%", 34.8),
            Cell("issue slots busy, FlashAttention-3", "%", 25.1),
            Cell("from HBM, TK", _GBS, 490.0),
            Cell("from HBM, FlashAttention-3", _GBS, 328.0),
            Cell("stalls on shared memory, TK", "cycles", 0.14),
            Cell("stalls on shared memory, FlashAttention-3", "cycles", 0.92),
            Cell("bank conflicts, FlashAttention-3", _CONFLICTS, "up to 9.6"),
        ),
    ),
    Experiment(
        "profile of the long convolution",
        "table 4",
        (
            Cell("tensor cores busy, TK", "%", 54.8),
            Cell("tensor cores busy, FlashFFTConv", "%", 13.4),
            Cell("issue slots busy, TK", "%", 40.0),
            Cell("issue slots busy, FlashFFTConv", "%", 25.5),
        ),
    ),
)
