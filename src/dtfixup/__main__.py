"""`python -m dtfixup`, and `torchrun -m dtfixup`: the command line."""

from dtfixup.cli.main import main

main()
