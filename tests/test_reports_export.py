"""Exports and plots: every figure arrives, pages need nothing else, pictures need no display."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from sample_records import make_record, make_row

from tk import cli
from tk.benchmarks.record import OK, PREDICTED, WRONG, Figure, Record, RecordError, Result, Timing
from tk.reports import figures, terminal
from tk.reports.chart import PLOTS, chart_of, ratio_ticks
from tk.reports.export import KINDS, TEXT_KINDS, export
from tk.reports.tables import to_csv, to_markdown

DEVICE = {"name": "NVIDIA H200", "peak_flops": {"bf16": 1.0e15}, "dram_bandwidth": 4.0e12}
FOLDER = Path(__file__).resolve().parents[1] / "reports" / "records"


def planned(record: Record) -> Record:
    """The record with plans that name a device's rates, as ours have."""
    rows = [
        replace(row, results=[replace(r, plan={"device": DEVICE}) for r in row.results])
        for row in record.rows
    ]
    return replace(record, rows=rows)


SAMPLE = planned(
    make_record(
        [make_row(14e-6, 15.4e-6), make_row(10e-6, 9e-6, k=128, in_mean=False, layout="nn")]
    )
)


def test_csv_holds_every_result_with_all_its_digits() -> None:
    record = replace(SAMPLE, figures=[Figure("conflicts", "naive", 8.0, "x", "counted")])
    rows = list(csv.DictReader(io.StringIO(to_csv(record))))
    results = [(row, result) for row in record.rows for result in row.results]
    assert len(rows) == 5
    for parsed, (row, result) in zip(rows[:4], results, strict=True):
        assert result.timing is not None
        assert (int(parsed["m"]), int(parsed["n"]), int(parsed["k"])) == (row.m, row.n, row.k)
        assert float(parsed["seconds"]) == result.timing.median
        assert float(parsed["q1_seconds"]) == result.timing.q1
        rate = row.floating_point_operations / result.timing.median
        assert float(parsed["flops_per_second"]) == rate
        assert parsed["in_mean"] == str(int(row.in_mean))
    assert float(rows[1]["ratio_to_torch"]) == pytest.approx(1.1)
    assert rows[0]["ratio_to_torch"] == ""
    assert (rows[4]["group"], rows[4]["candidate"]) == ("conflicts", "naive")
    assert (rows[4]["value"], rows[4]["unit"], rows[4]["seconds"]) == ("8.0", "x", "")


