// Writing a head's row to the cache out of the workgroup's memory.

// The row that is written; zeros behind its end, up to a multiple of 64 values.
var<workgroup> own: array<f32, ROW_MAX>;

// Half precision, to the nearest, ties to even: what is built in may round either way.
fn to_half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) {
        return sign | select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
    }
    if (magnitude < 0x38800000u) {
        // Tiny: a whole number of the smallest step.
        return sign | u32(round(abs(x) * 0x1p24));
    }
    let rounded = magnitude + 0xfffu + ((magnitude >> 13u) & 1u);
    return sign | ((rounded - 0x38000000u) >> 13u);
}

// The largest of a block of 32.
fn block_most(block: u32) -> f32 {
    var most = 0.0;
    for (var i = 0u; i < 32u; i++) {
        most = max(most, abs(own[32u * block + i]));
    }
    return most;
}

fn code(x: f32, most: f32, limit: f32) -> i32 {
    if (most > 0.0) {
        return i32(round(x / (most / limit)));
    }
    return 0;
}

// Writes the row of `width` values, of which each thread writes some words. All of it is in `own`.
fn put(values: u32, scales: u32, width: u32, thread: u32) {
    let words = row_words(width);
    for (var i = thread; i < words; i += THREADS) {
        var word = 0u;
        switch CACHE {
            case 0u: {
                word = bitcast<u32>(own[i]);
            }
            case 1u: {
                word = to_half(own[2u * i]) | (to_half(own[2u * i + 1u]) << 16u);
            }
            case 2u: {
                let most = block_most(i / 8u);
                for (var j = 0u; j < 4u; j++) {
                    word |= (bitcast<u32>(code(own[4u * i + j], most, 127.0)) & 255u) << (8u * j);
                }
            }
            default: {
                let most = block_most(i / 4u);
                for (var j = 0u; j < 8u; j++) {
                    word |= (bitcast<u32>(code(own[8u * i + j], most, 7.0) + 8) & 15u) << (4u * j);
                }
            }
        }
        kept[values + i] = word;
    }
    let limit = select(7.0, 127.0, CACHE == 2u);
    for (var i = thread; i < scale_words(width); i += THREADS) {
        kept[scales + i] = to_half(block_most(2u * i) / limit) | (to_half(block_most(2u * i + 1u) / limit) << 16u);
    }
}
