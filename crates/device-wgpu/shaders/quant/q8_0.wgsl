fn q8_0_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let block = row + 34u * (group / 4u);
    let at = block + 2u + 8u * (group % 4u);
    let scale = half_at$(block);
    return Eight(scale * vec4<f32>(unpack4xI8(word$(at))), scale * vec4<f32>(unpack4xI8(word$(at + 4u))));
}
