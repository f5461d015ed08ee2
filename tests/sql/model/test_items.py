"""Schema items: the fast reader against PyTorch's own bidirectional LSTM over one item at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from dtfixup.errors import ConfigError
from dtfixup.sql.model.items import ItemReader


def make_reader(dim_in: int = 5, dim: int = 6) -> ItemReader:
    torch.manual_seed(0)
    return ItemReader(dim_in, dim).double()


def twin(reader: ItemReader) -> nn.LSTM:
    """PyTorch's BiLSTM with the reader's weights."""
    lstm = nn.LSTM(
        reader.forwards.input_size, reader.forwards.hidden_size, bidirectional=True, batch_first=True
    ).double()
    weights = {name: tensor.clone() for name, tensor in reader.forwards.state_dict().items()}
    weights |= {f"{name}_reverse": tensor.clone() for name, tensor in reader.backwards.state_dict().items()}
    lstm.load_state_dict(weights)
    return lstm


def read_one(lstm: nn.LSTM, word_JA: Tensor) -> Tensor:
    """Mean state + final state of one item (appendix C.1)."""
    packed, (final_2XM, _) = lstm(pack_sequence([word_JA]))
    state_1JD, _ = pad_packed_sequence(packed, batch_first=True)
    return state_1JD[0].mean(0) + final_2XM[:, 0].flatten()


lengths = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=3)


@given(lengths, st.integers(0, 2), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_equals_one_bilstm_over_each_item(length_BI: list[list[int]], extra: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    size = max(1, max(max(row) for row in length_BI)) + extra
    word_BIJA = torch.randn(len(length_BI), 3, size, 5, dtype=torch.float64, generator=random)
    keep_BIJ = torch.arange(size) < torch.tensor(length_BI)[..., None]
    weight_BID = torch.randn(len(length_BI), 3, 6, dtype=torch.float64, generator=random)
    reader = make_reader()
    lstm = twin(reader)

    given_BIJA = word_BIJA.clone().requires_grad_()
    found_BID = reader(given_BIJA, keep_BIJ)
    (found_BID * weight_BID).sum().backward()

    plain_BIJA = word_BIJA.clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for row, lengths_I in enumerate(length_BI):
        for item, length in enumerate(lengths_I):
            if not length:
                assert not found_BID[row, item].any(), "an item without words is zero"
                continue
            wanted_D = read_one(lstm, plain_BIJA[row, item, :length])
            torch.testing.assert_close(found_BID[row, item], wanted_D)
            total = total + (wanted_D * weight_BID[row, item]).sum()
    assert given_BIJA.grad is not None
    assert not given_BIJA.grad[~keep_BIJ].any(), "padding gets no gradient"
    if total.requires_grad:
        total.backward()
        assert plain_BIJA.grad is not None
        torch.testing.assert_close(given_BIJA.grad, plain_BIJA.grad)
        for suffix, direction in (("", reader.forwards), ("_reverse", reader.backwards)):
            for name, parameter in direction.named_parameters():
                torch.testing.assert_close(parameter.grad, lstm.get_parameter(name + suffix).grad, msg=name + suffix)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="two directions: the width 7 must be even"):
        ItemReader(4, 7)
