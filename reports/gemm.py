"""The tables of the matrix-product suite: measured, checked on the host, predicted, tuned."""

from __future__ import annotations

import math
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tk.benchmarks.record import FAILED, OK, PREDICTED, WRONG, Record
from tk.reports import format
from tk.reports.format import Column, fitted_table
from tk.reports.lines import OURS, RIVAL, Line, name_of, rivals_of

BEST_SHOWN = 3  # plans of a tuned shape
_FLUSHED = {"write": ", L2 flushed by writing", "none": ", L2 not flushed"}


def render(record: Record, console: Console) -> RenderableType:
    """Everything that a record of the suite has to say."""
    if record.suite == "gemm-tune":
        return _tuned(record, console)
    parts: list[RenderableType] = []
    measured = [Line(row, r) for row in record.rows if (r := row.result(OURS)) is not None]
    if measured and record.environment.architecture == "host":
        parts += [_checked_on_host(measured, record, console)]
    elif measured:
        parts += [_measured(measured, record, console)]
    predicted = [Line(row, r) for row in record.rows for r in row.results if r.status == PREDICTED]
    if predicted:
        parts += [_predicted(predicted, record, console)]
    faults = _faults(record)
    parts += [faults] if faults is not None else []
    return Group(*parts) if parts else Text("the record holds no rows")


def _measured(lines: list[Line], record: Record, console: Console) -> RenderableType:
    environment = record.environment
    graph = ", in CUDA graphs" if record.settings.get("graph") else ""
    flush = _FLUSHED.get(str(record.settings.get("flush")), "")
    table = fitted_table(
        f"Matrix product on {environment.device}{graph}{flush}",
        [
            Column("M x N x K", lambda line: line.problem, right=False),
            Column("layout", lambda line: line.row.layout, right=False),
            Column("plan", lambda line: line.result.plan_text, spare=3, right=False),
            Column("time", _time),
            Column("quartiles", _quartiles, spare=2),
            Column("TFLOP/s", _tera_operations),
            Column("TB/s", _tera_bytes, spare=1),
            Column("roof", lambda line: format.percent(line.row.roof_seconds, line.seconds)),
            *_ratio_columns(record),
            Column("error", _error),
            Column("x torch's", _error_ratio, spare=1),
        ],
        lines,
        console,
        caption="plan: tile (T: of the transposed product), stages, cluster, order, splits of K\n"
        "time: median of a call, L2 cold; roof: percent of what the device's rates allow\n"
        "error: relative, against float64, and in units of torch.matmul's own\n"
        "*: not in the geometric mean",
    )
    return Group(table, _summary(record))


def _ratio_columns(record: Record) -> list[Column]:
    """One for each rival that was measured; that of cuBLAS is always there."""
    rivals = dict.fromkeys([RIVAL, *rivals_of(record)])
    return [
        Column(
            f"x {name_of(rival)}",
            lambda line, rival=rival: format.ratio(line.ratio(rival)),  # type: ignore[misc]
            spare=0 if rival == RIVAL else 1,
        )
        for rival in rivals
    ]


def _summary(record: Record) -> Text:
    """The geometric mean, the worst row, and the time of a call on the Python side."""
    text = Text()
    mean = record.geometric_mean(OURS, RIVAL)
    ratios = [(ratio, row) for row in record.rows if (ratio := row.ratio(OURS, RIVAL)) is not None]
    if mean is not None:
        counted = sum(1 for ratio, row in ratios if row.in_mean)
        text.append("geometric mean of the ratios to cuBLAS: ")
        text.append_text(format.ratio(mean))
        text.append(f" over {counted} rows")
        ratio, row = min(ratios, key=lambda pair: pair[0])
        text.append(f"; lowest {ratio:.3f} at {row.m}x{row.n}x{row.k} {row.layout}\n")
        for layout in sorted({row.layout for _, row in ratios}):
            rows = [row for row in record.rows if row.layout == layout]
            part = replace(record, rows=rows).geometric_mean(OURS, RIVAL)
            if part is not None:
                text.append(f"  {layout}: {part:.3f}")
        text.append("\n")
    for rival in rivals_of(record):
        mean = record.geometric_mean(OURS, rival)
        if rival != RIVAL and mean is not None:
            text.append(f"geometric mean of the ratios to {name_of(rival)}: ")
            text.append_text(format.ratio(mean))
            text.append("\n")
    if record.host_call_seconds:
        calls = ", ".join(
            f"{name} {value * 1e6:.1f} us" for name, value in record.host_call_seconds.items()
        )
        text.append(f"a call on the Python side, nothing waited for: {calls}\n")
    return text


