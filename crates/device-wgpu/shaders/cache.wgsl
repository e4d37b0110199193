// A head's row in the cache: where it begins, four neighbouring values of it, and how one is written. `CACHE` says how values are
// kept: 0 single precision, 1 half, 2 bytes, 3 half bytes, both with a scale of half precision for 32 neighbours.
//
// Rows are padded to four values, or to 32 where they have scales; padding is zeros.

// Words of a row's values.
fn row_words(width: u32) -> u32 {
    let fours = (width + 3u) / 4u;
    let blocks = (width + 31u) / 32u;
    switch CACHE {
        case 0u: {
            return 4u * fours;
        }
        case 1u: {
            return 2u * fours;
        }
        case 2u: {
            return 8u * blocks;
        }
        default: {
            return 4u * blocks;
        }
    }
}

// Words of a row's scales.
fn scale_words(width: u32) -> u32 {
    let blocks = (width + 31u) / 32u;
    return select(0u, (blocks + 1u) / 2u, CACHE >= 2u);
}

// Values 4 * four and up of the row whose values and scales begin there.
fn cached_four(values: u32, scales: u32, four: u32) -> vec4<f32> {
    switch CACHE {
        case 0u: {
            let at = values + 4u * four;
            return vec4<f32>(kept_float(at), kept_float(at + 1u), kept_float(at + 2u), kept_float(at + 3u));
        }
        case 1u: {
            let at = values + 2u * four;
            return vec4<f32>(unpack2x16float(kept[at]), unpack2x16float(kept[at + 1u]));
        }
        case 2u: {
            return cached_scale(scales, four / 8u) * vec4<f32>(unpack4xI8(kept[values + four]));
        }
        default: {
            let codes = kept[values + four / 2u] >> (16u * (four % 2u));
            let spread = (vec4<u32>(codes) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
            return cached_scale(scales, four / 8u) * (vec4<f32>(spread) - 8.0);
        }
    }
}

fn cached_scale(scales: u32, block: u32) -> f32 {
    return half((kept[scales + block / 2u] >> (16u * (block % 2u))) & 0xffffu);
}
