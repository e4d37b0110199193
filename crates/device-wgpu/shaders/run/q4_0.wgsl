fn run$(row: u32, run: u32, x: Run) -> f32 {
    let block = row + 18u * run;
    let codes = sixteen$(block + 2u);
    // Sixteen times what a code stands for, which is eight less: a byte with a sign.
    let middle = vec4<u32>(0x80808080u);
    let low = ((codes << vec4<u32>(4u)) & vec4<u32>(0xf0f0f0f0u)) ^ middle;
    let high = (codes & vec4<u32>(0xf0f0f0f0u)) ^ middle;
    let sum = (meets_signed(x.a, x.b, low.x, low.y) + meets_signed(x.c, x.d, low.z, low.w)) + (meets_signed(x.e, x.f, high.x, high.y) + meets_signed(x.g, x.h, high.z, high.w));
    return 0.0625 * half_at$(block) * sum;
}
