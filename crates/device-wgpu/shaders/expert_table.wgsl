// One matrix of an expert, out of the table in `vectors`: see `experts::words`.
struct Matrix {
    at: u32,
    row_bytes: u32,
    quant: u32,
    bias: u32,
}

// Matrix 0 is the gate, 1 up, 2 down.
fn matrix_of(table: u32, expert: u32, which: u32) -> Matrix {
    let at = table + 12u * expert + 4u * which;
    return Matrix(vectors[at], vectors[at + 1u], vectors[at + 2u], vectors[at + 3u]);
}
