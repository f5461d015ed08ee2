"""What holds for every test, and the browser that some look at pages with."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The matrices here are tiny: on a busy machine several threads spend their time waiting for each other.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and in the processes that tests start

LONG = (
    "tests/transformer/test_relation_kernels.py",
    "tests/web/page/test_browser.py",
    "paper/tests/runs/test_cluster.py",
    "paper/tests/test_cli_reproduce.py",
    "tests/test_examples.py",
    "tests/sql/execution/test_hostile.py",
    "tests/sql/finetune/test_run.py",
    "tests/sql/ask/test_acceptance.py",
    "tests/sql/model/test_task.py",
    "tests/sql/model/test_train.py",
    "tests/training/test_ranks.py",
    "tests/web/test_server.py",
)
"""Files of half a minute and more: they come first, so that no worker begins one when the others are at the end."""

# A test file that cannot be imported must be an error, so what needs Triton is left out by name.
KERNELS = ("transformer/relation_kernels.py", "transformer/stream_limit_kernels.py", "sql/model/recurrence.py")
collect_ignore = [] if find_spec("triton") else [f"src/dtfixup/{name}" for name in KERNELS]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


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


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The development data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("DTFIXUP_DATA", Path(__file__).parents[1] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"development data is not at {folder}; set DTFIXUP_DATA")
    return folder


@pytest.fixture(scope="session")
def spider_folder(data_folder: Path) -> Path:
    """The Spider download."""
    folder = data_folder / "spider"
    if not folder.is_dir():
        pytest.skip(f"Spider is not at {folder}")
    return folder
