"""What holds for every test."""

import torch

# The matrices here are tiny: on a busy machine several threads spend their time waiting for each other.
torch.set_num_threads(1)
