"""``tk schedule``: what it prints and writes, and one line for arguments that make no sense."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from tk import cli, runtime
from tk.benchmarks.orders import measure
from tk.benchmarks.record import OK, Result, Timing
from tk.benchmarks.selection import Timer
from tk.schedulers import Device, GemmProblem, Order, plan_gemm

PRODUCT = ("gemm", "8192", "8192", "8192", "--device", "h200")
SMALL = ("gemm", "1000", "1500", "256", "--device", "h200")


@pytest.fixture(autouse=True)
def wide_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def run(*arguments: str) -> int:
    return cli.main(("schedule", *arguments))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command with a mistake leaves on standard error."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.endswith("\n")
    return captured.err


def picture(text: str) -> list[str]:
    """The lines of the grid: two columns a tile, after a margin."""
    return [line[2:] for line in text.splitlines() if re.fullmatch(r"  [0-9a-zA-Z]+", line)]


def test_show_draws_every_tile_as_its_wave(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "show", *PRODUCT, "--order", "row")
    assert "8192 x 8192 x 8192" in text and "hit rate" in text
    lines = picture(text)
    assert len(lines) == 32 and {len(line) for line in lines} == {64}
    # In row order tile (row, col) is the 32 row + col-th; 66 clusters run at a time.
    symbols = "123456789abcdefg"
    for row, line in enumerate(lines):
        for col in range(32):
            wave = (32 * row + col) // 66
            assert line[2 * col : 2 * col + 2] == 2 * symbols[wave]
    assert "read so far" in text


def test_show_names_one_wave_and_its_panels(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "show", *PRODUCT, "--order", "row", "--wave", "2")
    assert text.count("#") == 2 * 66 + 1  # and the legend's
    assert "wave 2: # runs now" in text
    assert "MM" in text  # of b; all 32 panels do not fit beside those of wave 1
    first = printed(capsys, "show", *SMALL, "--wave", "1")
    assert "LL" not in first


@pytest.mark.parametrize(
    "order", ["column", "grouped_m:4", "grouped_n(3)", "snake", "hilbert", "morton"]
)
def test_every_order_is_shown(capsys: pytest.CaptureFixture[str], order: str) -> None:
    assert str(Order.parse(order)) in printed(capsys, "show", *SMALL, "--order", order)


def test_a_large_grid_is_thinned_out_to_the_console(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    text = printed(capsys, "show", "gemm", "16384", "32768", "128", "--device", "h200")
    assert "rows and columns of tiles is drawn" in text
    assert max(map(len, text.splitlines())) <= 70
    assert len(picture(text)) <= 48


def check_alone(page: str) -> None:
    """A page that loads nothing from elsewhere and knows light and dark."""
    assert "prefers-color-scheme: dark" in page
    assert set(re.findall(r"https?://[^\s\"']+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bsrc=|\bhref=|@import|url\(", page)


def test_show_writes_a_page_and_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page, drawing = tmp_path / "walk.html", tmp_path / "walk.svg"
    text = printed(capsys, "show", *PRODUCT, "--html", str(page), "--svg", str(drawing))
    assert f"wrote {page}" in text and f"wrote {drawing}" in text
    html = page.read_text(encoding="utf-8")
    check_alone(html)
    assert "<!--" not in html and "/*data*/" not in html
    data = re.search(r"const data = (\{.*\});", html)
    assert data is not None
    waves = json.loads(data[1])["waves"]
    assert len(waves) == 16 and sum(wave["tiles"] for wave in waves) == 32 * 32
    assert all(0 <= hit <= 1 for wave in waves for _, hit in wave["rows"] + wave["cols"])

    svg = drawing.read_text(encoding="utf-8")
    check_alone(svg)
    groups = [g for g in ElementTree.fromstring(svg).iter() if g.get("class") == "w"]
    assert [len(group) for group in groups] == [wave["tiles"] for wave in waves]
    corners = {(tile.get("x"), tile.get("y")) for group in groups for tile in group}
    assert len(corners) == 32 * 32
    assert "prefers-reduced-motion" in svg and "@keyframes w15" in svg


@pytest.mark.parametrize("sizes", [("1", "14336", "4096"), ("14336", "8", "64"), ("1", "1", "1")])
def test_lines_of_tiles_are_drawn_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sizes: tuple[str, ...]
) -> None:
    drawing = tmp_path / "walk.svg"
    printed(capsys, "show", "gemm", *sizes, "--device", "h200", "--svg", str(drawing))
    ElementTree.parse(drawing)


def test_compare_has_a_line_for_each_order_fastest_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "orders.json"
    text = printed(capsys, "compare", *PRODUCT, "--json", str(path))
    for name in ("row", "column", "grouped_m(8)", "grouped_n(8)", "snake", "hilbert", "morton"):
        assert re.search(rf"^ {re.escape(name)}( \*)? ", text, re.MULTILINE)
    assert "measured" not in text
    record = json.loads(path.read_text())
    assert record["version"] == 1 and record["plan"]["problem"]["m"] == 8192
    times = [entry["predicted_seconds"] for entry in record["orders"]]
    assert times == sorted(times) and times[0] > 0
    assert all(0 < entry["hit_rate"] < 1 for entry in record["orders"])
    assert not any("measured_seconds" in entry for entry in record["orders"])
    by_name = {str(Order(**entry["order"])): entry for entry in record["orders"]}
    assert by_name["row"]["read_bytes"] > 1.5 * by_name["hilbert"]["read_bytes"]


def test_compare_takes_the_orders_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "compare", *SMALL, "--orders", "snake,grouped_n:2")
    assert "snake" in text and "grouped_n(2)" in text and "hilbert" not in text


def test_compare_shows_what_was_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timing = Timing(1e-3, 0.9e-3, 1.1e-3, 10)
    results = [Result("row", OK, timing=timing), Result("snake", "failed", reason="no")]
    monkeypatch.setattr("tk.cli_schedule._measured", lambda *_: results)
    path = tmp_path / "orders.json"
    options = ("--orders", "row,snake", "--json", str(path))
    text = printed(capsys, "compare", *SMALL, *options)
    assert "measured" in text and "1.000 ms" in text and "failed" in text
    entries = json.loads(path.read_text())["orders"]
    assert [entry["measured_seconds"] for entry in entries] == [1e-3, None]


def test_orders_are_measured_against_each_other() -> None:
    backend = runtime.backend(torch.device("cpu"))
    for problem in (
        GemmProblem(200, 300, 64),
        GemmProblem(130, 140, 64, batch=2, b_major="n", out_dtype="fp32"),
    ):
        plan = plan_gemm(problem, backend.device, backend.instances).replace(splits=1)
        plans = [plan.replace(order=order) for order in (Order("row"), Order("morton"))]
        results = measure(plans, torch.device("cpu"), Timer(seconds=0.001))
        assert [result.candidate for result in results] == ["row", "morton"]
        assert all(result.status == OK and result.timing for result in results)


@pytest.mark.gpu
def test_compare_measures_on_a_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    options = ("--orders", "row,grouped_m:4,morton", "--seconds", "0.005", "--json", str(path))
    text = printed(capsys, "compare", "gemm", "4096", "4096", "512", *options)
    assert "measured" in text
    entries = json.loads(path.read_text())["orders"]
    assert all(entry["status"] == OK and entry["measured_seconds"] > 0 for entry in entries)


def test_the_timeline_shows_each_stage_and_what_it_starves_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "timeline", *PRODUCT)
    assert re.search(r"^stage 3 ", text, re.MULTILINE)
    assert "the ring does not starve" in text
    shallow = printed(capsys, "timeline", *PRODUCT, "--stages", "2", "--tiles", "1")
    assert "2 stages" in shallow and "stage 2" not in shallow
    assert "starves of latency: with 2 stages" in shallow
    narrow = printed(capsys, "timeline", "gemm", "1", "14336", "4096", "--device", "h200")
    assert "starves of bandwidth" in narrow and "1 output tile of one block" in narrow


def test_the_timeline_is_written_as_a_picture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "ring.svg"
    options = ("--k-tiles", "5", "--tiles", "3", "--svg", str(path))
    assert f"wrote {path}" in printed(capsys, "timeline", *PRODUCT, *options)
    svg = path.read_text(encoding="utf-8")
    check_alone(svg)
    names = [rect.get("class") for rect in ElementTree.fromstring(svg).iter() if "rect" in rect.tag]
    assert names.count("store") == 3 + 1  # and the legend's
    assert names.count("load") == 3 * 5 + 1


def test_a_terminal_of_ascii_gets_ascii() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tk.cli", "schedule", "timeline", *PRODUCT],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "?" not in done.stdout and "# computed on" in done.stdout


@pytest.mark.parametrize("action", ["show", "compare", "timeline"])
def test_help_names_every_argument(capsys: pytest.CaptureFixture[str], action: str) -> None:
    text = " ".join(printed(capsys, action, "gemm", "--help").split())
    for argument in ("M N K", "--batch", "--dtype", "--device", "--layout"):
        assert argument in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "ACTION"),
        (("show",), "FAMILY"),
        (("show", "gemm", "8", "8"), "K"),
        (("show", "gemm", "8", "8", "0"), "argument K: '0' is no whole number above 0"),
        (("show", *SMALL, "--order", "zigzag"), "argument --order: unknown order 'zigzag'"),
        (("show", *SMALL, "--order", "grouped_m"), "argument --order: order grouped_m"),
        (("show", *SMALL, "--wave", "0"), "argument --wave: '0'"),
        (("show", *SMALL, "--wave", "999"), "--wave 999: the last wave is 1"),
        (("show", *SMALL, "--html", "/no/such/folder/walk.html"), "/no/such/folder is no folder"),
        (("show", *SMALL, "--svg", "."), "cannot write .: it is a folder"),
        (("show", *SMALL, "--layout", "xy"), "nt, nn, tn, tt"),
        (("show", "gemm", "99999", "99999", "64", "--device", "h200", "--svg", "x"), "--svg: "),
        (("show", "gemm", "999999", "999999", "64", "--device", "h200"), "tiles is too large"),
        (("compare", *SMALL, "--orders", "row,zigzag"), "argument --orders: unknown order"),
        (("compare", *SMALL, "--seconds", "0"), "argument --seconds: '0'"),
        (("compare", *SMALL, "--json", "/no/such/folder/x.json"), "no folder"),
        (("timeline", *SMALL, "--stages", "99"), "--stages 99: "),
        (("timeline", *SMALL, "--stages", "1"), "--stages 1: "),
        (("timeline", *SMALL, "--k-tiles", "99"), "--k-tiles 99: an output tile has"),
        (("timeline", *SMALL, "--tiles", "99"), "--tiles 99: a block has at most 1"),
    ],
)
def test_arguments_that_make_no_sense_are_named_in_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in mistake(capsys, *arguments)


def test_a_file_that_cannot_be_written_fails_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", "walk.svg")

    monkeypatch.setattr(Path, "write_text", full)
    assert run("show", *SMALL, "--svg", str(tmp_path / "walk.svg")) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "No space left on device" in captured.err


def test_a_device_of_the_catalogue_is_planned_for(capsys: pytest.CaptureFixture[str]) -> None:
    name = next(name for name in Device.names() if name not in ("h200", "host"))
    assert f"on {name}" in printed(capsys, "show", "gemm", "512", "512", "64", "--device", name)
