"""Every error a user can meet. Each message says what was wrong and what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager


class DtFixupError(Exception):
    """Base of all errors raised on purpose by this package."""


class MissingExtraError(DtFixupError, ImportError):
    """A package of an optional extra is not installed."""


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Import packages of an optional extra; if one is missing, the error names the command that installs it.

    >>> with needs_extra("plot", "pictures"):
    ...     import no_such_package
    Traceback (most recent call last):
    dtfixup.errors.MissingExtraError: no_such_package is needed for pictures: pip install 'dtfixup[plot]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "dtfixup"):
            raise
        message = f"{package} is needed for {purpose}: pip install 'dtfixup[{extra}]'"
        raise MissingExtraError(message, name=error.name) from error


class InputNormError(DtFixupError, ValueError):
    """The input norm cannot be measured or used: no data, a bad mask, a value that is not finite."""


class UnsupportedLayerError(DtFixupError, TypeError):
    """A module does not say which of its weights are value, output and MLP weights."""


class AlreadyAppliedError(DtFixupError, RuntimeError):
    """The stack is already initialised; initialising it again would discard its weights."""


class LoadedWeightsError(DtFixupError, RuntimeError):
    """The stack holds loaded or trained weights, and initialising it would overwrite them."""


class StrategyError(DtFixupError, ValueError):
    """A strategy does not exist or does not fit the stack."""


class RelationError(DtFixupError, ValueError):
    """Relation ids are missing, out of range or of the wrong shape."""


class ConfigError(DtFixupError, ValueError):
    """A configuration value cannot work."""


class DepthCheckError(DtFixupError, ValueError):
    """A depth check cannot run on this input."""


class EncoderError(DtFixupError, RuntimeError):
    """A pre-trained encoder cannot be found, is damaged, or has no safe weights."""


class DataError(DtFixupError, ValueError):
    """A data file is missing, malformed or inconsistent with the others."""


class SchemaError(DtFixupError, ValueError):
    """A database's schema cannot be read or used."""


class SqlError(DtFixupError, ValueError):
    """A query cannot be read, or is not in the grammar."""


class GuardError(DtFixupError, RuntimeError):
    """A query was refused or stopped before it could do harm, or failed in the database."""


class DeadlineError(GuardError):
    """A statement took longer than its deadline."""


class TooMuchDataError(GuardError):
    """A statement made more data than its limits allow."""


class RefusedError(GuardError):
    """A statement is not a single plain query, or it does something that is not allowed."""


class WorkerStartError(DtFixupError, RuntimeError):
    """Worker processes cannot be started."""


class TrainingError(DtFixupError, RuntimeError):
    """A training run cannot start or continue."""


class DivergedError(TrainingError):
    """Training diverged: the loss or the gradient was repeatedly infinite, NaN or far too large."""


class CheckpointError(DtFixupError, RuntimeError):
    """A checkpoint or weights file is missing or damaged, cannot be written, or belongs to something else."""


class ServeError(DtFixupError, RuntimeError):
    """The server cannot start with these settings, or cannot serve a request."""


class UnknownDatabaseError(ServeError):
    """A request names an unknown database."""


class UploadError(ServeError):
    """An uploaded file is too large, or is not a readable database."""


class BusyError(ServeError):
    """The request queue is full."""


class ClosingError(ServeError):
    """The server is shutting down and accepts no new requests."""


class LateError(ServeError):
    """A request was not answered within its deadline."""
