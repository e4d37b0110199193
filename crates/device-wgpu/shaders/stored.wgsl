// Bytes of matrices as they are stored, in `weights$`.

// Four bytes, wherever they begin.
fn word$(at: u32) -> u32 {
    let index = at >> 2u;
    let shift = 8u * (at & 3u);
    if (shift == 0u) {
        return weights$[index];
    }
    return (weights$[index] >> shift) | (weights$[index + 1u] << (32u - shift));
}

fn byte$(at: u32) -> u32 {
    return (weights$[at >> 2u] >> (8u * (at & 3u))) & 255u;
}

// A number of half precision, at a multiple of two.
fn half_at$(at: u32) -> f32 {
    return half((weights$[at >> 2u] >> (8u * (at & 2u))) & 0xffffu);
}
