fn iq4_xs_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 136u * (group / 32u);
    let g = group % 32u;
    let sub = g / 4u;
    let at = block + 8u + 16u * sub + 8u * (g % 2u);
    let shift = 4u * ((g / 2u) % 2u);
    let head = word$(block);
    let low_bits = (byte$(block + 4u + sub / 2u) >> (4u * (sub % 2u))) & 15u;
    let high_bits = (head >> (16u + 2u * sub)) & 3u;
    let scale = half(head & 0xffffu) * (f32(low_bits | (high_bits << 4u)) - 32.0);
    let low = unpack4xU8((word$(at) >> shift) & 0x0f0f0f0fu);
    let high = unpack4xU8((word$(at + 4u) >> shift) & 0x0f0f0f0fu);
    return Eight(scale * iq4_levels(low), scale * iq4_levels(high));
}
