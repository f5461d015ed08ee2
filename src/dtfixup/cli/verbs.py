"""Every verb of the command line: what it is for, and where its function is.

Only the module of the verb that was typed is imported. The verbs of the paper's tables are in a second package, which
declares them as entry points of the group `dtfixup.verbs`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from dtfixup.errors import ConfigError

ENTRY_POINTS = "dtfixup.verbs"


@dataclass(frozen=True)
class Verb:
    """A verb: one line of help, and its function as `module:name`; without one, another package has it."""

    summary: str
    function: str | None = None

    def load(self, name: str) -> Callable[..., None]:
        """Import the function."""
        if self.function is not None:
            module, _, function = self.function.partition(":")
            loaded: Any = getattr(import_module(f"dtfixup.cli.{module}"), function)
            return loaded
        matching = entry_points(group=ENTRY_POINTS, name=name.replace(" ", "."))
        if not matching:
            raise ConfigError(
                f"`dtfixup {name}` comes with the folder paper/ of the repository: "
                "`make setup` there, or `pip install ./paper`"
            )
        return next(iter(matching)).load()


GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "Ask a database in English": {
        "ask": Verb("write the SQL for a question, and run it with --run; a prompt without a question", "ask:ask"),
        "demo": Verb("ask the bundled databases, and score the shipped model on them", "ask:demo"),
        "serve": Verb("open a web page and a JSON API for questions to databases", "serve:serve"),
        "sql link": Verb("show which words of a question name tables, columns and values", "ask:link"),
    },
    "Train on your own": {
        "sql finetune": Verb("teach the SQL model your question/SQL pairs, and measure the gain", "finetune:finetune"),
        "sql prepare": Verb("parse and link a dataset for training", "train:prepare"),
        "sql synthesise": Verb("make up training questions", "train:synthesise"),
        "sql train": Verb("train the SQL model", "train:train"),
        "sql predict": Verb("write a query for every question of a split", "predictions:predict"),
        "sql pack": Verb("write a trained SQL model as a small file", "train:pack"),
        "reading train": Verb("train the reading model on multiple-choice questions", "reading:train"),
        "reading predict": Verb("write the likeliest option of every example", "reading:predict"),
        "reading answer": Verb("answer one multiple-choice question about a passage", "reading:answer"),
    },
    "Measure": {
        "sql evaluate": Verb("score predicted queries: exact match and execution accuracy", "predictions:evaluate"),
        "sql score": Verb("add execution accuracy to the result of a run", "predictions:score"),
        "sql acceptance": Verb(
            "ask the bundled questions as a user does, and score the answers", "predictions:acceptance"
        ),
        "reading evaluate": Verb("print the accuracy of a reading model", "reading:evaluate"),
    },
    "The method": {
        "check": Verb("measure update size and gradient norm against depth", "method:check"),
        "demo-train": Verb("train 24 new layers three ways, side by side, and draw the curves", "method:demo_train"),
    },
    "The paper's tables (folder paper/ of the repository)": {
        "reproduce": Verb("train the runs of the paper's tables and figures"),
        "report": Verb("build one page of all tables and figures"),
        "sql errors": Verb("say what kind each error of a run is"),
        "sql curves": Verb("draw validation accuracy against epochs"),
    },
}
VERBS: Mapping[str, Verb] = {name: verb for group in GROUPS.values() for name, verb in group.items()}
SAME: Mapping[str, str] = {"sql ask": "ask", "sql demo": "demo"}
"""Other names of verbs."""
FAMILIES: Mapping[str, str] = {"sql": "Text to SQL", "reading": "Logical reading comprehension"}


def find_verb(words: list[str]) -> tuple[str, Verb]:
    """The verb that a command line begins with, by its full name.

    >>> find_verb(["sql", "link", "How many?"])[0]
    'sql link'
    >>> find_verb(["aks", "How many?"])
    Traceback (most recent call last):
    dtfixup.errors.ConfigError: there is no verb 'aks'; did you mean 'ask'?
    """
    names = [*VERBS, *SAME]
    for name in (" ".join(words[:2]), words[0]):
        if name in names:
            return name, VERBS[SAME.get(name, name)]
    typed = " ".join(words[:2]) if words[0] in FAMILIES else words[0]
    nearest = [name for name in names if name.split()[-1] == words[0]] or get_close_matches(typed, names, 1)
    if not nearest and len(words) > 1:
        nearest = get_close_matches(" ".join(words[:2]), names, 1)
    advice = "did you mean " + " or ".join(map(repr, nearest)) + "?" if nearest else "dtfixup --help lists them"
    raise ConfigError(f"there is no verb {typed!r}; {advice}")


def overview(family: str | None = None) -> str:
    """Help: all verbs by what they are for, or those of a family in the same order."""
    if family is not None:
        others = {name: other for other, name in SAME.items()}
        members = [name for name in (others.get(name, name) for name in VERBS) if name.startswith(f"{family} ")]
        return "\n".join(
            [f"{FAMILIES[family]}.", "", f"usage: dtfixup {family} VERB [OPTIONS]", "", *map(_line, members)]
        )
    lines = ["Questions to databases in English, and deep new layers that train on a few thousand examples.", ""]
    lines += ["usage: dtfixup VERB [OPTIONS]", "       dtfixup VERB --help", ""]
    for group, verbs in GROUPS.items():
        lines += [group, *map(_line, verbs), ""]
    lines.append('Begin with: dtfixup ask "How many piers are in Vienna?" sample:river_ferry --run')
    return "\n".join(lines)


def _line(name: str) -> str:
    width = max(map(len, VERBS)) + 2
    return f"  {name:{width}}{VERBS[SAME.get(name, name)].summary}"
