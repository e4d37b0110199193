fn q5_k_eight$(row: u32, columns: u32, group: u32) -> Eight {
    // Blocks are whole words.
    let block = (row + 176u * (group / 32u)) / 4u;
    let g = group % 32u;
    let sub = g / 4u;
    let halves = weights$[block];
    let header = vec3<u32>(weights$[block + 1u], weights$[block + 2u], weights$[block + 3u]);
    let factors = affine(header, sub);
    let fifth = block + 4u + 2u * (g % 4u);
    let at = block + 12u + 8u * (sub / 2u) + 2u * (g % 4u);
    let shift = 4u * (sub % 2u);
    let low = ((weights$[at] >> shift) & 0x0f0f0f0fu) | (((weights$[fifth] >> sub) & 0x01010101u) << 4u);
    let high = ((weights$[at + 1u] >> shift) & 0x0f0f0f0fu) | (((weights$[fifth + 1u] >> sub) & 0x01010101u) << 4u);
    return scaled_less(half(halves & 0xffffu) * factors.x, unpack4xU8(low), unpack4xU8(high), half(halves >> 16u) * factors.y);
}
