fn f32_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let i = 8u * group;
    let at = row / 4u + i;
    return Eight(
        vec4<f32>(f32_at$(at, i < columns), f32_at$(at + 1u, i + 1u < columns), f32_at$(at + 2u, i + 2u < columns), f32_at$(at + 3u, i + 3u < columns)),
        vec4<f32>(f32_at$(at + 4u, i + 4u < columns), f32_at$(at + 5u, i + 5u < columns), f32_at$(at + 6u, i + 6u < columns), f32_at$(at + 7u, i + 7u < columns)),
    );
}

fn f32_at$(at: u32, is_there: bool) -> f32 {
    if (is_there) {
        return bitcast<f32>(weights$[at]);
    }
    return 0.0;
}
