//! The model inside with latent attention of seeded matrices.

use kauri_arch::{Latent, Linear, Mixer, Norm, Rope, RopeStyle, Shape};
use kauri_device::conformance::Random;
use kauri_device::{Matrix, Weight};
use kauri_formats::{Bytes, Quant};

/// Heads: more than a tile of attention has.
const HEADS: u32 = 19;

/// The same model whose layers have latent attention, with the matrices of keys as they are in every second and turned in the others.
pub fn mixed(shape: &Shape<Weight>) -> Shape<Weight> {
    let mut random = Random(77);
    let (hidden, rank, latent, rope_dims, nope_dims, value_dims) = (shape.hidden, 96, 128, 32, 64, 32);
    let mut linear = |rows: u32, columns: u32| {
        let values = random.values((rows * columns) as usize, 1.7 / (columns as f32).sqrt());
        let mut data = Vec::new();
        Quant::Q8_0.quantise(&values, columns as usize, None, &mut data).expect("a type that can be written");
        let (height, width) = (rows as usize, columns as usize);
        let matrix = Matrix { quant: Quant::Q8_0, rows: height, columns: width, data: Bytes::from(data), scales: None };
        Linear { rows, columns, weight: Weight::Matrix(matrix), bias: None }
    };
    let norm = |like: &Norm<Weight>, width: u32| Norm {
        width,
        weight: Weight::Vector(vec![1.0; width as usize]),
        ..like.clone()
    };
    let mut mixed = shape.clone();
    let rope = mixed.ropes.len();
    mixed.ropes.push(Rope { style: RopeStyle::Pairs, dims: rope_dims, ..mixed.ropes[0].clone() });
    for (index, block) in mixed.blocks.iter_mut().enumerate() {
        let turned = index % 2 == 1;
        let (rows, columns) = if turned { (nope_dims, latent) } else { (latent, nope_dims) };
        block.mixer.as_mut().expect("attention").op = Mixer::Latent(Latent {
            heads: HEADS,
            latent,
            rope_dims,
            nope_dims,
            value_dims,
            q_low: (!turned).then(|| (linear(rank, hidden), norm(&shape.norm, rank))),
            q: linear(HEADS * (nope_dims + rope_dims), if turned { hidden } else { rank }),
            kv: linear(latent + rope_dims, hidden),
            kv_norm: norm(&shape.norm, latent),
            keys: (0..HEADS).map(|_| linear(rows, columns)).collect(),
            turned,
            values: (0..HEADS).map(|_| linear(value_dims, latent)).collect(),
            output: linear(hidden, HEADS * value_dims),
            rope,
            scale: 0.1,
        });
    }
    mixed
}
