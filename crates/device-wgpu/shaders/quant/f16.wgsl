fn f16_eight$(row: u32, columns: u32, group: u32) -> Eight {
    let at = row + 16u * group;
    let rest = columns - 8u * group;
    return Eight(vec4<f32>(f16_pair$(at, rest, 0u), f16_pair$(at, rest, 2u)), vec4<f32>(f16_pair$(at, rest, 4u), f16_pair$(at, rest, 6u)));
}

fn f16_pair$(at: u32, rest: u32, first: u32) -> vec2<f32> {
    if (first >= rest) {
        return vec2<f32>(0.0);
    }
    let bits = word$(at + 2u * first);
    return vec2<f32>(half(bits & 0xffffu), select(0.0, half(bits >> 16u), first + 1u < rest));
}
