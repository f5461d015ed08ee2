"""How long `Reader.answer` takes for one question with four options, and what it would take without its short cuts.

`python benchmarks/reading_answer.py [--model DIR] [--questions N] [--json FILE]`. Without a model, one of the `minilm`
preset with fresh weights, which takes as long as a trained one. The questions are made up here, as long as
ReClor's. Each is answered in four ways in turn, so that other load on the machine affects all alike:

- `whole`: the last layer for every token, lengths padded to a multiple of 8;
- `whole, unpadded`: the same without that padding;
- `answer, fp32`: the last layer for the first token alone;
- `answer`: the same as it is used, in bf16 if the CPU has instructions for it.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch
from measure import Benchmark, percentiles

from dtfixup import dt_fixup_, initialise_free_
from dtfixup.encoders import load_encoder
from dtfixup.reading.answers import Reader
from dtfixup.reading.examples import ReadingExample
from dtfixup.reading.model import ReadingModel
from dtfixup.reading.presets import minilm
from dtfixup.reading.tokens import ReadingCorpus, tokenise

WHO = ("The council", "Our neighbour", "A group of engineers", "The museum", "Every farmer in the valley")
DOES = ("claims that", "has reason to doubt that", "reported last year that", "cannot explain why", "assumes that")
WHAT = (
    "fewer people cross the old bridge now that the ferry runs twice as often",
    "most visitors who read the guide beforehand stay longer than those who do not",
    "the price of timber rose although more of it was cut than in any year before",
    "children who learn an instrument do better in tests that have nothing to do with music",
    "the new lamps use less power, and yet the bill for the street has not become smaller",
)
THEN = ("Therefore", "However", "It follows that", "For the same reason", "On the other hand")
QUESTION = "Which one of the following, if true, most seriously weakens the argument?"


def questions(count: int) -> list[ReadingExample]:
    """Passages of many lengths with a question and four options, as tests of reasoning have them."""
    stream = random.Random(0)

    def sentence() -> str:
        return f"{stream.choice(WHO)} {stream.choice(DOES)} {stream.choice(WHAT)}."

    made = []
    for number in range(count):
        passage = sentence()
        while len(passage.split()) < stream.randint(45, 115):
            passage += f" {stream.choice(THEN)}, {sentence()[0].lower()}{sentence()[1:]}"
        options = stream.sample(WHAT, 4)
        made.append(ReadingExample(passage, QUESTION, tuple(options), None, str(number)))
    return made


def fresh_model() -> ReadingModel:
    torch.manual_seed(0)
    model = ReadingModel(minilm().model, load_encoder())
    assert model.stack is not None
    initialise_free_(model, stack=model.stack, loaded=[model.encoder])
    dt_fixup_(model.stack, 12.0)
    return model.eval()


@torch.no_grad()
def whole(model: ReadingModel, example: ReadingExample, *, padded: bool) -> list[float]:
    """The probabilities with the stack's outputs for all tokens, of which one is used."""
    tokens = tokenise([example], model.encoder.tokenizer, max_tokens=model.config.max_tokens)
    shape = tokens.padded_shape_of([0]) if padded else tokens.shape_of([0])
    batch = ReadingCorpus(tokens).assemble(torch.tensor([0]), shape)
    sequences = (batch.token_BOT, batch.token_keep_BOT, batch.second_BOT)
    state_XTD = model.read(*(each.flatten(0, 1) for each in sequences))
    return model.score(state_XTD[:, 0])[:, 0].double().softmax(0).tolist()


def furthest(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    """The largest difference of two probabilities of the same option."""
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.option("--model", type=Path)
    benchmark.option("--questions", type=int, default=60)
    options = benchmark.start()
    reader = Reader(fresh_model()) if options.model is None else Reader.load(options.model)
    model, exact = reader.model, Reader(reader.model, "fp32")
    ways: dict[str, Callable[[ReadingExample], object]] = {
        "whole": lambda example: whole(model, example, padded=True),
        "whole, unpadded": lambda example: whole(model, example, padded=False),
        "answer, fp32": lambda example: exact.answer(example.context, example.question, example.answers),
        "answer": lambda example: reader.answer(example.context, example.question, example.answers),
    }
    asked = questions(options.questions)
    warm_up = asked[:3]
    before = [whole(model, example, padded=True) for example in warm_up]
    differences = [furthest(before, each.answer_all(warm_up)) for each in (exact, reader)]
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for example in asked:
        for name, answer in ways.items():
            started = time.perf_counter()
            answer(example)
            seconds[name].append(time.perf_counter() - started)
    tokens = tokenise(asked, model.encoder.tokenizer, max_tokens=model.config.max_tokens)
    print(
        f"{len(asked)} questions, {tokens.length_N.mean():.0f} tokens an option, {model.config.layers} new layers, "
        f"{torch.get_num_threads()} threads, used in {reader.precision}"
    )
    print(f"  probabilities differ from the whole's by {differences[0]:.1g} in fp32, as used by {differences[1]:.1g}")
    metrics: dict[str, float] = {}
    for name, taken in seconds.items():
        key = name.replace(", ", "_")
        times = percentiles(taken, key + "_p{}_ms")
        ratio = median(one / before for one, before in zip(taken, seconds["whole"], strict=True))
        metrics |= {metric: round(value, 1) for metric, value in times.items()} | {f"{key}_ratio": round(ratio, 3)}
        p50, p95 = times.values()
        print(f"  {name:18} p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  {ratio:.2f} x whole")
    benchmark.finish(
        "reading-answer",
        metrics,
        data_hash="questions made up by the benchmark",
        dtype=reader.precision.value,
        config={"layers": model.config.layers, "questions": len(asked), "threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main()
