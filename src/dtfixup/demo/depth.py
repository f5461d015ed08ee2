"""`dtfixup check`: update size and gradient norm against depth, on MiniLM's states of real sentences.

The stacks are vanilla and relation-aware; the relations are word distances, clipped at two. Their biases start at zero,
so they affect only the measurements of biases.
Legend: B batch, W words, D width.
"""

import hashlib
from importlib.resources import files

import torch
from torch import Tensor, nn

from dtfixup.encoders import load_encoder
from dtfixup.fixup import DepthReport, depth_check, initialise_free_
from dtfixup.transformer import StackConfig, TransformerStack

_CLIP = 2
_RELATIONS = 2 * _CLIP + 1


def bundled_sentences() -> list[list[str]]:
    """Thirty-two plain English sentences, as lists of words."""
    text = files("dtfixup.demo").joinpath("sentences.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines()]


def sentences_hash() -> str:
    """A hash of the sentences, for result files."""
    return hashlib.sha256(repr(bundled_sentences()).encode()).hexdigest()[:16]


class SentenceModel(nn.Module):
    """A projection and new layers on top of encoded words."""

    def __init__(self, encoder_dim: int, config: StackConfig, strategy: str) -> None:
        super().__init__()
        self.project = nn.Linear(encoder_dim, config.dim)
        self.new_layers = TransformerStack(config, strategy)
        initialise_free_(self, stack=self.new_layers, loaded=[])

    def forward(self, states_BWE: Tensor, keep_BW: Tensor, distance_BWW: Tensor) -> Tensor:
        relation_BWW = distance_BWW if self.new_layers.config.relations else None
        return self.new_layers(self.project(states_BWE), keep_BW, relation_BWW)


def check_bundled(depths: tuple[int, ...], strategies: tuple[str, ...], *, encoder: str = "minilm") -> DepthReport:
    """The depth check of both kinds of stack on the bundled sentences."""
    batches, encoder_dim = _encode(encoder)
    report = DepthReport(())
    for relations in (0, _RELATIONS):

        def build(depth: int, strategy: str, relations: int = relations) -> nn.Module:
            config = StackConfig(depth, 128, 8, 512, relations=relations, bias=True)
            return SentenceModel(encoder_dim, config, strategy)

        report += depth_check(build, batches, depths, strategies=strategies)
    return report


def _encode(name: str) -> tuple[list[tuple[Tensor, Tensor, Tensor]], int]:
    encoder = load_encoder(name)
    with torch.no_grad():
        states_BWE, keep_BW = encoder.word_states(encoder.tokenize_words(bundled_sentences()))
    place_W = torch.arange(states_BWE.shape[1])
    distance_WW = (place_W[None, :] - place_W[:, None]).clamp(-_CLIP, _CLIP) + _CLIP
    distance_BWW = distance_WW.expand(len(states_BWE), -1, -1)
    return [(states_BWE, keep_BW, distance_BWW)], encoder.dim
