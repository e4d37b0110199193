fn q4_k_eight$(row: u32, columns: u32, group: u32) -> Eight {
    // Blocks are whole words.
    let block = (row + 144u * (group / 32u)) / 4u;
    let g = group % 32u;
    let sub = g / 4u;
    let halves = weights$[block];
    let header = vec3<u32>(weights$[block + 1u], weights$[block + 2u], weights$[block + 3u]);
    let factors = affine(header, sub);
    let at = block + 4u + 8u * (sub / 2u) + 2u * (g % 4u);
    let shift = 4u * (sub % 2u);
    let low = unpack4xU8((weights$[at] >> shift) & 0x0f0f0f0fu);
    let high = unpack4xU8((weights$[at + 1u] >> shift) & 0x0f0f0f0fu);
    return scaled_less(half(halves & 0xffffu) * factors.x, low, high, half(halves >> 16u) * factors.y);
}
