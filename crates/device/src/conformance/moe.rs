//! Mixtures of experts that are awkward: one expert, all of them chosen, one that every token chooses and one that none does,
//! groups, widths that are a multiple of nothing.

use kauri_arch::{Dense, GroupRank, Groups, Moe, Scoring, Shared};
use kauri_formats::Quant;

use super::{Case, Random};
use crate::weight::Weight;

/// The mixture of experts of a case.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    count: u32,
    chosen: u32,
    scoring: Scoring,
    /// A bias on the choice, by which every token chooses the first expert and none the last.
    biased: bool,
    groups: Option<Groups>,
    normalised: Option<f32>,
    scale: f32,
    /// The width of what is shared.
    shared: Option<u32>,
    /// Whether that has a gate.
    gate: bool,
    /// Types for the matrices, one after the other; the case's where there are none.
    quants: Vec<Quant>,
}

/// Every way of routing, with weights of every type.
pub(super) fn cases(quants: &[Quant], usual: &Case) -> Vec<Case> {
    let experts = |count, chosen, scoring| Experts {
        count,
        chosen,
        scoring,
        biased: false,
        groups: None,
        normalised: None,
        scale: 1.0,
        shared: None,
        gate: false,
        quants: Vec::new(),
    };
    let usual = Case { heads: 1, kv_heads: 1, ..usual.clone() };
    let case = |experts| Case { experts: Some(experts), ..usual.clone() };
    let softmax = experts(8, 3, Scoring::Softmax);
    let mut cases = vec![
        case(Experts { normalised: Some(0.0), ..softmax.clone() }),
        case(experts(1, 1, Scoring::Sigmoid)),
        case(experts(5, 5, Scoring::Softmax)),
        case(experts(33, 1, Scoring::SoftmaxOfChosen)),
        Case { biased: true, ffn: 31, hidden: 48, ..case(experts(4, 2, Scoring::SoftmaxOfChosen)) },
        Case { gated: false, head_norm: false, ..case(Experts { shared: Some(33), gate: true, ..softmax.clone() }) },
    ];
    let sigmoid = Experts { biased: true, normalised: Some(1e-20), scale: 1.5, ..experts(8, 2, Scoring::Sigmoid) };
    for rank in [GroupRank::Best, GroupRank::TwoBest] {
        let groups = Some(Groups { count: 4, kept: 2, rank });
        cases.push(case(Experts { groups, shared: Some(1), ..sigmoid.clone() }));
    }
    // As many types as there are go round in threes: experts differ from each other, and gates from what they go with.
    let types = Experts { quants: quants.to_vec(), ..experts(5, 3, Scoring::Softmax) };
    cases.push(Case { hidden: 256, ffn: 256, ..case(types) });
    for &quant in quants {
        let (hidden, ffn) = if super::is_long(quant) { (256, 512) } else { (64, 96) };
        let experts = Experts { shared: Some(ffn), ..sigmoid.clone() };
        cases.push(Case { quant, hidden, ffn, ..case(experts) });
    }
    cases
}

impl Case {
    /// The case's mixture; the router is of numbers, as it is in files.
    pub(super) fn moe(&self, random: &mut Random, experts: &Experts) -> Moe<Weight> {
        let exact = Self { quant: Quant::F32, ..self.clone() };
        let count = experts.count as usize;
        let mut each = experts.quants.iter().cycle();
        let mut next = || Self { quant: each.next().copied().unwrap_or(self.quant), ..self.clone() };
        let mut bias = vec![0.0; count];
        (bias[0], bias[count - 1]) = (10.0, -10.0);
        Moe {
            router: exact.linear(random, experts.count, self.hidden),
            scoring: experts.scoring,
            selection_bias: experts.biased.then_some(Weight::Vector(bias)),
            groups: experts.groups,
            chosen: experts.chosen,
            normalised: experts.normalised,
            scale: experts.scale,
            experts: (0..count)
                .map(|_| {
                    let gate = self.gated.then(|| next().linear(random, self.ffn, self.hidden));
                    Dense { gate, ..next().dense(random, self.ffn) }
                })
                .collect(),
            shared: experts.shared.map(|width| Shared {
                dense: self.dense(random, width),
                gate: experts.gate.then(|| exact.linear(random, 1, self.hidden)),
            }),
        }
    }

    /// A network of this width.
    pub(super) fn dense(&self, random: &mut Random, width: u32) -> Dense<Weight> {
        Dense {
            gate: self.gated.then(|| self.linear(random, width, self.hidden)),
            up: self.linear(random, width, self.hidden),
            down: self.linear(random, self.hidden, width),
            activation: self.activation,
            gate_scale: if self.soft_cap.is_some() && self.gated { 0.5 } else { 1.0 },
        }
    }
}
