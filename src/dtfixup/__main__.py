"""`python -m dtfixup`, and `torchrun -m dtfixup`: the command line."""

from dtfixup.cli import main

main()
