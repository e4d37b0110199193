fn q3_k_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 110u * (group / 32u);
    let g = group % 32u;
    let sub = g / 2u;
    let run = (sub / 2u) % 4u;
    let third = block + 16u * (sub % 2u) + 8u * (g % 2u);
    let at = block + 32u + 32u * (sub / 8u) + 16u * (sub % 2u) + 8u * (g % 2u);
    let bit = 4u * (sub / 8u) + run;
    let low = ((word$(at) >> (2u * run)) & 0x03030303u) | (((word$(third) >> bit) & 0x01010101u) << 2u);
    let high = ((word$(at + 4u) >> (2u * run)) & 0x03030303u) | (((word$(third + 4u) >> bit) & 0x01010101u) << 2u);
    let low_bits = (byte$(block + 96u + sub % 8u) >> (4u * (sub / 8u))) & 15u;
    let high_bits = (byte$(block + 104u + sub % 4u) >> (2u * (sub / 4u))) & 3u;
    let scale = half_at$(block + 108u) * (f32(low_bits | (high_bits << 4u)) - 32.0);
    return scaled(scale, unpack4xU8(low), unpack4xU8(high), 4.0);
}
