"""docs/reference/cli.md and api.md, from the code: `python -m tools.docs.reference`, with `--check` to compare only.

In: the verbs of the command line and the public names of the packages below. Out: two Markdown pages.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from docstring_parser import Docstring, parse, parse_from_object

from dtfixup import errors
from dtfixup.cli.parse import parser_of
from dtfixup.cli.verbs import GROUPS, SAME

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PACKAGES = (
    "dtfixup",
    "dtfixup.transformer",
    "dtfixup.encoders",
    "dtfixup.sql",
    "dtfixup.reading",
    "dtfixup.web",
)
_WIDTH = 100
_REQUIRED = "(required)"
_MADE = "<!-- Made from the code by `python -m tools.docs.reference`. Change the docstrings, not this page. -->"


def command_line() -> str:
    """The page of all verbs with their options, in the order of `dtfixup --help`."""
    lines = ["# Command line", "", _MADE, ""]
    lines += ["Options and arguments may come in any order. `dtfixup VERB --help` shows the same in a terminal.", ""]
    for group, verbs in GROUPS.items():
        lines += [f"## {group}", ""]
        for name, verb in verbs.items():
            others = [other for other, same in SAME.items() if same == name]
            lines += [f"### `dtfixup {name}`", ""]
            parser = parser_of(verb.load(name))
            lines += [" ".join(paragraph.split()) + "\n" for paragraph in (parser.description or "").split("\n\n")]
            lines += [f"Also `dtfixup {other}`.\n" for other in others]
            lines += _tables(parser)
    return _page(lines)


def api() -> str:
    """The page of all public names with their signatures and docstrings."""
    lines = ["# Python", "", _MADE, ""]
    for name in PACKAGES:
        package = import_module(name)
        lines += [f"## `{name}`", "", _paragraphs(parse(package.__doc__ or "")), ""]
        for public in sorted(package.__all__, key=str.lower):
            lines += _described(public, getattr(package, public))
    return _page([*lines, *_errors()])


def _page(lines: list[str]) -> str:
    """The lines as a file, never with two blank ones in a row."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _tables(parser: Any) -> list[str]:
    """A verb's arguments and options, a table for each group of settings."""
    lines = []
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if "--help" not in action.option_strings]
        if not actions:
            continue
        section, is_section, _ = group.title.partition(" options")
        head = f"`{section}`: {group.description or ''}" if is_section else group.title.removeprefix("positional ")
        lines += [f"| {head} | |", "|---|---|"]
        lines += [f"| {_typed(action)} | {_meaning(action.help)} |" for action in actions]
        lines.append("")
    return lines


def _typed(action: Any) -> str:
    """What is typed: the option's names and its value, or the argument."""
    value = action.metavar or ""
    if not action.option_strings:
        return f"`{value}`"
    names = [f"`{name}`" for name in action.option_strings]
    names[-1] = f"`{action.option_strings[-1]}{' ' + value if value else ''}`"
    return _in_cell(", ".join(names))


def _meaning(text: str) -> str:
    """An option's help; its default, in brackets at the end, as code."""
    text = text.strip()
    if text.endswith(_REQUIRED):
        return _in_cell(text.removesuffix(_REQUIRED) + "**Required.**")
    before, bracket, default = text.rpartition("[")
    if bracket and text.endswith("]"):
        return _in_cell(f"{before}Default: `{default.removesuffix(']')}`")
    return _in_cell(text)


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _errors() -> list[str]:
    """Every error of the library with the line that says when it is raised."""
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    lines = ["## `dtfixup.errors`", "", _paragraphs(parse(errors.__doc__ or "")), ""]
    return lines + _members("error", [(kind.__name__, parse(kind.__doc__ or "").short_description) for kind in kinds])


def _described(name: str, documented: Any) -> list[str]:
    """A public name: its signature, what it is, its arguments; of a class its fields and methods, too."""
    docstring = parse_from_object(documented)
    lines = [f"### {name}", "", "```py", _wrapped(*_signature(name, documented)), "```", ""]
    lines += [_paragraphs(docstring), ""]
    described = [(param.arg_name, param.description) for param in docstring.params]
    if inspect.isclass(documented):
        return lines + _members("field", described) + _members("method or property", list(_methods(documented)))
    return lines + _members("argument", described)


def _paragraphs(docstring: Docstring) -> str:
    """A docstring's text without its sections; examples are code."""
    between = "\n\n" if docstring.blank_after_short_description else "\n"
    text = between.join(filter(None, (docstring.short_description, docstring.long_description)))
    blocks = [f"```py\n{block}\n```" if block.startswith(">>>") else block for block in text.split("\n\n")]
    return "\n\n".join(blocks)


def _members(head: str, rows: list[tuple[str, str | None]]) -> list[str]:
    rows = [(name, text) for name, text in rows if not name.startswith("_")]
    described = [f"| `{_in_cell(name)}` | {_in_cell(' '.join((text or '').split()))} |" for name, text in rows]
    return [f"| {head} | |", "|---|---|", *described, ""] if rows else []


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties of a class with the first sentence of their docstrings."""
    for name, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not isinstance(function, FunctionType) or not function.__doc__:
            continue
        summary = parse(function.__doc__).short_description or ""
        yield (name if isinstance(member, property) else _on_a_line(*_signature(name, function))), summary


Signature = tuple[str, list[str], str]
"""A name, its arguments and what it returns, as the source has them."""


def _signature(name: str, documented: Any) -> Signature:
    """How it is called; a class is called with the fields of a dataclass or the arguments of `__init__`."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(documented))).body
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {_plain(ast.unparse(node.returns))}" if node.returns else ""
        return name, _arguments(node.args), returns
    assert isinstance(node, ast.ClassDef)
    start = [member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"]
    if is_dataclass(documented):
        fields = [member for member in node.body if isinstance(member, ast.AnnAssign)]
        arguments = [_spaced(_plain(ast.unparse(field))) for field in fields]
        return f"class {name}", [argument for argument in arguments if not argument.startswith("_")], ""
    return f"class {name}", _arguments(start[0].args) if start else [], ""


def _arguments(arguments: ast.arguments) -> list[str]:
    """The arguments one by one, without self and cls."""
    parts: list[str] = []
    for part in _plain(ast.unparse(arguments)).split(", "):
        if parts and sum(map(parts[-1].count, "[(")) > sum(map(parts[-1].count, "])")):
            parts[-1] += ", " + part  # a comma inside brackets divides nothing
        elif part not in ("", "self", "cls"):
            parts.append(part)
    return list(map(_spaced, parts))


def _plain(code: str) -> str:
    """Types without the quotes of forward references, texts in double quotes."""
    return re.sub(r"'([A-Z]\w*)'", r"\1", code).replace("'", '"')


def _spaced(argument: str) -> str:
    return re.sub(r"^(\w+: [^=]+?) ?= ?", r"\1 = ", argument)


def _on_a_line(name: str, arguments: list[str], result: str) -> str:
    return f"{name}({', '.join(arguments)}){result}" if arguments or result else name


def _wrapped(name: str, arguments: list[str], result: str) -> str:
    line = _on_a_line(name, arguments, result)
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){result}"


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that are stale."""
    stale = []
    for file, page in (("cli.md", command_line()), ("api.md", api())):
        path = FOLDER / file
        if path.exists() and path.read_text(encoding="utf-8") == page:
            continue
        stale.append(f"docs/reference/{file}")
        if "--check" not in arguments:
            path.write_text(page, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"{', '.join(stale)}: stale; `make docs` makes them from the code", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
