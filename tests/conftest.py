"""What holds for every test, and the browser that some look at pages with."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The matrices here are tiny: on a busy machine several threads spend their time waiting for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Debian's Chromium; where it is not installed a reason to skip, or in CI a failure."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("DTFIXUP_CHROMIUM") or shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI=true needs a browser: apt-get install chromium")
        pytest.skip("chromium is not installed: apt-get install chromium, or set DTFIXUP_CHROMIUM")
    with sync_playwright() as playwright:
        # Chromium's sandbox does not run as root, which is what a container's only user often is.
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
