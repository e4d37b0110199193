// What is worked out, where workgroups write it together.

@group(0) @binding(6) var<storage, read_write> shared_words: array<atomic<u32>>;

fn worked_out(at: u32) -> u32 {
    return atomicLoad(&shared_words[at]);
}
