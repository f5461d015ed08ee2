"""What tasks on a pre-trained encoder share: initialisation, mu, learning rates. The reading model is the example."""

import pytest
import torch

from dtfixup.fixup import measure_input_norm
from dtfixup.training.config import changed
from dtfixup.training.update import Updater
from tests.reading.tiny_reading import TINY, made_data, task_of


def test_without_new_layers_the_linear_layer_is_initialised_and_the_encoder_left_alone() -> None:
    task = task_of(changed(TINY, {"model": {"layers": 0}}))
    before = {name: tensor.clone() for name, tensor in task.model.state_dict().items()}
    assert task.initialise(torch.Generator().manual_seed(5)) is None
    changed_names = [name for name, tensor in task.model.state_dict().items() if not torch.equal(tensor, before[name])]
    assert changed_names == ["score.weight", "score.bias"]
    assert not list(task.stack.children())


def test_mu_is_over_the_training_examples_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfixup.training.encoder_task._MU_BATCH", 5)
    data = made_data(13, 40, options=(2, 4))  # 13 examples do not fill the batches
    task = task_of(data=data)
    report = task.initialise(torch.Generator().manual_seed(0))
    assert report is not None
    alone = task.corpus
    norms = measure_input_norm(
        task.model,
        task.stack,
        [torch.tensor([number]) for number in range(13)],
        forward=lambda model, number: task.model.scores(alone.assemble(number, alone.tokens.shape_of(number.numpy()))),
        progress=False,
    )
    assert report.input_norm == pytest.approx(norms.max, rel=1e-5)
    seen: list[int] = []
    task = task_of(data=data)
    task.stack.register_forward_pre_hook(lambda module, args: seen.append(int(args[1].sum())))
    task.initialise(torch.Generator().manual_seed(0))
    trained = task.corpus.tokens.option_start_N[13]
    assert sum(seen) == task.corpus.tokens.token_start_R[trained], "every token of a training example once"


def test_the_encoder_has_its_own_rate_or_none() -> None:
    config = changed(TINY, {"encoder_factor": 0.1})
    updater = Updater(task_of(config).parameter_groups(), config.training.update)
    updater.set_rate(0.5)
    assert [float(rate) for rate in updater.rates] == pytest.approx([1.5e-4, 1.5e-3])
    frozen = task_of(changed(TINY, {"encoder_factor": 0.0}))
    assert all(name.startswith("encoder.") for name in frozen.left_out)
    assert len(frozen.left_out) == len(list(frozen.model.encoder.parameters()))
    assert [group.name for group in frozen.parameter_groups() if group.parameters] == ["new"]
