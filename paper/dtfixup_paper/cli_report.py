"""The verb `dtfixup report`: one page of all tables and figures."""

from pathlib import Path

from rich.console import Console

from dtfixup.errors import ConfigError

_console = Console()
_AGREEMENT = Path("docs/results/agreement.md")


def report(
    results: Path = Path("results"),
    out: Path = Path("report"),
    data: Path | None = None,
    beams: Path | None = None,
    agreement: Path | None = None,
    budget: str = "gpu",
    encoder: str | None = None,
    settings: Path | None = None,
) -> None:
    """Build one HTML page, and the same as Markdown, of all tables and figures that the results allow.

    Args:
        results: Folder of the result files.
        out: Folder for index.html, report.md and the pictures.
        data: Spider, as downloaded, to show the text of errors; such a page is for your own eyes.
        beams: Folder in which the runs' beams.jsonl are looked for; runs in the folder of the results by default.
        agreement: Markdown file that says where the results agree with the paper. By default, for the budget gpu with
            its own encoder, docs/results/agreement.md here or beside the folder of the results.
        budget: Whose runs to show: smoke, gpu or paper.
        encoder: Encoder of the runs, if it is not the budget's own.
        settings: Settings file that the runs were trained with; by default the settings of the published tables.
    """
    from dtfixup.sql.database.dataset import open_dataset
    from dtfixup_paper.report.page import build_report
    from dtfixup_paper.tables.cells import Budget, Setup
    from dtfixup_paper.tables.settings import published_settings, read_settings
    from dtfixup_paper.tables.smoke import ENCODER

    if budget not in set(Budget):
        raise ConfigError(f"there is no budget {budget!r}: choose one of {', '.join(Budget)}")
    for option, path in (("agreement", agreement), ("beams", beams)):
        if path is not None and not path.exists():
            raise ConfigError(f"{path} does not exist: give --{option} another path, or leave it out")
    if agreement is None and budget == Budget.GPU and Setup(Budget.GPU, encoder).has_usual_encoder:
        files = [folder / _AGREEMENT for folder in (Path(), results.absolute().parent)]
        agreement = next((file for file in files if file.is_file()), None)
        if agreement is None:
            _console.print(f"no {_AGREEMENT} here or beside {results}: the page leaves it out", soft_wrap=True)
    page, text = build_report(
        results,
        out,
        dataset=None if data is None else open_dataset(data),
        beams=results / "runs" if beams is None else beams,
        agreement=agreement,
        budget=Budget(budget),
        encoder=ENCODER if budget == Budget.SMOKE and encoder is None else encoder,
        settings=published_settings() if settings is None else read_settings(settings),
    )
    _console.print(f"page: {page}\nMarkdown: {text}", soft_wrap=True)
