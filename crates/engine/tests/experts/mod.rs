//! A mixture of experts made of the model inside: real weights of every layer, and a router that spreads real text over them.

use kauri_arch::{Dense, Ffn, Linear, Moe, Scoring, Shape, Shared};
use kauri_device::{Matrix, Weight};

/// The same model whose layers all have the networks of five layers as experts, three for a token (two would add up to the same in
/// either order), and that of another as what is shared.
pub fn mixed(shape: &Shape<Weight>) -> Shape<Weight> {
    let dense = |layer: usize| -> Dense<Weight> {
        match &shape.blocks[layer % shape.blocks.len()].ffn.as_ref().expect("a network").op {
            Ffn::Dense(dense) => dense.clone(),
            Ffn::Moe(_) | Ffn::Shifted(_) | Ffn::Apart(_) => unreachable!("the model inside is dense"),
        }
    };
    let mut mixed = shape.clone();
    for (index, block) in mixed.blocks.iter_mut().enumerate() {
        let experts: Vec<_> = (index..index + 5).map(dense).collect();
        // Any rows will do.
        let up = experts[0].up.weight.matrix();
        let router = |rows: usize| Linear {
            rows: rows as u32,
            columns: shape.hidden,
            weight: Weight::Matrix(Matrix {
                rows,
                data: up.data.slice(0..rows * up.row_bytes()).expect("as many rows"),
                scales: None,
                ..up.clone()
            }),
            bias: None,
        };
        let shared = Shared { dense: dense(index + 5), gate: Some(router(1)) };
        let bias = Some(Weight::Vector(vec![0.0, 0.1, -0.1, 0.2, 0.0]));
        block.ffn.as_mut().expect("a network").op = Ffn::Moe(Moe {
            router: router(experts.len()),
            scoring: Scoring::Sigmoid,
            selection_bias: bias,
            groups: None,
            chosen: 3,
            normalised: Some(1e-20),
            scale: 1.5,
            experts,
            shared: Some(shared),
        });
    }
    mixed
}
