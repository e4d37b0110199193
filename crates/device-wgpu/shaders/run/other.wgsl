// Of types that have no way of their own: four times eight values.
fn run$(quant: u32, row: u32, columns: u32, run: u32, x: Run) -> f32 {
    let first = dot_of(eight$(quant, row, columns, 4u * run), Eight(x.a, x.b)) + dot_of(eight$(quant, row, columns, 4u * run + 1u), Eight(x.c, x.d));
    let second = dot_of(eight$(quant, row, columns, 4u * run + 2u), Eight(x.e, x.f)) + dot_of(eight$(quant, row, columns, 4u * run + 3u), Eight(x.g, x.h));
    return first + second;
}
