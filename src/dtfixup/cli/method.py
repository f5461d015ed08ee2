"""The verbs of the method: `dtfixup check` and `dtfixup demo-train`."""

from pathlib import Path

from rich.console import Console

from dtfixup.errors import ConfigError
from dtfixup.files import write_json

_console = Console()


def check(
    depths: str = "2,4,8,16,32,64",
    strategies: str = "dt-fixup,t-fixup,unscaled",
    encoder: str = "minilm",
    save: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Measure update size and gradient norm against depth on the bundled sentences.

    Args:
        depths: Numbers of layers, separated by commas.
        strategies: Strategies, separated by commas.
        encoder: Encoder by name or folder.
        save: JSON file for the numbers.
        plot: PNG file for the picture.
    """
    from dtfixup.demo.depth import check_bundled, sentences_hash
    from dtfixup.encoders import encoder_identity
    from dtfixup.provenance import begin, provenance

    started = begin()
    report = check_bundled(_numbers(depths), tuple(_split(strategies)), encoder=encoder)
    print(report)
    if save is not None:
        command = f"dtfixup check --depths {depths} --strategies {strategies} --encoder {encoder}"
        identity = encoder_identity(encoder)
        record = provenance("depth-check", command, started, seed=0, encoder=identity, data_hash=sentences_hash())
        _console.print(f"numbers: {write_json(save, {**report.to_json(), **record})}")
    if plot is not None:
        _console.print(f"picture: {report.plot(plot)}")


def demo_train(out: Path = Path("out/demo"), seed: int = 0, steps: int = 1100, layers: int = 24) -> None:
    """Train 24 new layers on MiniLM three ways, side by side on two CPU cores, and draw the curves.

    Args:
        out: Folder for demo.png and demo.json.
        seed: Of weights and batches.
        steps: Training steps of each run.
        layers: Number of new layers.
    """
    from dtfixup.demo.side_by_side import show_demo
    from dtfixup.demo.training import DemoConfig

    if steps < 1 or layers < 1:
        raise ConfigError(f"--steps and --layers are 1 or more; got {steps} and {layers}")
    tune_steps = max(1, 3 * steps // 11)  # the default's share, 300 of 1,100
    show_demo(DemoConfig(seed=seed, steps=steps, tune_steps=tune_steps, layers=layers), out)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _split(text))
    except ValueError:
        raise ConfigError(f"expected numbers separated by commas, such as 2,4,8: got {text!r}") from None
