fn codes$(row: u32, run: u32) -> Codes {
    // Blocks are eleven times four words.
    let block = (row + 176u * (run / 8u)) / 16u;
    let sub = run % 8u;
    let header = weights$[block];
    let at = block + 3u + 2u * (sub / 2u);
    let shift = vec4<u32>(4u * (sub % 2u));
    let own = vec4<u32>(sub);
    let low = ((weights$[at] >> shift) & vec4<u32>(0x0f0f0f0fu)) | (((weights$[block + 1u] >> own) & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
    let high = ((weights$[at + 1u] >> shift) & vec4<u32>(0x0f0f0f0fu)) | (((weights$[block + 2u] >> own) & vec4<u32>(0x01010101u)) << vec4<u32>(4u));
    let factors = affine(header.yzw, sub);
    return unsigned_codes(low, high, half(header.x & 0xffffu) * factors.x, half(header.x >> 16u) * factors.y);
}
