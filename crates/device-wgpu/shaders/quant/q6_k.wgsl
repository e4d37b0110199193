fn q6_k_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 210u * (group / 32u);
    let g = group % 32u;
    let run = (g / 4u) % 4u;
    let at = block + 64u * (g / 16u) + 32u * (run % 2u) + 8u * (g % 4u);
    let above = block + 128u + 32u * (g / 16u) + 8u * (g % 4u);
    let shift = 4u * (run / 2u);
    let low = ((word$(at) >> shift) & 0x0f0f0f0fu) | (((word$(above) >> (2u * run)) & 0x03030303u) << 4u);
    let high = ((word$(at + 4u) >> shift) & 0x0f0f0f0fu) | (((word$(above + 4u) >> (2u * run)) & 0x03030303u) << 4u);
    let sub_scale = f32(extractBits(bitcast<i32>(byte$(block + 192u + g / 2u)), 0u, 8u));
    return scaled(half_at$(block + 208u) * sub_scale, unpack4xU8(low), unpack4xU8(high), 32.0);
}
