fn codes$(row: u32, run: u32) -> Codes {
    let block = row + 34u * run;
    return signed_codes(sixteen$(block + 2u), sixteen$(block + 18u), vec2<f32>(half_at$(block)));
}
