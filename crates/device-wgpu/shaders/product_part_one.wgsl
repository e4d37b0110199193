// What a lane adds to the products of four rows of the matrix with one row of the buffer. The sums are a vector, which is registers on
// every driver; an array need not be.
fn sums$(part: Part, row: u32, lane: u32, first: u32, thread: u32) -> array<f32, SUMS> {
    var sums = vec4<f32>(0.0);
    if (row < part.rows) {
        let at = part.at + row * part.row_bytes;
        // Rows behind the last are the last again.
        let last = part.rows - row - 1u;
        let second = at + min(1u, last) * part.row_bytes;
        let third = at + min(2u, last) * part.row_bytes;
        let fourth = at + min(3u, last) * part.row_bytes;
        let groups = (args.columns + 7u) / 8u;
        for (var group = lane; group < groups; group += LANES) {
            let x = inputs(args.from_at + first * args.columns, args.columns, group);
            sums += vec4<f32>(
                dot_of(eight$(part.quant, at, args.columns, group), x),
                dot_of(eight$(part.quant, second, args.columns, group), x),
                dot_of(eight$(part.quant, third, args.columns, group), x),
                dot_of(eight$(part.quant, fourth, args.columns, group), x),
            );
        }
    }
    return array<f32, SUMS>(sums.x, sums.y, sums.z, sums.w);
}
