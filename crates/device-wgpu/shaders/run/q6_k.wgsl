fn codes$(row: u32, run: u32) -> Codes {
    let block = row + 210u * (run / 8u);
    let part = (run % 8u) / 4u;
    let quarter = run % 4u;
    let at = block + 64u * part + 32u * (quarter % 2u);
    let above = block + 128u + 32u * part;
    // The factors of both sixteens are neighbours at a multiple of two.
    let factors = bitcast<i32>(word$(block + 192u + 2u * (run % 8u)));
    let scale = vec2<f32>(vec2<i32>(extractBits(factors, 0u, 8u), extractBits(factors, 8u, 8u)));
    let low = signed$(sixteen$(at), sixteen$(above), quarter);
    let high = signed$(sixteen$(at + 16u), sixteen$(above + 16u), quarter);
    return signed_codes(low, high, 0.25 * half_at$(block + 208u) * scale);
}

// Four times what codes stand for, which is 32 less: bytes with a sign.
fn signed$(low: vec4<u32>, above: vec4<u32>, quarter: u32) -> vec4<u32> {
    let nibbles = ((low >> vec4<u32>(4u * (quarter / 2u))) & vec4<u32>(0x0f0f0f0fu)) << vec4<u32>(2u);
    let upper = ((above >> vec4<u32>(2u * quarter)) & vec4<u32>(0x03030303u)) << vec4<u32>(6u);
    return (nibbles | upper) ^ vec4<u32>(0x80808080u);
}
