"""Tiny checkpoints whose matrices have their scales in tensors of their own, and what the models give.

    python make.py

needs numpy and ml_dtypes (whose `float8_e4m3fn` and `float4_e2m1fn` are the codes). A model is a folder as others have it:
`config.json`, `model.safetensors`, `reference.json` and `logits.f32`, (tokens, vocabulary), computed here in double precision from the
values that codes and scales stand for. Before that, the same computation has to give what transformers gave for the tiny models in
`../families` (qwen3) and, where they lie beside the repository, in the shared set (qwen3moe).

Also `e4m3.f32`: the values of all 256 codes.
"""

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np

HERE = Path(__file__).parent
SHARED = HERE.parents[3] / "shared/fixtures/families"
TYPES = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "U8": np.uint8}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
TOKENS = [1] + [3 + place * 29 % 90 for place in range(39)]
GREEDY = 8


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    def tensor(entry):
        start, end = entry["data_offsets"]
        return np.frombuffer(data[8 + size + start:8 + size + end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return {name: tensor(entry).astype(np.float64) for name, entry in header.items()}


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        part = np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def forward(config, weights, tokens):
    """Llama, as Qwen3 without norms of heads, Qwen3 and Qwen3-MoE: (tokens, vocabulary)."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width, epsilon = config["head_dim"], config["rms_norm_eps"]
    base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    turns = np.arange(len(tokens))[:, None] * base ** (-np.arange(width // 2) * 2 / width)
    cos, sin = np.cos(turns)[:, None], np.sin(turns)[:, None]

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights[name + ".weight"]

    def linear(x, name):
        return x @ weights[name + ".weight"].T

    def rope(x):
        low, high = x[..., :width // 2], x[..., width // 2:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

    def mlp(x, name):
        gate = linear(x, name + ".gate_proj")
        return linear(gate / (1 + np.exp(-gate)) * linear(x, name + ".up_proj"), name + ".down_proj")

    x = weights["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = norm(x, at + "input_layernorm")
        q, k, v = (linear(y, f"{at}self_attn.{name}_proj").reshape(len(tokens), -1, width) for name in "qkv")
        if at + "self_attn.q_norm.weight" in weights:
            q, k = norm(q, at + "self_attn.q_norm"), norm(k, at + "self_attn.k_norm")
        q, k = rope(q), rope(k)
        k, v = (np.repeat(part, heads // kv_heads, 1) for part in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width)
        scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hqk,khd->qhd", scores, v).reshape(len(tokens), -1), at + "self_attn.o_proj")
        y = norm(x, at + "post_attention_layernorm")
        if at + "mlp.gate.weight" not in weights:
            x = x + mlp(y, at + "mlp")
            continue
        shares = linear(y, at + "mlp.gate")
        shares = np.exp(shares - shares.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x.copy()
        for row in range(len(tokens)):
            chosen = np.argsort(-shares[row])[:config["num_experts_per_tok"]]
            for expert in chosen:
                share = shares[row][expert] / shares[row][chosen].sum()
                x[row] += share * mlp(y[row], f"{at}mlp.experts.{expert}")
    return linear(norm(x, "model.norm"), "lm_head" if "lm_head.weight" in weights else "model.embed_tokens")


def verify():
    for folder in [HERE.parent / "families/qwen3", SHARED / "qwen3moe"]:
        if not folder.is_dir():
            print("not there:", folder)
            continue
        config, weights = json.loads((folder / "config.json").read_text()), read(folder / "model.safetensors")
        config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
        for prompt in json.loads((folder / "reference.json").read_text())["prompts"]:
            expected = np.fromfile(folder / prompt["logits_file"], "<f4").reshape(prompt["shape"])
            difference = np.abs(forward(config, weights, prompt["tokens"]) - expected).max()
            print(f"{folder.name}: {difference:.1e}")
            assert difference < 1e-3


def model(seed, hidden, ffn, layers, experts=0, norms=True):
    random = np.random.default_rng(seed)
    heads, kv_heads, width, vocab = 4, 2, 32, 96
    matrix = lambda rows, columns: random.standard_normal((rows, columns)) * (1.6 / np.sqrt(columns))
    vector = lambda count: 1 + 0.2 * random.standard_normal(count)
    plain = {"model.embed_tokens.weight": random.standard_normal((vocab, hidden)), "lm_head.weight": matrix(vocab, hidden), "model.norm.weight": vector(hidden)}
    matrices = {}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        plain |= {f"{at}{name}_layernorm.weight": vector(hidden) for name in ["input", "post_attention"]}
        if norms:
            plain |= {f"{at}self_attn.{name}_norm.weight": vector(width) for name in "qk"}
        for name, rows in [("q", heads), ("k", kv_heads), ("v", kv_heads)]:
            matrices[f"{at}self_attn.{name}_proj.weight"] = matrix(rows * width, hidden)
        matrices[at + "self_attn.o_proj.weight"] = matrix(hidden, heads * width)
        for mlp in [f"mlp.experts.{expert}" for expert in range(experts)] or ["mlp"]:
            matrices |= {f"{at}{mlp}.{name}_proj.weight": matrix(ffn, hidden) for name in ["gate", "up"]}
            matrices[f"{at}{mlp}.down_proj.weight"] = matrix(hidden, ffn)
        if experts:
            plain[at + "mlp.gate.weight"] = matrix(experts, hidden)
    kind = "Qwen3MoeForCausalLM" if experts else "Qwen3ForCausalLM" if norms else "LlamaForCausalLM"
    config = {
        "architectures": [kind], "model_type": {"Q": "qwen3", "L": "llama"}[kind[0]] + ("_moe" if experts else ""), "hidden_size": hidden,
        "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": width, "vocab_size": vocab, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False, "bos_token_id": 1, "eos_token_id": 0,
        "torch_dtype": "bfloat16",
    }
    if experts:
        config |= {"num_experts": experts, "num_experts_per_tok": 2, "moe_intermediate_size": ffn, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
    return config, {name: value.astype(ml_dtypes.bfloat16) for name, value in plain.items()}, matrices


# Each gives the tensors of a matrix, and the values that they stand for.

def eight(name, matrix, tile, beside, kind=np.float32):
    rows, columns = matrix.shape
    height, width = tile[0] or rows, tile[1] or columns
    down, across = -(-rows // height), -(-columns // width)
    factors = np.zeros((down, across), kind)
    for i in range(down):
        for j in range(across):
            factors[i, j] = np.abs(matrix[i * height:(i + 1) * height, j * width:(j + 1) * width]).max() / 448
    spread = np.repeat(np.repeat(factors, height, 0), width, 1)[:rows, :columns].astype(np.float32)
    codes = np.clip(matrix / spread, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    shape = () if down * across == 1 and tile == (None, None) else factors.shape
    return {name: codes, name + beside: factors.reshape(shape)}, codes.astype(np.float32) * spread


def four(name, matrix, packed):
    rows, columns = matrix.shape
    factor = np.float32(np.abs(matrix).max() / (448 * 6))
    scales = (np.abs(matrix.reshape(rows, -1, 16)).max(-1) / 6 / factor).astype(ml_dtypes.float8_e4m3fn)
    spread = np.repeat(scales.astype(np.float32), 16, 1)
    codes = (matrix / (spread * factor)).astype(ml_dtypes.float4_e2m1fn)
    halves = codes.view(np.uint8).reshape(rows, -1, 2) & 15
    halves = halves[..., 0] | halves[..., 1] << 4
    if packed:
        inverse = np.float32(1 / factor)
        tensors = {name + "_packed": halves, name + "_scale": scales, name + "_global_scale": inverse.reshape(1)}
        tensors[name.removesuffix("weight") + "input_global_scale"] = np.float32([37.5])
        return tensors, codes.astype(np.float32) * (spread / inverse)
    tensors = {name: halves, name + "_scale": scales, name + "_scale_2": factor, name.removesuffix("weight") + "input_scale": np.float32(0.75)}
    return tensors, codes.astype(np.float32) * spread * factor


def group(weights, kind):
    return {"group_0": {"format": kind, "input_activations": None, "targets": ["Linear"], "weights": weights}}


def kinds():
    """Folder: model, what `quantization_config` says, and the tensors of a matrix."""
    block = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}
    compressed = {"quant_method": "compressed-tensors", "quantization_status": "compressed", "ignore": ["lm_head"], "kv_cache_scheme": None}
    floats = compressed | {"format": "float-quantized", "config_groups": group({"num_bits": 8, "type": "float", "strategy": "channel", "block_structure": None}, "float-quantized")}
    fours = compressed | {"format": "nvfp4-pack-quantized", "config_groups": group({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, "nvfp4-pack-quantized")}
    opt = {"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": {"name": "modelopt"}, "ignore": ["lm_head"], "config_groups": group({"num_bits": 4, "type": "float", "group_size": 16}, None)}

    def channels(name, matrix):
        tensors, values = eight(name, matrix, (1, None), "_scale", ml_dtypes.bfloat16)
        if "self_attn" in name:
            # One for all, of activations too, and those of a cache.
            tensors, values = eight(name, matrix, (None, None), "_scale")
            tensors[name.removesuffix("weight") + "input_scale"] = np.float32(0.5)
            if "k_proj" in name:
                tensors[name.replace("k_proj.weight", "k_scale")] = np.float32([1.0])
        return tensors, values

    tiles = lambda name, matrix: eight(name, matrix, (128, 128), "_scale_inv")
    return {
        # Matrices of 144 rows and of 192 columns: tiles that are cut on both sides.
        "fp8": (model(1, 192, 144, 1), block, tiles),
        "fp8moe": (model(2, 64, 48, 2, experts=4), block, tiles),
        "fp8channels": (model(3, 64, 80, 2, norms=False), floats, channels),
        "nvfp4": (model(4, 64, 128, 2), opt, lambda name, matrix: four(name, matrix, False)),
        "nvfp4moe": (model(5, 64, 64, 2, experts=4), fours, lambda name, matrix: four(name, matrix, True)),
    }


def main():
    verify()
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    codes.astype("<f4").tofile(HERE / "e4m3.f32")
    for folder, ((config, plain, matrices), stated, keep) in kinds().items():
        tensors = dict(plain)
        weights = {name: value.astype(np.float64) for name, value in plain.items()}
        for name, matrix in matrices.items():
            parts, values = keep(name, matrix.astype(np.float32))
            tensors |= {part: np.asarray(value) for part, value in parts.items()}
            weights[name] = values.astype(np.float64)
        logits = forward(config, weights, TOKENS)
        written = list(TOKENS)
        for _ in range(GREEDY):
            written.append(int(forward(config, weights, written)[-1].argmax()))
        place = HERE / folder
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config | {"quantization_config": stated}, indent=1) + "\n")
        write(place / "model.safetensors", tensors)
        logits.astype("<f4").tofile(place / "logits.f32")
        (place / "reference.json").write_text(json.dumps({"tokens": TOKENS, "greedy": written[len(TOKENS):]}) + "\n")
        print(f"{folder}: {(place / 'model.safetensors').stat().st_size} bytes, logits spread {logits.std():.2f}")


if __name__ == "__main__":
    main()
