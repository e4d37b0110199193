fn run$(row: u32, run: u32, x: Run) -> f32 {
    let at = (row + 64u * run) / 16u;
    let sum = bf16_eight$(weights$[at], x.a, x.b) + bf16_eight$(weights$[at + 1u], x.c, x.d);
    return sum + (bf16_eight$(weights$[at + 2u], x.e, x.f) + bf16_eight$(weights$[at + 3u], x.g, x.h));
}

fn bf16_eight$(words: vec4<u32>, x: vec4<f32>, y: vec4<f32>) -> f32 {
    let even = bitcast<vec4<f32>>(words << vec4<u32>(16u));
    let odd = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
    return (dot(vec2<f32>(even.x, odd.x), x.xy) + dot(vec2<f32>(even.y, odd.y), x.zw)) + (dot(vec2<f32>(even.z, odd.z), y.xy) + dot(vec2<f32>(even.w, odd.w), y.zw));
}
