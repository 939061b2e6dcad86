"""A record as one HTML page that needs nothing else: no script, no font, no picture, no network."""

from __future__ import annotations

from html import escape

from tk.benchmarks.record import Record, RecordError
from tk.reports import svg
from tk.reports.chart import chart_of
from tk.reports.tables import heads_and_cells, summary

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --fore: #1b1b1b; --dim: #5c5c5c; --rule: #dcdcdc;
  --ours: #0072b2; --behind: #c24e00; --third: #00795a; --fourth: #7f4f8f; }
@media (prefers-color-scheme: dark) { :root { --back: #16181c; --fore: #e8e8e8; --dim: #a3a3a3;
  --rule: #3a3d44; --ours: #56b4e9; --behind: #ff9d52; --third: #35c79b; --fourth: #cc9bd8; } }
body { background: var(--back); color: var(--fore); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.where { color: var(--dim); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid var(--fore); }
td { border-bottom: 1px solid var(--rule); }
.words { text-align: left; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); }
figure { margin: 0; }
svg { width: 100%; height: auto; }
svg text { fill: var(--fore); } svg .small { font-size: 11px; fill: var(--dim); }
svg .label { font-size: 12px; }
.grid { stroke: var(--rule); } .unit { stroke: var(--fore); stroke-width: 1.6; }
.spread { stroke: var(--fore); stroke-width: 1; }
.ahead { fill: var(--ours); } .behind { fill: url(#hatch); stroke: var(--behind); }
.hatching { stroke: var(--behind); stroke-width: 2; }
.roof { fill: none; stroke: var(--fore); stroke-width: 1.6; }
.mark0 { fill: var(--ours); } .mark1, .mark2, .mark3 { fill: none; stroke-width: 1.6; }
.mark1 { stroke: var(--behind); } .mark2 { stroke: var(--third); } .mark3 { stroke: var(--fourth); }
"""
_WORDS = ("M x N x K", "layout", "candidate", "plan")  # columns that are no numbers


def to_html(record: Record) -> str:
    """The whole page: where, plots, table. Text of the record is escaped."""
    from tk.reports.show import environment_lines

    device = record.environment.device
    title = f"{record.suite} on {device}"
    where = escape(environment_lines(record.environment).plain.strip()).replace("\n", "<br>")
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f'<h1>{escape(title)}</h1><p class="where">{where}</p>',
        *(f"<p>{escape(sentence)}</p>" for sentence in summary(record)),
        _plots(record),
        _table(*heads_and_cells(record)),
        _figures(record),
        "</body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _plots(record: Record) -> str:
    try:
        chart = chart_of(record)
    except RecordError:
        return ""  # nothing was timed on a GPU: the table alone
    parts = [svg.hatch_definition()]
    if chart.panels:
        parts.append(
            "<h2>Ratios</h2><p>The rival's time over ours, each within this run: right of the line "
            "tk is faster, left of it, hatched, slower. The thin lines are what the quartiles of "
            'both allow.</p><div class="charts">'
        )
        for panel in chart.panels:
            mean = "" if panel.mean is None else f", geometric mean {panel.mean:.3f}"
            parts.append(
                f"<figure><figcaption>{escape(panel.title)} against {escape(panel.rival)}{mean}"
                f"</figcaption>{svg.bars(panel)}</figure>"
            )
        parts.append("</div>")
    if any(series.points for series in chart.series):
        parts.append(f"<h2>Roofline</h2>{svg.roofline(chart)}")
    return "".join(parts)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    kinds = [' class="words"' if head in _WORDS else "" for head in heads]
    head = "".join(f"<th{k}>{escape(h)}</th>" for h, k in zip(heads, kinds, strict=True))
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(c)}</td>" for c, k in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<h2>Rows</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><p>*: not in the geometric mean</p>"
    )


def _figures(record: Record) -> str:
    if not record.figures:
        return ""
    rows = "".join(
        f'<tr><td class="words">{escape(f.experiment)}</td><td class="words">{escape(f.name)}</td>'
        f'<td>{f.value:g}</td><td class="words">{escape(f.unit)}</td>'
        f'<td class="words">{escape(f.source)}</td></tr>'
        for f in record.figures
    )
    return f"<h2>Figures</h2><table><tbody>{rows}</tbody></table>"
