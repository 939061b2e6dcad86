"""A command's run that measures row by row: saved after each, and gone on with by --resume."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tk.cli_common import CommandError, UsageError, in_words
from tk.cli_measure import progress_bar, save_record

if TYPE_CHECKING:
    from tk.benchmarks.record import Record
    from tk.benchmarks.running import Save


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Adds --resume."""
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the rows that the --json FILE of an interrupted run holds; refused when device, "
        "versions, revision or settings differ",
    )


class Run:
    """A run that is saved after every row, and that --resume goes on with."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options = options
        self.console = console
        self._path: str | None = options.json
        self._latest: Record | None = None
        # A pipe gets the record once, when it is whole.
        self._is_file = self._path is not None and (
            not Path(self._path).exists() or Path(self._path).is_file()
        )
        self._kept = self._load() if options.resume else None

    def measure(self, text: str, run: Any) -> Record:
        """The record of ``run(progress=, save=, kept=)``; an interruption leaves what was measured,
        shown, in the file, and said."""
        from tk.benchmarks.running import ResumeError

        try:
            with progress_bar(self.console, text) as report:
                record: Record = run(progress=report, save=self._saver(), kept=self._kept)
        except ResumeError as error:
            raise CommandError(f"{self._path} {error}: measure anew without --resume") from error
        except KeyboardInterrupt:
            self._interrupted()
            raise
        return record

    def show(self, record: Record) -> None:
        """Shows and saves the record."""
        from tk.reports.show import render

        self.console.print(render(record, self.console))
        save_record(record, self._path, self.console)

    def finish(self, record: Record) -> int:
        """Shows and saves the record; the exit code, 1 when a result of ours is wrong."""
        from tk.benchmarks.record import FAILED, WRONG
        from tk.benchmarks.rivals import RIVAL_NAMES

        self.show(record)
        ours = (r for row in record.rows for r in row.results if r.candidate not in RIVAL_NAMES)
        return 1 if any(result.status in (WRONG, FAILED) for result in ours) else 0

    def _load(self) -> Record | None:
        from tk.benchmarks.record import Record, RecordError

        if self._path is None or not self._is_file:
            raise UsageError("--resume needs --json FILE: the record to go on with")
        if not Path(self._path).exists():
            return None
        try:
            kept = Record.load(self._path)
        except OSError as error:
            raise CommandError(in_words(error)) from error
        except RecordError as error:
            raise CommandError(error) from error
        if kept.environment.git_revision.endswith("+"):
            self.console.print(
                "the sources have changes beside their revision: rows that are kept may be of "
                "other ones",
                style="yellow",
            )
        return kept

    def _saver(self) -> Save:
        def save(record: Record) -> None:
            self._latest = record
            if self._path is None or not self._is_file or not record.rows:
                return
            try:
                record.save(self._path)
            except OSError as error:
                raise CommandError(in_words(error)) from error

        return save

    def _interrupted(self) -> None:
        from tk.reports.show import render

        record = self._latest
        if record is None or not record.rows:
            return
        self.console.print(render(record, self.console))
        if self._path is not None and self._is_file:
            record.save(self._path)  # again: it may have been interrupted in the middle of that
            self.console.print(
                f"{self._path} holds {len(record.rows)} of {record.planned_rows} rows; the same "
                "command with --resume goes on",
                markup=False,
            )
