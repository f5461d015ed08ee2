"""DT-Fixup on your own model: 12 new `nn.TransformerEncoder` layers on a Hugging Face encoder, and a toy task."""

import torch
from torch import Tensor, nn

from dtfixup import dt_fixup_, initialise_free_, measure_input_norm, watch
from dtfixup.encoders import Encoder, load_encoder

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Classifier(nn.Module):
    def __init__(self, encoder: Encoder, layers: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        layer = nn.TransformerEncoderLayer(encoder.dim, nhead=8, dim_feedforward=768, dropout=0.0, batch_first=True)
        self.new_layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(encoder.dim, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.encoder(input_ids, attention_mask)
        return self.head(self.new_layers(states, src_key_padding_mask=attention_mask == 0)[:, 0])


def main(layers: int = 12, steps: int = 60) -> tuple[float, float]:
    torch.manual_seed(0)
    encoder = load_encoder("minilm")  # or any Hugging Face name or folder
    texts = [f"There are {a} apples and {b} pears." for a in NUMBERS for b in NUMBERS]
    tokens = encoder.tokenizer(texts, padding=True, return_tensors="pt")
    labels = torch.tensor([int(a > b) for a in range(10) for b in range(10)])
    batches = [{name: tokens[name][i : i + 25] for name in ("input_ids", "attention_mask")} for i in (0, 25, 50, 75)]

    model = Classifier(encoder, layers, classes=2)
    initialise_free_(model, stack=model.new_layers, loaded=[encoder])  # here: the head
    mu = measure_input_norm(model, model.new_layers, batches)  # one pass over the training data
    report = dt_fixup_(model.new_layers, mu)  # in place: Xavier, no layer norms, scaled
    print(mu, report, sep="\n")

    new = [*model.new_layers.parameters(), *model.head.parameters()]
    groups = [{"params": encoder.parameters(), "lr": 2e-5}, {"params": new, "lr": 5e-4}]
    optimizer = torch.optim.Adam(groups)  # no warm-up
    losses: list[float] = []
    with watch(model.new_layers, report) as monitor:
        for _ in range(steps):
            rows = torch.randperm(len(texts))[:25]
            scores = model(tokens["input_ids"][rows], tokens["attention_mask"][rows])
            loss = nn.functional.cross_entropy(scores, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            monitor.step()
            optimizer.step()
            losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; alerts: {list(map(str, monitor.alerts)) or 'none'}")
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
