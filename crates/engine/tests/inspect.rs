//! What is said of a model without running it.

use std::path::Path;

/// Three layers, the first of them dense: two times eight experts of three matrices of 64 times 48, of which a token reads two.
#[test]
fn experts_that_a_token_does_not_choose_are_neither_active_nor_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/glm4moe");
    let inspection = kauri_engine::inspect(golden.to_str()).expect("the golden opens");
    let idle = 2 * 6 * 3 * 64 * 48;
    assert_eq!(inspection.parameters - inspection.active_parameters, idle);
    let structure: Vec<(&str, usize)> =
        inspection.structure.iter().map(|(words, count)| (&words[..], *count)).collect();
    assert!(structure[0].0.ends_with("+ gated feed-forward (96 wide, Silu)") && structure[0].1 == 1, "{structure:?}");
    assert!(structure[1].0.ends_with("+ 8 experts, 2 a token (48 wide, 48 shared)"), "{structure:?}");
    assert_eq!(structure[1].1, 2);
    // All of it is BF16, but for norms and biases, which become F32; of the embedding table a token reads a row.
    let matrices = 2 * (inspection.parameters - idle);
    assert!(inspection.bytes_per_token < matrices && inspection.bytes_per_token > matrices - 2 * 512 * 64);
}

/// Two of four layers look back over sixteen tokens: two heads of 32, keys and values, two bytes each.
#[test]
fn layers_with_a_window_are_counted_by_it() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/gptoss");
    let inspection = kauri_engine::inspect(golden.to_str()).expect("the golden opens");
    let layer = 2 * 2 * 32 * 2;
    assert_eq!(inspection.kv_bytes_per_token, 2 * layer);
    assert_eq!((inspection.window_tokens, inspection.window_bytes_per_sequence), (Some(16), 2 * 16 * layer));
}
