"""The packaged figures of GPUs and models, and what is derived from them."""

from collections import Counter

import pytest
from pydantic import ValidationError

from schemas.catalog import BYTES_PER_VALUE, Model, gpus, models, models_by_name


def test_the_gpus_that_people_serve_on_are_there_with_a_source() -> None:
    assert {"a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "mi300x"} <= set(gpus())
    assert all(gpu.source for gpu in gpus().values())


def test_flops_are_dense_and_halving_the_width_about_doubles_them() -> None:
    assert gpus()["h100-sxm"].flops("bf16") == 989_400_000_000_000  # 1,979 is the figure with sparsity
    for gpu in gpus().values():
        flops: dict[str, int] = {str(precision): figure for precision, figure in gpu.flops_per_second.items()}
        for narrow, wide in (("fp8", "bf16"), ("fp4", "fp8")):
            if narrow in flops:
                assert 1.99 < flops[narrow] / flops[wide] < 2.03


def test_a_precision_that_the_chip_cannot_multiply_counts_at_bf16() -> None:
    a100 = gpus()["a100-sxm-80gb"]
    assert a100.flops("fp8") == a100.flops("bf16")


def test_the_models_of_the_first_release_are_there() -> None:
    assert {"llama-3.3-70b", "llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "mistral-small-24b", "gpt-oss-120b"} <= set(models())


def test_no_two_models_claim_the_same_name() -> None:
    names = Counter(name for model in models().values() for name in (model.id, *model.aliases))
    assert [name for name, count in names.items() if count > 1] == []
    assert models_by_name()["meta-llama/Llama-3.3-70B-Instruct"] is models()["llama-3.3-70b"]


def test_a_dense_model_reads_all_its_weights_in_every_step() -> None:
    llama = models()["llama-3.3-70b"]
    assert llama.weight_bytes("fp8") == llama.parameters
    assert llama.weight_bytes("bf16") == 2 * llama.parameters
    assert llama.flop_per_token == 2 * llama.parameters


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "deepseek-v3", "gpt-oss-120b"])
def test_a_mixture_computes_with_active_parameters_and_reads_the_touched_experts(name: str) -> None:
    model = models()[name]
    assert model.flop_per_token == 2 * model.active_parameters
    assert model.active_parameters < model.weight_bytes("fp8") < model.parameters


def test_touched_experts_follow_the_expectation_of_independent_picks() -> None:
    model = models()["qwen3-30b-a3b"]
    share = 1 - (1 - 8 / 128) ** 32
    routed = (model.parameters - model.active_parameters) / (1 - 8 / 128)
    assert model.weight_bytes("fp8") == pytest.approx(model.parameters - routed * (1 - share), rel=1e-9)


def test_kv_bytes_per_token_follow_the_architecture() -> None:
    assert models()["llama-3.3-70b"].kv_bytes_per_token == 2 * 80 * 8 * 128 * 2
    assert models()["deepseek-v3"].kv_bytes_per_token == 61 * (512 + 64) * 2


def test_an_inconsistent_mixture_is_refused() -> None:
    good = models()["qwen3-30b-a3b"].model_dump()
    for wrong in ({"experts": 0}, {"active_parameters": good["parameters"] + 1}, {"experts_per_token": 128}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            Model.model_validate(good | wrong)


def test_every_precision_has_a_width() -> None:
    assert {precision for gpu in gpus().values() for precision in gpu.flops_per_second} <= set(BYTES_PER_VALUE)
