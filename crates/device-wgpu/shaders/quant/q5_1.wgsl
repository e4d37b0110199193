fn q5_1_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 24u * (group / 4u);
    let g = group % 4u;
    let shift = 4u * (g / 2u);
    let at = block + 8u + 8u * (g % 2u);
    let low = unpack4xU8((word$(at) >> shift) & 0x0f0f0f0fu);
    let high = unpack4xU8((word$(at + 4u) >> shift) & 0x0f0f0f0fu);
    let fifth = word$(block + 4u) >> (8u * g);
    let minimum = half_at$(block + 2u);
    return scaled_less(half_at$(block), low | fifth_bits(fifth), high | fifth_bits(fifth >> 4u), -minimum);
}
