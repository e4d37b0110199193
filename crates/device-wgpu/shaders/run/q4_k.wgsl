fn codes$(row: u32, run: u32) -> Codes {
    // Blocks are nine times four words.
    let block = (row + 144u * (run / 8u)) / 16u;
    let sub = run % 8u;
    let header = weights$[block];
    let at = block + 1u + 2u * (sub / 2u);
    let shift = vec4<u32>(4u * (sub % 2u));
    let low = (weights$[at] >> shift) & vec4<u32>(0x0f0f0f0fu);
    let high = (weights$[at + 1u] >> shift) & vec4<u32>(0x0f0f0f0fu);
    let factors = affine(header.yzw, sub);
    return unsigned_codes(low, high, half(header.x & 0xffffu) * factors.x, half(header.x >> 16u) * factors.y);
}