def _checked_on_host(lines: list[Line], record: Record, console: Console) -> RenderableType:
    return fitted_table(
        "Matrix product on the host architecture: the same kernel source, on this CPU",
        [
            Column("M x N x K", lambda line: line.problem, right=False),
            Column("layout", lambda line: line.row.layout, right=False),
            Column("plan", lambda line: line.result.plan_text, spare=1, right=False),
            Column("time", _time),
            Column("error", _error),
            Column("x torch's", _error_ratio, spare=2),
            Column("", _verdict, right=False),
        ],
        lines,
        console,
        caption="a thread a warp, every copy and barrier real: these times say nothing of a GPU; "
        "error: relative, against float64",
    )


def _predicted(lines: list[Line], record: Record, console: Console) -> RenderableType:
    return fitted_table(
        f"Predicted for {record.predicted_for}: the plan, and what its model expects of it",
        [
            Column("M x N x K", lambda line: line.problem, right=False),
            Column("layout", lambda line: line.row.layout, right=False),
            Column("plan", lambda line: line.result.plan_text, spare=1, right=False),
            Column("time", _time),
            Column("TFLOP/s", _tera_operations, spare=2),
            Column("TB/s", _tera_bytes, spare=3),
            Column("roof", lambda line: format.percent(line.row.roof_seconds, line.seconds)),
        ],
        lines,
        console,
        caption="predicted, not measured; tk plan gemm M N K says why a plan was chosen",
    )


def _tuned(record: Record, console: Console) -> RenderableType:
    lines = []
    for row in record.rows:
        timed = [r for r in row.results if r.candidate != RIVAL and r.timing is not None]
        timed.sort(key=lambda r: r.timing.median if r.timing else 0.0)
        chosen = row.result(OURS)
        lines += [Line(row, r) for r in timed[:BEST_SHOWN]]
        if chosen is not None and chosen in timed[BEST_SHOWN:]:
            lines.append(Line(row, chosen))
    table = fitted_table(
        f"Plans measured on {record.environment.device}",
        [
            Column("M x N x K", lambda line: line.problem, right=False),
            Column("layout", lambda line: line.row.layout, right=False),
            Column("plan", lambda line: line.result.plan_text, spare=2, right=False),
            Column("", lambda line: "chosen" if line.result.candidate == OURS else "", right=False),
            Column("time", _time),
            Column("quartiles", _quartiles, spare=1),
            Column("TFLOP/s", _tera_operations),
            Column("x cuBLAS", lambda line: format.ratio(line.ratio())),
        ],
        lines,
        console,
        caption=f"the {BEST_SHOWN} fastest of each shape, and the one that tk.matmul would choose",
    )
    faults = _faults(record)
    return Group(table, _regret(record), *([faults] if faults is not None else []))


def _regret(record: Record) -> Text:
    """How far the chosen plans are behind the best measured ones, over all shapes."""
    losses = []
    for row in record.rows:
        chosen = row.result(OURS)
        times = [r.timing.median for r in row.results if r.candidate != RIVAL and r.timing]
        if chosen is not None and chosen.timing is not None and min(times) > 0:
            losses.append(chosen.timing.median / min(times))
    if not losses:
        return Text()
    mean = math.exp(sum(map(math.log, losses)) / len(losses))
    return Text(
        f"the chosen plan's time over the best measured one's: geometric mean {mean:.3f}, "
        f"worst {max(losses):.3f}, over {len(losses)} rows"
    )


def _faults(record: Record) -> Text | None:
    """One line for each candidate that was wrong or raised."""
    found = [
        f"{Line(row, r).problem} {row.layout} {r.candidate} {r.plan_text}: {r.status}, {r.reason}"
        for row in record.rows
        for r in row.results
        if r.status in (WRONG, FAILED)
    ]
    return Text("\n".join(found), style="red") if found else None


def _time(line: Line) -> str | Text:
    if line.result.status in (WRONG, FAILED):
        return Text(line.result.status.upper(), style="bold red")
    return format.seconds(line.seconds)


def _quartiles(line: Line) -> str:
    timing = line.result.timing
    return format.MISSING if timing is None else format.span(timing.q1, timing.q3)


def _tera_operations(line: Line) -> str:
    return format.rate(line.row.floating_point_operations, line.seconds)


def _tera_bytes(line: Line) -> str:
    return format.rate(line.row.necessary_bytes, line.seconds)


def _error(line: Line) -> str | Text:
    return format.relative_error(line.result.error)


def _error_ratio(line: Line) -> str:
    rival = line.row.result(RIVAL)
    mine = line.result.error
    if rival is None or not rival.error or mine is None:
        return format.MISSING
    return f"{mine / rival.error:.3f}"


def _verdict(line: Line) -> Text:
    good = line.result.status == OK
    return Text("ok" if good else line.result.status, style="green" if good else "bold red")
