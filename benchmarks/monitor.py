"""What `watch` costs: a training step with it over one without, in one run on this machine."""

import copy
import statistics
import time

import torch

from dtfixup import dt_fixup_, watch
from dtfixup.transformer import StackConfig, TransformerStack


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    watched = TransformerStack(StackConfig(layers=24, dim=256))
    report = dt_fixup_(watched, 16.0)
    plain = copy.deepcopy(watched)
    monitor = watch(watched, report, every=10)
    x_BLD = torch.randn(8, 32, 256)
    times: dict[TransformerStack, list[float]] = {watched: [], plain: []}
    for stack in (watched, plain) * steps:
        stack.zero_grad()
        start = time.perf_counter()
        stack(x_BLD).sum().backward()
        if stack is watched:
            monitor.step()
        times[stack].append(time.perf_counter() - start)
    with_it, without = (statistics.median(times[stack]) for stack in (watched, plain))
    print(f"step {1000 * without:.1f} ms, watched {1000 * with_it:.1f} ms: {with_it / without:.3f} x")


if __name__ == "__main__":
    main()