def test_markdown_is_a_table_whatever_stands_in_its_cells() -> None:
    nasty = Result("tk", WRONG, plan_text="a|b <img src=x>\n`c`", reason="x | y")
    row = replace(SAMPLE.rows[0], results=[SAMPLE.rows[0].results[0], nasty])
    text = to_markdown(replace(SAMPLE, rows=[row, SAMPLE.rows[1]]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    assert len(lines) == 4
    assert "WRONG" in lines[2] and "&lt;img" in lines[2] and r"a\|b" in lines[2]
    assert "4096x4096x128\\*" in lines[3]


class Page(HTMLParser):
    """What a page refers to, and whether its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_has_a_dark_side() -> None:
    text = export(SAMPLE, "html").decode()
    page = Page(text)
    assert page.open == [] and page.addresses == []
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|@font-face|url\((?!#hatch)", text)
    assert "prefers-color-scheme: dark" in text
    for words in ("4096x4096x64", "14.00 us", "1.100", "NVIDIA H200", "cuBLAS = 1.0", "TFLOP/s"):
        assert words in text


def test_text_of_a_record_cannot_become_part_of_the_page() -> None:
    evil = '"><script>alert(1)</script>'
    environment = replace(SAMPLE.environment, device=evil, versions={evil: evil})
    row = replace(SAMPLE.rows[0], layout=evil, dtype=evil)
    wrong = replace(row, results=[Result(evil, WRONG, plan_text=evil, reason=evil)])
    figure = Figure(evil, evil, 1.0, evil, evil)
    record = replace(SAMPLE, environment=environment, rows=[row, wrong], figures=[figure])
    page = Page(export(record, "html").decode())
    assert "script" not in page.tags and page.open == []


def test_plots_of_a_page_are_well_formed_and_told_apart_by_form() -> None:
    text = export(SAMPLE, "html").decode()
    pictures = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 3  # the ratios of two layouts, the roofline
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert 'class="ahead"' in pictures[0] and 'class="behind"' in pictures[1]
    assert "url(#hatch)" in text
    assert "<circle" in pictures[2] and "<polygon" in pictures[2] and "roof" in pictures[2]


def test_bars_are_the_ratios_and_points_the_rates() -> None:
    chart = chart_of(SAMPLE)
    assert [panel.title for panel in chart.panels] == ["nt", "nn"]
    (bar,) = chart.panels[0].bars
    assert bar.ratio == pytest.approx(1.1)
    assert bar.low < bar.ratio < bar.high
    assert chart.panels[0].mean == pytest.approx(1.1) and chart.panels[1].mean is None
    assert [series.name for series in chart.series] == ["tk", "cuBLAS"]
    point = chart.series[0].points[0]
    assert point.flops_per_second == pytest.approx(2 * 4096**2 * 64 / 14e-6)
    assert chart.roofs is not None and chart.roofs.ridge == pytest.approx(250.0)
    assert chart.roofs.at(1e9) == 1e15 and chart.roofs.at(1.0) == 4e12


def test_the_roof_of_a_page_passes_through_what_it_stands_for() -> None:
    """Whatever the range of the axes: between its corners the slanted roof is a straight line of
    slope 1 on axes that are both logarithmic."""
    for seconds in (14e-6, 14e-3, 14.0):
        record = planned(make_record([make_row(seconds, seconds)]))
        picture = re.findall(r"<svg viewBox.*?</svg>", export(record, "html").decode())[-1]
        decade = [float(v) for v in re.findall(r'class="grid" x1="([\d.]+)" y1="24', picture)]
        levels = [float(v) for v in re.findall(r'x1="62.0" y1="([\d.]+)" x2="740', picture)]
        slope = (levels[0] - levels[1]) / (decade[1] - decade[0])
        corners = re.search(r'class="roof" points="([^"]*)"', picture)
        assert corners is not None
        (x1, y1), (x2, y2) = [tuple(map(float, pair.split(","))) for pair in corners[1].split()[:2]]
        assert (y1 - y2) / (x2 - x1) == pytest.approx(slope, rel=0.02)


@pytest.mark.parametrize(
    ("low", "high"), [(0.9, 1.1), (0.8, 1.3), (0.4, 2.2), (0.1, 9.0), (1e-3, 1e3), (1e-9, 1e9)]
)
def test_ticks_of_ratios_are_few_and_one_is_among_them(low: float, high: float) -> None:
    ticks = ratio_ticks(low, high)
    assert 1.0 in ticks and 2 <= len(ticks) <= 11
    assert all(low <= tick <= high for tick in ticks) and ticks == sorted(set(ticks))


def test_predictions_are_plotted_as_such_and_times_of_a_host_never() -> None:
    host = replace(SAMPLE, environment=replace(SAMPLE.environment, architecture="host"))
    with pytest.raises(RecordError, match="nothing to plot"):
        chart_of(host)
    model = Result("model", PREDICTED, Timing(1e-5, 1e-5, 1e-5, 0), plan={"device": DEVICE})
    predicted = replace(SAMPLE.rows[0], results=[model])
    chart = chart_of(replace(host, rows=[*host.rows, predicted], predicted_for="h200"))
    assert chart.panels == []
    assert [series.name for series in chart.series] == ["predicted for h200"]
    assert len(chart.series[0].points) == 1


def test_a_page_of_the_host_has_its_table_and_no_plot() -> None:
    host = replace(SAMPLE, environment=replace(SAMPLE.environment, architecture="host"))
    text = export(host, "html").decode()
    assert "<svg" not in text and "14.00 us" in text
    assert "geometric mean of" not in text and "TFLOP/s" in text  # the head; its cells are dashes


@pytest.mark.parametrize("width", [30, 60, 100, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_plots_in_a_terminal_fit_it(width: int, encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    console = Console(file=stream, width=width, color_system=None)
    console.print(terminal.render(chart_of(SAMPLE), console, PLOTS))
    stream.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    text = "\n".join(lines)
    assert "1.100" in text and "0.900" in text and "TFLOP/s" in text
    rows = [line for line in lines if line.startswith("4096x4096x")]
    mark = "|" if encoding == "ascii" else "│"
    assert len({row.index(mark) for row in rows[:1]}) == 1
    assert len(rows[0].split(mark)[1].strip()) > 0  # faster: to the right of the line
    assert rows[1].split(mark)[1].strip() == ""


@pytest.mark.parametrize("kind", ["png", "svg"])
@pytest.mark.parametrize("plots", [PLOTS, ("ratios",), ("roofline",)])
def test_pictures_are_drawn_and_are_the_same_each_time(kind: str, plots: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    content = export(SAMPLE, kind, plots)
    assert content == export(SAMPLE, kind, plots)
    if kind == "png":
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
    else:
        text = content.decode()
        ElementTree.fromstring(text)
        assert ("4096x4096x64" in text) == ("ratios" in plots)
        assert ("TB/s" in text) == ("roofline" in plots)


def test_pictures_need_no_display_and_no_settings_of_the_user(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    SAMPLE.save(tmp_path / "record.json")
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    done = subprocess.run(
        [sys.executable, "-m", "tk.cli", "report", "export", "record.json", "--to", "png"],
        cwd=tmp_path,
        env={**environment, "MPLBACKEND": "TkAgg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == "wrote record.png\n", done.stderr
    assert (tmp_path / "record.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SAMPLE.save(tmp_path / "record.json")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = str(tmp_path / "record.json")
    assert cli.main(["report", "export", path, "-o", str(tmp_path / "a.png")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "pip install 'tk-cute[plot]'" in error
    assert cli.main(["report", "export", path, "-o", str(tmp_path / "a.html")]) == 0
    with pytest.raises(figures.NoPlotting):
        export(SAMPLE, "png")


def test_the_command_writes_what_the_name_ends_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    SAMPLE.save(path)
    for name, start in (("a.csv", b"batch,m,n,k"), ("b.md", b"NVIDIA"), ("c.html", b"<!DOCTYPE")):
        assert cli.main(["report", "export", str(path), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    capsys.readouterr()
    for kind in TEXT_KINDS:
        assert cli.main(["report", "export", str(path), "--to", kind]) == 0
        assert capsys.readouterr().out == export(SAMPLE, kind).decode()
    assert set(TEXT_KINDS) < set(KINDS)
    assert cli.main(["report", "plot", str(path), "--plot", "ratios"]) == 0
    assert "cuBLAS's time over ours" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--to csv|md|html|png|svg"),
        (["-o", "a.pdf"], "--to csv|md|html|png|svg"),
        (["--to", "pdf"], "invalid choice"),
        (["--to", "csv", "-o", "/no/such/folder/a.csv"], "is no folder"),
        (["--to", "csv", "-o", "."], "it is a folder"),
    ],
)
def test_an_export_that_makes_no_sense_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    SAMPLE.save(tmp_path / "record.json")
    assert cli.main(["report", "export", str(tmp_path / "record.json"), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_record_with_nothing_to_plot_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_record([]).save(tmp_path / "record.json")
    assert cli.main(["report", "plot", str(tmp_path / "record.json")]) == 1
    assert "nothing to plot" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1, 2000])
def test_a_closed_pipe_is_quiet(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "record.json"
    replace(SAMPLE, rows=[SAMPLE.rows[0]] * rows).save(path)
    process = subprocess.Popen(
        [sys.executable, "-m", "tk.cli", "report", "export", str(path), "--to", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_the_records_of_the_repository_are_exported(kind: str) -> None:
    record = Record.load(FOLDER / "2026-12-02-h200-gemm-read.json")
    text = export(record, kind).decode()
    assert text.count("16384x16384x16384") >= 2 or text.count("16384,16384,16384") == 4
    assert all(result.status == OK for row in record.rows for result in row.results)
