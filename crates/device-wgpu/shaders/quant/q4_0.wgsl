fn q4_0_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 18u * (group / 4u);
    let g = group % 4u;
    let shift = 4u * (g / 2u);
    let at = block + 2u + 8u * (g % 2u);
    let low = unpack4xU8((word$(at) >> shift) & 0x0f0f0f0fu);
    let high = unpack4xU8((word$(at + 4u) >> shift) & 0x0f0f0f0fu);
    return scaled(half_at$(block), low, high, 8.0);
}
