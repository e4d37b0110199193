fn codes$(row: u32, run: u32) -> Codes {
    let at = (row + 64u * run) / 16u;
    let first = weights$[at];
    let second = weights$[at + 1u];
    let third = weights$[at + 2u];
    let fourth = weights$[at + 3u];
    return Codes(
        bf16_four$(first.xy),
        bf16_four$(first.zw),
        bf16_four$(second.xy),
        bf16_four$(second.zw),
        bf16_four$(third.xy),
        bf16_four$(third.zw),
        bf16_four$(fourth.xy),
        bf16_four$(fourth.zw),
        vec2<f32>(1.0),
        0.0,
    );
}

fn bf16_four$(words: vec2<u32>) -> vec4<f32> {
    let even = words << vec2<u32>(16u);
    let odd = words & vec2<u32>(0xffff0000u);
    return bitcast<vec4<f32>>(vec4<u32>(even.x, odd.x, even.y, odd.y));
}
