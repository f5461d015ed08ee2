"""Reads the pictures of the page back."""

from xml.etree import ElementTree


def parsed(fragment: str) -> ElementTree.Element:
    """The fragment as XML: a tag or a text that is not closed or escape fails here."""
    return ElementTree.fromstring(f"<body>{fragment}</body>")


def texts(fragment: str) -> list[str]:
    return [text for text in parsed(fragment).itertext() if text.strip()]
