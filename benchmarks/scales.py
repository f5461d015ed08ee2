"""The kinship task over scales of the input, depths, rates and seeds, many runs at once: where does training break?

    python benchmarks/scales.py [--encoder minilm] [--scales 0.2 1 5] [--depths 24] [--rates 0.001 0.003]
                                [--rules plain limit gain centred] [--seeds 0 1] [--steps 1100] [--out FILE.json]

The encoder's states are multiplied by a scale before the trained projection. Runs of one depth train together, as one
model whose weights have an axis more (`torch.func.vmap` over the library's own layers): on a GPU 48 runs take about as
long as one. A rule is what is done to the stack's input, after the projection; DT-Fixup measures μ behind it:

- plain: nothing; limit: vectors between layers are kept below 2 μ;
- gain: times one constant that makes their typical norm √width; centred: their mean is taken off before.

Legend: B batch, L length, D width, R runs, S sentences, I items.
"""

import math
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import torch
from measure import Benchmark, best_device
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional as F

from dtfixup.demo.model import KinshipModel, Stories
from dtfixup.demo.training import DemoConfig, DemoData, prepare_stories, stories_hash
from dtfixup.fixup import dt_fixup_, initialise_free_
from dtfixup.training.schedule import anneal
from dtfixup.training.seeds import stream, stream_seed

RULES = ("plain", "limit", "gain", "centred")
AT_ONCE = 48
_NO_LIMIT = 3e38


@dataclass(frozen=True)
class Point:
    """One run: what is done to the input, at which scale, depth, rate and seed."""

    rule: str
    scale: float
    layers: int
    rate: float
    seed: int


