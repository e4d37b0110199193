"""Adapters for three of the tiny models in `../families`, and what llama.cpp makes of them.

    python make.py FOLDER_OF_LIBLLAMA

needs numpy, gguf and safetensors, and llama.cpp's Python bindings (the module `llama_cpp.llama_cpp`) beside its library. For each
family it writes `adapter.gguf` (F32, alpha 8 over rank 4), for one of them also the same adapter as PEFT writes it, and the logits
of every position of the family's two prompts at the adapter's scale of 0.75: computed by llama.cpp in F32 from a model in F32, with a
cache of F32, and compared here with the same model with the adapter merged into its weights by numpy.
"""

import ctypes
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter
from gguf.constants import GGMLQuantizationType, GGUFValueType
from gguf.quants import dequantize
from safetensors.numpy import save_file

os.environ["LLAMA_CPP_LIB_PATH"] = sys.argv[1]
import llama_cpp.llama_cpp as llama  # noqa: E402

HERE = Path(__file__).parent
RANK, ALPHA, SCALE = 4, 8.0, 0.75
FAMILIES = {"llama": "model-f32.gguf", "lfm2": "model-bf16.gguf", "granitemoe": "model-f32.gguf"}
# Tensors whose names end so are left alone, to see that none is missed that should not be.
LEFT_ALONE = {"llama": ["blk.1.attn_v.weight"], "lfm2": ["blk.0.ffn_up.weight"], "granitemoe": ["blk.1.attn_q.weight"]}
PEFT = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.out_proj",
    "shortconv.in_proj": "conv.in_proj", "shortconv.out_proj": "conv.out_proj",
    "ffn_gate": "feed_forward.w1", "ffn_down": "feed_forward.w2", "ffn_up": "feed_forward.w3",
}


def tensors_of(path):
    """Every tensor as F32 (outermost dimension first), and the reader."""
    reader = GGUFReader(path)
    values = {}
    for tensor in reader.tensors:
        shape = [int(length) for length in reversed(tensor.shape)]
        values[tensor.name] = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
    return reader, values


def field(writer, key, value):
    """Copies a setting."""
    kind = value.types[0]
    writer.add_key_value(key, value.contents(), kind, sub_type=value.types[-1] if kind == GGUFValueType.ARRAY else None)


def write_model(path, reader, values):
    architecture = reader.get_field("general.architecture").contents()
    writer = GGUFWriter(path, architecture)
    for key, value in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            field(writer, key, value)
    for name, data in values.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def is_adapted(family, name, data):
    is_matrix = data.ndim >= 2 and name.endswith(".weight") and "conv.weight" not in name
    return is_matrix and name != "token_embd.weight" and name not in LEFT_ALONE[family]


def write_adapter(path, architecture, parts):
    writer = GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", ALPHA)
    for name, (a, b) in parts.items():
        writer.add_tensor(name + ".lora_a", a)
        writer.add_tensor(name + ".lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_peft(folder, parts):
    folder.mkdir(exist_ok=True)
    tensors = {}
    for name, (a, b) in parts.items():
        _, layer, rest = name.removesuffix(".weight").split(".", 2)
        module = f"base_model.model.model.layers.{layer}.{PEFT[rest]}"
        tensors[module + ".lora_A.weight"], tensors[module + ".lora_B.weight"] = a, b
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {
        "alpha_pattern": {}, "auto_mapping": None, "base_model_name_or_path": "lfm2", "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "init_lora_weights": True, "layer_replication": None, "lora_alpha": ALPHA, "lora_bias": False,
        "lora_dropout": 0.0, "modules_to_save": None, "peft_type": "LORA", "r": RANK, "rank_pattern": {}, "target_parameters": None,
        "target_modules": sorted({module.split(".")[-1] for module in PEFT.values()}), "task_type": "CAUSAL_LM",
        "trainable_token_indices": None, "use_dora": False, "use_qalora": False, "use_rslora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def logits(path, adapter, prompts):
    """Of every position of each prompt."""
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    assert model, path
    vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    settings = llama.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 512
    settings.type_k = settings.type_v = int(GGMLQuantizationType.F32)
    settings.flash_attn_type = 0
    found = []
    for tokens in prompts:
        context = llama.llama_init_from_model(model, settings)
        if adapter:
            loaded = llama.llama_adapter_lora_init(model, str(adapter).encode())
            assert loaded, adapter
            one, scale = (llama.llama_adapter_lora_p_ctypes * 1)(loaded), (ctypes.c_float * 1)(SCALE)
            assert llama.llama_set_adapters_lora(context, one, 1, scale) == 0
        batch = llama.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place], batch.pos[place], batch.logits[place] = token, place, 1
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        assert llama.llama_decode(context, batch) == 0
        rows = llama.llama_get_logits(context)
        found.append(np.ctypeslib.as_array(rows, shape=(len(tokens), vocab)).copy())
        llama.llama_free(context)
    return found


def main():
    llama.llama_backend_init()
    for family, file in FAMILIES.items():
        source, folder = HERE.parent / "families" / family, HERE / family
        folder.mkdir(exist_ok=True)
        reader, values = tensors_of(source / file)
        random = np.random.default_rng(len(family))
        parts, merged = {}, dict(values)
        for name, data in values.items():
            if not is_adapted(family, name, data):
                continue
            outer, (rows, columns) = data.shape[:-2], data.shape[-2:]
            size = 0.6 * float(np.std(data)) * columns ** 0.5
            a = (random.standard_normal((*outer, RANK, columns)) / columns ** 0.5).astype(np.float32)
            b = (random.standard_normal((*outer, rows, RANK)) * size / (ALPHA / RANK) / RANK ** 0.5).astype(np.float32)
            parts[name] = (a, b)
            merged[name] = (data + SCALE * ALPHA / RANK * np.matmul(b.astype(np.float64), a)).astype(np.float32)
        write_adapter(folder / "adapter.gguf", reader.get_field("general.architecture").contents(), parts)
        if family == "lfm2":
            write_peft(folder / "peft", parts)
        prompts = [prompt["tokens"] for prompt in json.loads((source / "reference.json").read_text())["prompts"]][:2]
        with tempfile.TemporaryDirectory() as scratch:
            base, whole = Path(scratch) / "base.gguf", Path(scratch) / "merged.gguf"
            write_model(base, reader, values)
            write_model(whole, reader, merged)
            plain = logits(base, None, prompts)
            found = logits(base, folder / "adapter.gguf", prompts)
            for number, (own, beside, without) in enumerate(zip(found, logits(whole, None, prompts), plain)):
                apart, change = np.abs(own - beside).max(), np.abs(own - without).max()
                print(f"{family} {number}: {own.shape[0]} positions, {apart:.1e} from merged, {change:.2f} from none")
                assert apart < 2e-4 and change > 1, "an adapter that is merged is the same model"
                own.astype("<f4").tofile(folder / f"logits.{number}.f32")


main()
