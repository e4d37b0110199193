// What is worked out, where one workgroup has a row.

fn worked_out(at: u32) -> u32 {
    return kept[at];
}
