"""The verbs that train: `dtfixup sql train` and `dtfixup reading train`."""

from pathlib import Path
from typing import Annotated

from dtfixup.cli.options import POOL, exit_if_stopped, show_result, this_command
from dtfixup.cli.parse import Settings
from dtfixup.reading.presets import PRESETS as READING_PRESETS
from dtfixup.reading.presets import ReadingRunConfig
from dtfixup.sql.model.config import PRESETS as SQL_PRESETS
from dtfixup.sql.model.config import SqlSpConfig


def train_sql(
    data: Path,
    out: Path,
    settings: Annotated[SqlSpConfig, Settings(SQL_PRESETS)],
    resume: bool = False,
    save: Path | None = None,
) -> None:
    """Train SQL-SP, and score it with a beam search.

    Args:
        data: Folder in the layout of the Spider download, or one that `dtfixup sql prepare` made.
        out: Folder for logs, checkpoints and weights.
        resume: Go on with the run in the folder.
        save: JSON file for the result, beside the one in the folder.
    """
    from dtfixup.sql.database.dataset import split_names
    from dtfixup.sql.model import train
    from dtfixup.sql.preparation.splits import open_or_prepare

    needed = [*split_names(settings.splits), *(() if settings.hold_out else ("dev",))]
    prepared = open_or_prepare(data, settings.encoder, needed, synthetic=POOL if settings.synthetic else 0)
    run = train.train_sql(settings, prepared, out, name="sql-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, save)


def train_reading(
    data: Path,
    out: Path,
    settings: Annotated[ReadingRunConfig, Settings(READING_PRESETS)],
    resume: bool = False,
    save: Path | None = None,
) -> None:
    """Train the reading model on multiple-choice questions, and evaluate it.

    Args:
        data: Folder with train and val as .json (ReClor's), .jsonl or .csv; or one such file, with --hold-out.
        out: Folder for logs, checkpoints and weights.
        resume: Go on with the run in the folder.
        save: JSON file for the result, beside the one in the folder.
    """
    from dtfixup.reading import train

    run = train.train_reading(settings, data, out, name="reading-train", command=this_command(), resume=resume)
    exit_if_stopped(not run.metrics)
    show_result(run.metrics, out, save)
