fn codes$(row: u32, run: u32) -> Codes {
    let block = row + 18u * run;
    let words = sixteen$(block + 2u);
    // Sixteen times what a code stands for, which is eight less: a byte with a sign.
    let middle = vec4<u32>(0x80808080u);
    let low = ((words << vec4<u32>(4u)) & vec4<u32>(0xf0f0f0f0u)) ^ middle;
    let high = (words & vec4<u32>(0xf0f0f0f0u)) ^ middle;
    return signed_codes(low, high, vec2<f32>(0.0625 * half_at$(block)));
}
