"""`dtfixup check` on the bundled encoder and sentences: the theorem, measured."""

from dtfixup.demo.depth import bundled_sentences, check_bundled


def test_the_bundled_sentences_are_thirty_two_different_ones() -> None:
    sentences = bundled_sentences()
    assert len({tuple(sentence) for sentence in sentences}) == len(sentences) == 32
    assert all(len(sentence) >= 8 for sentence in sentences)


def test_gradient_norm_and_sgd_update_do_not_depend_on_depth_with_dt_fixup() -> None:
    report = check_bundled((2, 8, 32), ("dt-fixup", "t-fixup"))
    for stack in ("vanilla", "relation"):
        assert abs(report.slope(stack, "dt-fixup", "sgd", "grad_norm")) < 0.05
        assert abs(report.slope(stack, "dt-fixup", "sgd", "update")) < 0.05
        assert abs(report.slope(stack, "dt-fixup", "sgd", "layer_update")) < 0.05
        assert abs(report.slope(stack, "dt-fixup", "sgd", "grad_norm_biases") - 0.5) < 0.05
        assert abs(report.slope(stack, "dt-fixup", "adam", "update") - 0.5) < 0.05
        assert abs(report.slope(stack, "t-fixup", "sgd", "grad_norm") - 0.25) < 0.05


def test_an_unscaled_stack_explodes() -> None:
    report = check_bundled((2, 16), ("unscaled",))
    assert report.slope("vanilla", "unscaled", "sgd", "grad_norm") > 4
    assert report.slope("relation", "unscaled", "sgd", "grad_norm") > 4
