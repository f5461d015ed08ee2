"""Packages whose transformer layers are described only when one is met. Imports no torch.

The method lies below the packages that describe layers of others, so it asks here and imports none of them.
"""

from collections.abc import Callable, Iterable

_registrations: dict[str, Callable[[], object]] = {}


def register_lazily(package: str, register: Callable[[], object]) -> None:
    """Run `register` when a layer of `package` is first met, to avoid importing the package needlessly."""
    _registrations[package] = register


def register_layers_of(packages: Iterable[str]) -> None:
    """Run what was registered for these packages, once."""
    for package in set(packages) & set(_registrations):
        _registrations.pop(package)()
