"""Many visitors at once: errors, latency and memory of a server process under load.

`python benchmarks/serve_load.py [--model PATH] [--seconds N] [--clients N] [--workers N] [--json FILE]` starts
`dtfixup serve` on a free port. Each client asks bundled questions over all sample databases, one request at a time, and
runs the query of every fourth answer. Without `--model`, the shipped model answers. Memory is the server's resident
set at the end of each minute, without the processes that run its queries; the first minute, in which databases are
opened, is left out of the change. A request that is refused because the queue is full counts as an error.
"""

import itertools
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import Benchmark, percentiles, show

from dtfixup.sql.database.dataset import open_dataset
from dtfixup.sql.database.sample import sample_folder

RUN_EVERY = 4
_TIMEOUT = 120.0


@dataclass
class Tally:
    """What all clients saw, in seconds and messages."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"ask": [], "run": []})
    errors: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, seconds: float, error: str | None) -> None:
        with self.lock:
            self.seconds[kind].append(seconds)
            if error is not None:
                self.errors[f"{kind}: {error}"] += 1


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path)
    benchmark.option("--seconds", type=float, default=300.0)
    benchmark.option("--clients", type=int, default=8)
    benchmark.option("--workers", type=int, default=2)
    options = benchmark.start()
    server, url = start(options.model, options.workers)
    try:
        tally, memory = load(server.pid, url, options.clients, options.seconds)
        metrics = {"clients": options.clients, "seconds": options.seconds, **metrics_of(tally, memory)}
    finally:
        server.terminate()
        server.wait(timeout=60)
    show(metrics)
    for message, count in tally.errors.most_common(10):
        print(f"  {count} × {message}")
    benchmark.finish("serve-load", metrics, memory_mib=memory, errors=dict(tally.errors))
    sys.exit(1 if tally.errors else 0)


def start(model: Path | None, workers: int) -> tuple["subprocess.Popen[str]", str]:
    """The server process and its address."""
    command = [sys.executable, "-m", "dtfixup", "serve", "--port", "0"]
    command += [] if model is None else ["--model", str(model.absolute())]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.match(r"open (http://\S+)", line):
            return process, match[1]
    sys.exit("the server did not start")


def load(pid: int, url: str, clients: int, seconds: float) -> tuple[Tally, list[float]]:
    """Run the clients; the memory is in MiB, minute by minute."""
    tally, end = Tally(), time.monotonic() + seconds
    dataset = open_dataset(sample_folder())
    questions = [*dataset.split("dev"), *dataset.split("train")]
    threads = []
    for client in range(clients):
        own = questions[client::clients]
        threads.append(threading.Thread(target=visit, args=(url, own, tally, end, client)))
        threads[-1].start()
    memory = [resident(pid)]
    while time.monotonic() < end:
        time.sleep(max(0.0, min(60.0, end - time.monotonic())))
        memory.append(resident(pid))
    for thread in threads:
        thread.join()
    return tally, [round(each, 1) for each in memory]


def visit(url: str, questions: list[Any], tally: Tally, end: float, client: int) -> None:
    """One client: questions in turn, one request under way at any time."""
    for number, example in zip(itertools.count(client), itertools.cycle(questions), strict=False):
        if time.monotonic() >= end:
            return
        body = {"database": example.database, "question": example.question}
        answer = post(f"{url}api/v1/ask", body, "ask", tally)
        if number % RUN_EVERY == 0 and answer.get("sql"):
            post(f"{url}api/v1/run", {"database": example.database, "sql": answer["sql"]}, "run", tally)


def post(url: str, body: dict[str, Any], kind: str, tally: Tally) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    begin, error = time.perf_counter(), None
    answer: dict[str, Any] = {}
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as refused:
        error = f"{refused.code} {refused.read().decode()[:200]}"
    except OSError as failed:
        error = str(failed)
    tally.note(kind, time.perf_counter() - begin, error)
    return answer


def resident(pid: int) -> float:
    """MiB that the server holds, without the processes of single queries, which come and go."""
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(match[1]) / 1024 if match else 0.0


def metrics_of(tally: Tally, memory: list[float]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for kind, seconds in tally.seconds.items():
        metrics[f"{kind}_requests"] = len(seconds)
        times = percentiles(seconds, kind + "_p{}_ms") if seconds else {}
        metrics |= {name: round(value, 1) for name, value in times.items()}
    metrics["errors"] = sum(tally.errors.values())
    later = memory[2:] if len(memory) > 2 else memory[1:]  # from the end of the first minute on
    base = memory[1] if len(memory) > 1 else memory[0]
    metrics["memory_after_first_minute_mib"] = base
    metrics["memory_change_percent"] = round(max((100 * (each / base - 1) for each in later), key=abs, default=0.0), 2)
    return metrics


if __name__ == "__main__":
    main()
