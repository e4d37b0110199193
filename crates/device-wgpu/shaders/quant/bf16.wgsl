fn bf16_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let at = row + 16u * group;
    let rest = columns - 8u * group;
    return Eight(vec4<f32>(bf16_pair$(at, rest, 0u), bf16_pair$(at, rest, 2u)), vec4<f32>(bf16_pair$(at, rest, 4u), bf16_pair$(at, rest, 6u)));
}

fn bf16_pair$(at: u32, rest: u32, first: u32) -> vec2<f32> {
    if (first >= rest) {
        return vec2<f32>(0.0);
    }
    let bits = word$(at + 2u * first);
    return vec2<f32>(bitcast<f32>(bits << 16u), select(0.0, bitcast<f32>(bits & 0xffff0000u), first + 1u < rest));
}
