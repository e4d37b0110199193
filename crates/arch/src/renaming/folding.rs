//! Multipliers of a directory that its family's GGUF has in its weights: Falcon-H1's, each where the format's own converter puts it.

use crate::config::{Config, Error};
use crate::families::FalconH1Factors as Factors;
use crate::name::Name;
use crate::renaming::Origin;
use crate::shape::{Ffn, Linear, Mixer, Parallel, Shape, StateSpace, StateSpaceScales};

/// The family that has such.
fn has(config: &Config<'_>) -> bool {
    config.family().name == "falcon-h1"
}

/// Whether a head that repeats the table does so no longer when both are multiplied.
#[expect(clippy::float_cmp, reason = "two settings are the same number or are not")]
pub(super) fn parts_head(config: &Config<'_>, shape: &Shape<Name>) -> bool {
    has(config) && shape.head.output.is_some() && shape.head.scale != shape.embed.scale
}

/// Moves the factors of `shape` to what fills its slots. One that `target` says otherwise stays, and is found to differ.
pub(super) fn fold(config: &Config<'_>, shape: &mut Shape<Origin>, target: &Shape<Name>) -> Result<(), Error> {
    if !has(config) {
        return Ok(());
    }
    let factors = Factors::read(config)?;
    let rows = shape.vocab;
    multiply(&mut shape.embed.table, &[(rows, factors.embed)]);
    if let Some(output) = &mut shape.head.output {
        whole(output, factors.head);
    }
    (shape.embed.scale, shape.head.scale) = (1.0, 1.0);
    for (block, like) in shape.blocks.iter_mut().zip(&target.blocks) {
        if let Some(Mixer::Parallel(parallel)) = block.mixer.as_mut().map(|branch| &mut branch.op) {
            let scale = like.mixer().and_then(Mixer::attention).map(|attention| attention.scale);
            fold_mixer(parallel, &factors, scale);
        }
        if let Some(branch) = &mut block.ffn
            && let Ffn::Dense(dense) = &mut branch.op
        {
            dense.gate.iter_mut().for_each(|gate| whole(gate, factors.mlp[0]));
            whole(&mut dense.down, factors.mlp[1]);
            (dense.gate_scale, branch.scale) = (1.0, 1.0);
        }
    }
    Ok(())
}

/// `scale` is that of scores in the file.
fn fold_mixer(parallel: &mut Parallel<Origin>, factors: &Factors, scale: Option<f32>) {
    let Parallel { attention, attention_scale, space, space_scale } = parallel;
    let stated = attention.scale / (factors.attention_in * factors.attention_in * factors.key);
    // Where a division does not come back to the same number, it is the file's.
    if let Some(scale) = scale.filter(|scale| (stated - scale).abs() <= 1e-6 * scale) {
        attention.scale = scale;
        whole(&mut attention.q, factors.attention_in);
        whole(&mut attention.k, factors.attention_in * factors.key);
        whole(&mut attention.v, factors.attention_in);
        whole(&mut attention.output, factors.attention_out);
        *attention_scale = 1.0;
    }
    whole(&mut space.output, factors.space_out);
    *space_scale = 1.0;
    fold_space(space, &factors.space);
}

fn fold_space(space: &mut StateSpace<Origin>, scales: &StateSpaceScales) {
    let (width, part) = (space.heads * space.head_dim, space.groups * space.state);
    let [x, b, c] = scales.input;
    whole(&mut space.gate, scales.gate);
    multiply(&mut space.input.weight, &[(width, x), (part, b), (part, c)]);
    whole(&mut space.step, scales.step);
    space.scales = StateSpaceScales::default();
}

fn whole(linear: &mut Linear<Origin>, factor: f32) {
    multiply(&mut linear.weight, &[(linear.rows, factor)]);
}

fn multiply(origin: &mut Origin, factors: &[(u32, f32)]) {
    if factors.iter().any(|&(_, factor)| factor != 1.0) {
        origin.factors = factors.to_vec();
    }
}
