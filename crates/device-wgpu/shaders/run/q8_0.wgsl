fn run$(row: u32, run: u32, x: Run) -> f32 {
    let block = row + 34u * run;
    let low = sixteen$(block + 2u);
    let high = sixteen$(block + 18u);
    let sum = (meets_signed(x.a, x.b, low.x, low.y) + meets_signed(x.c, x.d, low.z, low.w)) + (meets_signed(x.e, x.f, high.x, high.y) + meets_signed(x.g, x.h, high.z, high.w));
    return half_at$(block) * sum;
}
