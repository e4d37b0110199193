#!/usr/bin/env python3
"""Makes the files of this directory with the formats' reference implementations, and `expected.json` by reading them back.

Needs `pip install gguf==0.19.0 safetensors==0.8.0 numpy`. Usage: make.py [SHARED_FIXTURES]; with the directory of the shared
fixtures, `expected.json` also gets a digest of each model there.
"""
import gzip
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import zlib

import gguf
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(20)


def values(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


def quantised(quant, *dims):
    return gguf.quants.quantize(values(*dims), quant)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_all_types():
    writer = gguf.GGUFWriter(HERE / "all-types.gguf", "golden")
    writer.add_custom_alignment(64)
    writer.add_uint8("scalar.u8", 255)
    writer.add_int8("scalar.i8", -128)
    writer.add_uint16("scalar.u16", 65535)
    writer.add_int16("scalar.i16", -32768)
    writer.add_uint32("scalar.u32", 2**32 - 1)
    writer.add_int32("scalar.i32", -(2**31))
    writer.add_uint64("scalar.u64", 2**64 - 1)
    writer.add_int64("scalar.i64", -(2**63))
    writer.add_float32("scalar.f32", 1e-6)
    writer.add_float64("scalar.f64", 1e-300)
    writer.add_bool("scalar.bool", True)
    writer.add_string("scalar.string", "Köln \U0001f30d\n")
    writer.add_array("array.strings", ["", "▁the", "Ġa", "\U0001f30d"])
    writer.add_array("array.i32", [-1, 0, 2**31 - 1])
    writer.add_array("array.f32", [0.5, -1e30])
    writer.add_array("array.bool", [True, False, True])
    writer.add_array("array.nested", [[1, 2], [3]])
    writer.add_array("array.nested.strings", [["a"], ["b", "c"]])
    writer.add_key_value("array.u8", b"\x00\x7f\xff", gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT8)
    writer.add_tensor("vector.f32", values(7))
    writer.add_tensor("matrix.f16", values(3, 5).astype(np.float16))
    writer.add_tensor("cube.f32", values(2, 3, 4))
    writer.add_tensor("four.f32", values(2, 1, 3, 2))
    for quant in ["BF16", "Q4_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0"]:
        kind = gguf.GGMLQuantizationType[quant]
        writer.add_tensor(f"matrix.{quant}", quantised(kind, 2, 256), raw_dtype=kind)
    write(writer)


def make_split():
    writer = gguf.GGUFWriter(HERE / "split.gguf", "golden", split_max_tensors=2)
    writer.add_string("general.name", "in three parts")
    for index in range(5):
        writer.add_tensor(f"blk.{index}.weight", values(4, index + 1))
    write(writer)


def make_big_endian():
    writer = gguf.GGUFWriter(HERE / "big-endian.gguf", "golden", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("a", values(3))
    write(writer)


def make_safetensors():
    single, sharded = HERE / "single", HERE / "sharded"
    for directory in [single, sharded]:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
    integers = {f"i{bits}": np.arange(-2, 3, dtype=f"int{bits}") for bits in [8, 16, 32, 64]}
    floats = {"f16": values(3, 2).astype(np.float16), "f32": values(2, 2, 2), "f64": np.array(1e-300)}
    save_file(integers | floats | {"empty": np.zeros((0, 4), np.float32)}, single / "model.safetensors", {"format": "np"})
    (single / "config.json").write_text('{"model_type": "golden", "time_step_limit": [0.0, Infinity]}\n')
    (single / "tokenizer_config.json").write_text('{"chat_template": [{"name": "default", "template": "{{ x }}"}]}\n')
    weight_map = {}
    for index in range(2):
        name = f"model-{index + 1:05}-of-00002.safetensors"
        tensors = {f"layer.{index}.weight": values(2, 3), f"layer.{index}.bias": values(2)}
        save_file(tensors, sharded / name)
        weight_map |= dict.fromkeys(tensors, name)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (sharded / "config.json").write_text('{"model_type": "golden"}\n')
    (sharded / "generation_config.json").write_text('{"eos_token_id": 2}\n')
    (sharded / "tokenizer.json").write_text('{"version": "1.0"}\n')
    (sharded / "tokenizer_config.json").write_text('{"chat_template": "not this one"}\n')
    (sharded / "chat_template.jinja").write_text("{{ messages }}\n")


def canonical(field):
    """The value of a key as bytes that do not depend on a language's way to print numbers."""
    kind = field.types[-1].name if field.types else "STRING"
    leaves = [field.parts[index] for index in field.data]
    items = [bytes(leaf).decode() if kind == "STRING" else leaf[0] for leaf in leaves]
    if kind == "STRING":
        return b"".join(item.encode() + b"\0" for item in items)
    if kind.startswith("FLOAT"):
        return b"".join(struct.pack("<d", float(item)) for item in items)
    return b"".join(f"{int(item)},".encode() for item in items)


def listing_gguf(path):
    reader = gguf.GGUFReader(path)
    keys = {
        name: zlib.crc32(canonical(field))
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    tensors = []
    for tensor in reader.tensors:
        dims = [int(dim) for dim in reversed(tensor.shape)]
        crc = zlib.crc32(tensor.data.tobytes())
        tensors.append([tensor.name, tensor.tensor_type.name, dims, int(tensor.n_bytes), crc])
    return {"keys": keys, "tensors": tensors}


def listing_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    tensors = []
    with safe_open(path, "np") as reader:
        for name in header:
            if name == "__metadata__":
                continue
            part, (start, end) = reader.get_slice(name), header[name]["data_offsets"]
            crc = zlib.crc32(raw[8 + length + start : 8 + length + end])
            # Bytes without a sign stand for something else, whatever they are called: kauri has one name for both.
            kind = {"U8": "I8"}.get(part.get_dtype(), part.get_dtype())
            tensors.append([name, kind, part.get_shape(), end - start, crc])
    return {"tensors": tensors}


def listing(path):
    if path.suffix == ".safetensors":
        return listing_safetensors(path)
    if path.suffix == ".gz":
        with tempfile.NamedTemporaryFile(suffix=".gguf") as unpacked:
            unpacked.write(gzip.decompress(path.read_bytes()))
            unpacked.flush()
            return listing_gguf(unpacked.name)
    return listing_gguf(path)


def digest(path):
    """Counts, and one sum over all keys, names, types, dimensions and bytes."""
    whole = listing(path)
    lines = [f"{key} {crc}" for key, crc in whole.get("keys", {}).items()]
    for name, kind, dims, size, crc in whole["tensors"]:
        lines.append(f"{name} {kind} {'x'.join(map(str, dims))} {size} {crc}")
    crc = zlib.crc32("\n".join(lines).encode())
    return {"keys": len(whole.get("keys", {})), "tensors": len(whole["tensors"]), "crc32": crc}


def models(root):
    found = [path for end in ["gguf", "gguf.gz", "safetensors"] for path in root.rglob(f"*.{end}")]
    return sorted(path for path in found if path.name != "big-endian.gguf")


def main():
    make_all_types()
    make_split()
    make_big_endian()
    make_safetensors()
    expected = {"here": {str(path.relative_to(HERE)): listing(path) for path in models(HERE)}}
    old = HERE / "expected.json"
    if len(sys.argv) > 1:
        shared = pathlib.Path(sys.argv[1])
        expected["shared"] = {str(path.relative_to(shared)): digest(path) for path in models(shared)}
    elif old.exists():
        expected["shared"] = json.loads(old.read_text()).get("shared", {})
    parts = []
    for group, files in expected.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(files[name])}" for name in files)
        parts.append(f' "{group}": {{\n{lines}\n }}')
    old.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
