"""Adapters made and applied by PEFT, for two of the tiny models in `../families`.

    python make_peft.py

needs torch, transformers and peft. For each family it writes `peft/`, as PEFT saves an adapter, and `peft-logits.f32`: what
transformers gives with it, in float32, for every position of `TOKENS` at a scale of 0.75. One model has its projections apart, ranks
and alphas of some modules being others; the other has them together (queries, keys and values; gate and up), and rsLoRA's root.
"""

from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
SCALE = 0.75
TOKENS = [5 + place * 37 % 110 for place in range(24)]
ADAPTERS = {
    "qwen3": LoraConfig(
        r=4, lora_alpha=6, rank_pattern={"k_proj": 2, "layers.0.mlp.up_proj": 3},
        alpha_pattern={"down_proj": 3, "layers.1.self_attn.q_proj": 9},
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], task_type="CAUSAL_LM",
    ),
    "phi3": LoraConfig(
        r=3, lora_alpha=5, use_rslora=True, rank_pattern={"down_proj": 5}, layers_to_transform=[0, 2],
        target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], task_type="CAUSAL_LM",
    ),
}


@torch.no_grad()
def main():
    tokens = torch.tensor([TOKENS])
    for family, config in ADAPTERS.items():
        torch.manual_seed(len(family))
        model = AutoModelForCausalLM.from_pretrained(HERE.parent / "families" / family, dtype=torch.float32)
        plain = model(tokens).logits[0].numpy()
        model = get_peft_model(model, config)
        for name, values in model.named_parameters():
            if ".lora_A." in name or ".lora_B." in name:
                # Of the size of the matrices of these models, so that logits move by some of their spread.
                values.copy_(torch.randn_like(values) * (values.shape[1] ** -0.5 if ".lora_A." in name else 0.25))
        folder = HERE / family
        folder.mkdir(exist_ok=True)
        # Not where it was loaded from, which is nobody's business.
        config.base_model_name_or_path = family
        model.save_pretrained(folder / "peft")
        (folder / "peft" / "README.md").unlink(missing_ok=True)
        for module in model.modules():
            scaling = getattr(module, "scaling", None)
            if isinstance(scaling, dict):
                scaling.update({key: value * SCALE for key, value in scaling.items()})
        found = model(tokens).logits[0].numpy()
        change = np.abs(found - plain).max()
        print(f"{family}: {found.shape[0]} positions, {change:.2f} from none, spread {plain.std():.2f}")
        assert change > 1
        found.astype("<f4").tofile(folder / "peft-logits.f32")


main()
