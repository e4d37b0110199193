fn q2_k_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 84u * (group / 32u);
    let g = group % 32u;
    let sub = g / 2u;
    let shift = 2u * ((sub / 2u) % 4u);
    let at = block + 16u + 32u * (sub / 8u) + 16u * (sub % 2u) + 8u * (g % 2u);
    let factors = byte$(block + sub);
    let low = unpack4xU8((word$(at) >> shift) & 0x03030303u);
    let high = unpack4xU8((word$(at + 4u) >> shift) & 0x03030303u);
    return scaled_less(half_at$(block + 80u) * f32(factors & 15u), low, high, half_at$(block + 82u) * f32(factors >> 4u));
}