class ScaledKinship(nn.Module):
    """The kinship model, with scale, gain, mean and limit as buffers, so that runs can differ in them."""

    def __init__(self, model: KinshipModel) -> None:
        super().__init__()
        self.project, self.layers, self.head = model.project, model.new_layers.layers, model.head
        for name, value in (("scale", 1.0), ("gain", 1.0), ("longest", _NO_LIMIT)):
            self.register_buffer(name, torch.tensor(value))
        self.register_buffer("mean_D", torch.zeros(model.new_layers.config.dim))

    def inputs(self, states_BLD: Tensor) -> Tensor:
        """What enters the stack."""
        return self.gain * (self.project(self.scale * states_BLD) - self.mean_D)

    def forward(self, states_BLD: Tensor, keep_BL: Tensor, relation_BLL: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the answers, and the longest output over the longest input."""
        x_BLD = first_BLD = self._limited(self.inputs(states_BLD))
        for layer in self.layers:
            x_BLD = self._limited(layer(x_BLD, keep_BL, relation_BLL, checked=True))
        growth = x_BLD.detach().norm(dim=-1).amax() / first_BLD.detach().norm(dim=-1).amax()
        return self.head(x_BLD[:, 1]), growth

    def _limited(self, x_BLD: Tensor) -> Tensor:
        return x_BLD * (self.longest / torch.maximum(x_BLD.norm(dim=-1, keepdim=True), self.longest))


def build(point: Point, config: DemoConfig, data: DemoData) -> tuple[ScaledKinship, float]:
    """A model at its start, and μ."""
    torch.manual_seed(stream_seed(point.seed, "init"))
    model = KinshipModel(data.table, config.stack(), "dt-fixup")
    initialise_free_(model, stack=model.new_layers, loaded=[])
    net = ScaledKinship(model)
    with torch.no_grad():
        net.scale.fill_(point.scale)
        states_TD = data.table[data.train.sentence_BS].flatten(1, 2)[data.train.keep_BL]
        if point.rule == "centred":
            net.mean_D.copy_(torch.cat([net.inputs(part) for part in states_TD.split(50_000)]).mean(0))
        norms_T = torch.cat([net.inputs(part).norm(dim=-1) for part in states_TD.split(50_000)])
        if point.rule in ("gain", "centred"):
            net.gain.fill_(math.sqrt(config.dim) / norms_T.square().mean().sqrt())
        mu = float(net.gain * norms_T.max())
        dt_fixup_(model.new_layers, mu)
        if point.rule == "limit":
            net.longest.fill_(2 * mu)
    return net, mu


class Ensemble:
    """Runs of one depth in training, by Adam, each with its own clipping and order of examples."""

    def __init__(self, points: list[Point], config: DemoConfig, data: DemoData, device: torch.device) -> None:
        self.points, self.config, self.data, self.device = points, config, data, device
        nets, self.mu = zip(*(build(point, config, data) for point in points), strict=True)
        weights, buffers = stack_module_state(list(nets))
        self.weights = {name: weight.detach().to(device) for name, weight in weights.items()}
        self.buffers = {name: buffer.to(device) for name, buffer in buffers.items()}
        self.model = deepcopy(nets[0]).to(device)
        self.first = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        self.second = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        self.table = data.table.to(device)
        self.rate_R = torch.tensor([point.rate for point in points], device=device)
        self.growth_R = torch.zeros(len(points), device=device)
        self.train = [tensor.to(device) for tensor in self._parts(data.train)]
        self._gradients = vmap(grad_and_value(self._loss, has_aux=True))

    def _parts(self, stories: Stories) -> list[Tensor]:
        return [stories.sentence_BS, stories.keep_BL, stories.relation_BLL, stories.answer_B]

    def _loss(self, weights: Any, buffers: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        scores, growth = functional_call(self.model, (weights, buffers), inputs[:3])
        return F.cross_entropy(scores, inputs[3]), growth

    def train_all(self) -> None:
        """The whole schedule; on a GPU each step is the replay of one CUDA graph."""
        order_TRB = self._order()
        self.rows_RB, factors = order_TRB[0].clone(), torch.zeros(3, device=self.device)
        step = self._captured(factors) if self.device.type == "cuda" else lambda: self._step(factors)
        for number in track(range(self.config.steps), f"{len(self.points)} runs, N = {self.config.layers}"):
            self.rows_RB.copy_(order_TRB[number])
            rate = anneal(number, self.config.steps, warmup=0)
            factors.copy_(torch.tensor([rate, 1 - 0.9 ** (number + 1), 1 - 0.999 ** (number + 1)]))
            step()

    def _order(self) -> Tensor:
        """[steps, R, B]: the rows of each run's batches."""
        size, orders = self.config.batch_size, []
        for point in self.points:
            generator = stream(point.seed, "data")
            passes = self.config.steps * size // len(self.data.train) + 1
            rows = torch.cat([torch.randperm(len(self.data.train), generator=generator) for _ in range(passes)])
            orders.append(rows[: self.config.steps * size].view(self.config.steps, size))
        return torch.stack(orders, 1).to(self.device)

    def _step(self, factors: Tensor) -> None:
        sentence, keep, relation, answer = (part[self.rows_RB] for part in self.train)
        states_RBLD = self.table[sentence].flatten(2, 3)
        gradients, (_, growth_R) = self._gradients(self.weights, self.buffers, states_RBLD, keep, relation, answer)
        norm_R = sum(gradient.flatten(1).square().sum(1) for gradient in gradients.values()).sqrt()
        clip_R = (self.config.clip / (norm_R + 1e-6)).clamp(max=1.0).nan_to_num(0.0)
        self.growth_R.copy_(torch.maximum(self.growth_R, growth_R.nan_to_num(math.inf)))
        for name, weight in self.weights.items():
            shape = (-1, *[1] * (weight.ndim - 1))
            gradient = gradients[name].nan_to_num(0.0, 0.0, 0.0) * clip_R.view(shape)
            self.first[name].lerp_(gradient, 0.1)
            self.second[name].mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            update = (self.first[name] / factors[1]) / ((self.second[name] / factors[2]).sqrt() + 1e-8)
            weight.sub_(factors[0] * self.rate_R.view(shape) * update)

    def _captured(self, factors: Tensor) -> Any:
        held = [*self.weights.values(), *self.first.values(), *self.second.values(), self.growth_R]
        saved = [tensor.clone() for tensor in held]
        factors.fill_(1.0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step(factors)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(factors)
        for tensor, value in zip(held, saved, strict=True):
            tensor.copy_(value)
        return graph.replay

    @torch.no_grad()
    def accuracy(self) -> list[float]:
        """Share of right answers on the validation stories, 0-100, of each run."""
        forward = vmap(
            lambda weights, buffers, *inputs: functional_call(self.model, (weights, buffers), inputs)[0],
            in_dims=(0, 0, None, None, None),
        )
        right_R = torch.zeros(len(self.points), device=self.device)
        for part in torch.arange(len(self.data.validation)).split(250):
            sentence, keep, relation, answer = (x[part].to(self.device) for x in self._parts(self.data.validation))
            states = self.table[sentence].flatten(1, 2)
            scores_RBA = forward(self.weights, self.buffers, states, keep, relation)
            right_R += (scores_RBA.argmax(-1) == answer).sum(1)
        return (100 * right_R / len(self.data.validation)).tolist()


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--encoder", default="minilm")
    benchmark.option("--rules", nargs="+", choices=RULES, default=list(RULES))
    benchmark.option("--scales", type=float, nargs="+", default=[0.2, 1.0, 5.0])
    benchmark.option("--depths", type=int, nargs="+", default=[DemoConfig.layers])
    benchmark.option("--rates", type=float, nargs="+", default=[1e-3, 3e-3])
    benchmark.option("--seeds", type=int, nargs="+", default=[0, 1])
    benchmark.option("--steps", type=int, default=DemoConfig.steps)
    options = benchmark.start()
    config = replace(DemoConfig(), steps=options.steps)
    data, rows = prepare_stories(config, options.encoder), []
    for depth in options.depths:
        grid = product(options.rules, options.scales, [depth], options.rates, options.seeds)
        points = [Point(*values) for values in grid]
        for start in range(0, len(points), AT_ONCE):
            ensemble = Ensemble(points[start : start + AT_ONCE], replace(config, layers=depth), data, best_device())
            ensemble.train_all()
            measured = zip(ensemble.points, ensemble.mu, ensemble.accuracy(), ensemble.growth_R.tolist(), strict=True)
            rows += [{**asdict(point), "mu": mu, "accuracy": acc, "growth": up} for point, mu, acc, up in measured]
    table = Table("rule", "scale", "N", "rate", "seed", "μ", "accuracy, %", "growth")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:.4g}" for value in row.values()))
    Console().print(table)
    mean = sum(row["accuracy"] for row in rows) / len(rows)
    benchmark.finish(
        "scales",
        {"accuracy": mean},
        encoder=options.encoder,
        data_hash=stories_hash(data),
        config=asdict(config),
        rows=rows,
    )


if __name__ == "__main__":
    main()
