"""Questions to one database and their answers on the terminal: one question, or a prompt.

The query and its rows go to standard output, everything else to standard error.
"""

import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from dtfixup.cli.ask import AskOptions, ExitCode, print_json, require_new, show_error
from dtfixup.errors import ConfigError, DtFixupError, GuardError
from dtfixup.files import write_atomically
from dtfixup.sql.ask.answers import Verdict
from dtfixup.sql.ask.opened import OpenedDatabase
from dtfixup.sql.ask.parser import Answer, TextToSql
from dtfixup.sql.ask.view import alternatives_table, remark, rows_content, rows_csv, rows_table, sql_view, tree_view
from dtfixup.sql.execution.guarded import Rows
from dtfixup.sql.execution.run import run_query
from dtfixup.sql.linking.view import printable, render

_CODES = {Verdict.SURE: ExitCode.ANSWERED, Verdict.UNSURE: ExitCode.UNSURE, Verdict.NO_LINK: ExitCode.NO_LINK}
_PROMPT = "question> "
_HELP = (
    r"ask in English; \r runs the last query, \2, \3, … take another one of its list instead, \s FILE saves its rows "
    r"as CSV, help (\h) shows this, quit (\q) ends"
)
_HELP_WORDS = ("help", r"\h", r"\help", "?")
_END_WORDS = ("quit", "exit", r"\q")


class Session:
    """A database, a model, and where answers are shown."""

    def __init__(self, database: OpenedDatabase, parser: TextToSql, options: AskOptions) -> None:
        self._database, self._parser, self._options = database, parser, options
        self._out, self._notes = Console(), Console(stderr=True)
        self._answer: Answer | None = None
        self._last: str | None = None

    def answer(self, question: str) -> ExitCode:
        """Answer one question and show everything that was asked for."""
        answer = self._parser.ask(question, self._database, self._options.beam)
        self._answer, self._last = answer, answer.sql
        code = _CODES[answer.verdict]
        if self._options.json:
            return self._answer_json(answer, code)
        self._show(answer)
        if answer.sql is not None and self._options.needs_rows:
            rows = self._rows(answer.sql)
            if self._options.csv is not None:
                self._save(rows, self._options.csv)
            if self._options.run:
                self._out.print(rows_table(rows))
        return code

    def _answer_json(self, answer: Answer, code: ExitCode) -> ExitCode:
        content = answer.to_json()
        if answer.sql is not None and self._options.needs_rows:
            try:
                rows = self._rows(answer.sql)
                if self._options.csv is not None:
                    self._save(rows, self._options.csv)
                content["result"] = rows_content(rows)
            except GuardError as error:
                content["error"], code = str(error), ExitCode.ERROR
        print_json(content)
        return code

    def _show(self, answer: Answer) -> None:
        if self._options.explain:
            self._out.print(render(answer.question, answer.words, answer.links, answer.schema))
            self._out.print(alternatives_table(answer, self._parser.sure_above))
            if answer.alternatives:
                self._out.print(tree_view(answer.alternatives[0].tree, answer.schema))
            seconds = answer.timing
            self._out.print(
                f"database {seconds.read:.3f} s, links {seconds.link:.3f} s, model {seconds.search:.3f} s, "
                f"writing {seconds.write:.3f} s",
                highlight=False,
            )
        has_list = answer.verdict is Verdict.UNSURE and len(answer.alternatives) > 1 and not self._options.explain
        if (sentence := remark(answer, self._parser.sure_above, list_follows=has_list)) is not None:
            self.note(f"{answer.verdict.value.replace('_', ' ')}: {sentence}")
        if has_list:
            self._notes.print(alternatives_table(answer, self._parser.sure_above))
        if answer.sql is not None:
            self._show_sql(answer.sql)

    def _show_sql(self, sql: str) -> None:
        if self._out.is_terminal:
            self._out.print(sql_view(sql))
        else:  # files and programs get the query without colours
            sys.stdout.write(sql + "\n")

    def _save(self, rows: Rows, file: Path) -> None:
        try:
            write_atomically(file, lambda temporary: temporary.write_text(rows_csv(rows), "utf-8", newline=""))
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}; name another file") from error
        more = "; there are more: raise --rows" if rows.truncated else ""
        self.note(f"{file}: {len(rows.rows):,} row{'' if len(rows.rows) == 1 else 's'}{more}")

    def _rows(self, sql: str) -> Rows:
        return run_query(self._database.location, sql, deadline=self._options.deadline, max_rows=self._options.rows)

    def note(self, sentence: str) -> None:
        self._notes.print(escape(printable(sentence)), highlight=False, style="yellow")

    def converse(self) -> ExitCode:
        r"""Answer questions until `quit` or the end of the input; an error or Ctrl-C ends a question, not the prompt.

        A script learns from the code whether there was an error; a person has seen it.
        """
        with suppress(ImportError):
            import readline  # noqa: F401, input() then has history and editing
        is_person = sys.stdin.isatty()
        has_failed = False
        if is_person:
            self.note(f"{self._database.shown}: {_HELP}")
        while True:
            line: str | None = None
            try:
                line = input(_PROMPT if is_person else "").strip()
                if line.lower() in _END_WORDS:
                    break
                if line:
                    has_failed |= self._obey(line, is_person=is_person) is ExitCode.ERROR
            except EOFError:
                break
            except KeyboardInterrupt:
                self._notes.print()
            except DtFixupError as error:
                has_failed = True
                show_error(error, line, is_json=self._options.json)
        return ExitCode.ERROR if has_failed and not is_person else ExitCode.ANSWERED

    def _show_question(self, question: str) -> None:
        """Print the question as an SQL comment, so that a script knows what the lines below it answer."""
        sys.stdout.write(f"-- {printable(question)}\n")
        sys.stdout.flush()

    def _obey(self, line: str, *, is_person: bool) -> ExitCode:
        if line == r"\r":
            self._out.print(rows_table(self._rows(self._require_last())))
        elif line[:1] == "\\" and line[1:].isdecimal():
            self._choose(int(line[1:]))
        elif line.split(maxsplit=1)[0] == r"\s":
            self._save_last(line[2:].strip())
        elif line.lower() in _HELP_WORDS or line.startswith("\\"):
            self.note(_HELP)
        else:
            if not is_person and not self._options.json:
                self._show_question(line)
            return self.answer(line)
        return ExitCode.ANSWERED

    def _save_last(self, file: str) -> None:
        if not file:
            raise ConfigError(r"\s saves the rows of the last query: name a file, as in \s rows.csv")
        require_new(Path(file))
        self._save(self._rows(self._require_last()), Path(file))

    def _require_last(self) -> str:
        if self._last is None:
            raise ConfigError("there is no query to run yet: ask something first")
        return self._last

    def _choose(self, number: int) -> None:
        """Choose another query of the last answer."""
        queries = () if self._answer is None or self._answer.sql is None else self._answer.alternatives
        if not queries:
            raise ConfigError("there is no query to choose yet: ask something first")
        if not 1 <= number <= len(queries):
            raise ConfigError(rf"the last question has {len(queries)} queries: choose from \1 to \{len(queries)}")
        self._last = queries[number - 1].sql
        self._show_sql(self._last)
        if self._options.run:
            self._out.print(rows_table(self._rows(self._last)))
