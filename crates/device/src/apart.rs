//! One model on two devices by what its layers are made of: one has all but the experts of some layers, and the other has those.
//!
//! The first runs the forward pass and stops at each such layer; the stream of the step goes to the second, which norms and routes it, and the sum of
//! the experts comes back: twice the width of the model a token and layer. Pages, states and all that is chosen are the first one's. What
//! devices they are, and why the second has those layers' experts, is not known here.

use kauri_arch::{Block, Branch, Ffn, Moe, Shape};

use crate::batch::{Batch, Plan};
use crate::buffers::Buffer;
use crate::executor::{Choice, DeviceError, Executor, Sampled};
use crate::measure::{Ceilings, OpCost};
use crate::memory::Memory;
use crate::split::{self, Stage};
use crate::weight::Weight;

/// A device that has the experts of some layers.
pub trait Experts: Executor {
    /// Takes the batch that the next mixtures are of.
    fn begin(&mut self, batch: &Batch);

    /// The sum of the experts of block `block`, of the stream in front of their norm: both (tokens, hidden).
    fn mix(&mut self, block: usize, stream: &[f32], mixture: &mut [f32]);
}

/// The first so many layers that have experts, as places in the model.
pub fn layers<W>(shape: &Shape<W>, count: usize) -> impl Iterator<Item = usize> {
    let has = |block: &Block<W>| block.ffn.as_ref().is_some_and(|ffn| ffn.op.moe().is_some());
    let places = shape.blocks.iter().enumerate().filter(move |(_, block)| has(block)).map(|(index, _)| index);
    places.take(count)
}

/// A model without the experts of its first `count` layers that have some, and those experts as a shape of their own, with as many blocks. What
/// every token goes through beside them stays in the first.
pub fn parts(shape: &Shape<Weight>, count: usize) -> (Shape<Weight>, Shape<Weight>) {
    let nothing = |block: &Block<Weight>| Block { mixer: None, ffn: None, wiring: block.wiring };
    let mut rest = shape.clone();
    let mut experts = Shape { blocks: shape.blocks.iter().map(nothing).collect(), ..shape.clone() };
    for index in layers(shape, count) {
        let Some(Branch { op: Ffn::Moe(moe), norm, .. }) = &shape.blocks[index].ffn else { continue };
        let there = Branch {
            op: Ffn::Moe(Moe { shared: None, ..moe.clone() }),
            norm: norm.clone(),
            post_norm: None,
            scale: 1.0,
        };
        experts.blocks[index].ffn = Some(there);
        if let Some(here) = &mut rest.blocks[index].ffn {
            here.op = Ffn::Apart(moe.shared.clone());
        }
    }
    (experts.embed.places, experts.embed.kinds, experts.embed.norm) = (None, None, None);
    experts.embed.table = split::first_row(&shape.embed.table);
    experts.head.output = None;
    experts.ropes = Vec::new();
    (rest, experts)
}

/// A model on two devices.
pub struct Apart {
    stage: Box<dyn Stage>,
    experts: Box<dyn Experts>,
    /// Layers whose experts the second has.
    layers: usize,
    /// (tokens, hidden): what goes there, and what comes back.
    stream: Vec<f32>,
    mixture: Vec<f32>,
    hidden: usize,
    measuring: bool,
    costs: Vec<OpCost>,
}

impl Apart {
    /// Of devices that were given the two [`parts`] of `shape` for so many `layers`, or for all that there are.
    ///
    /// # Panics
    /// If they were sized differently: a mistake of who made them.
    pub fn new(shape: &Shape<Weight>, stage: Box<dyn Stage>, experts: Box<dyn Experts>, layers: usize) -> Self {
        assert_eq!(stage.plan().batch_tokens, experts.plan().batch_tokens, "devices of one model take the same steps");
        let values = stage.plan().batch_tokens as usize * shape.hidden as usize;
        let [stream, mixture] = [(); 2].map(|()| vec![0.0; values]);
        let (hidden, layers) = (shape.hidden as usize, self::layers(shape, layers).count());
        Self { stage, experts, layers, stream, mixture, hidden, measuring: false, costs: Vec::new() }
    }
}

impl Memory for Apart {
    fn page_bytes(&self) -> usize {
        self.stage.page_bytes()
    }

    fn state_bytes(&self) -> usize {
        self.stage.state_bytes()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.stage.read_page(page, to)
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.stage.write_page(page, from)
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        self.stage.read_state(slot, to)
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        self.stage.write_state(slot, from)
    }

    fn arithmetic(&self) -> String {
        format!("{}; experts of {} layers: {}", self.stage.arithmetic(), self.layers, self.experts.arithmetic())
    }
}

impl Executor for Apart {
    fn plan(&self) -> &Plan {
        self.stage.plan()
    }

    fn name(&self) -> String {
        let layers = if self.layers == 1 { "layer" } else { "layers" };
        format!("{}, with the experts of {} {layers} on {}", self.stage.name(), self.layers, self.experts.name())
    }

    fn launch(&mut self, batch: &Batch) -> Result<(), DeviceError> {
        let values = batch.tokens.len() * self.hidden;
        let (stream, mixture) = (&mut self.stream[..values], &mut self.mixture[..values]);
        self.experts.begin(batch);
        let mut at = self.stage.launch_behind(batch, &[])?;
        while let Some(block) = at {
            self.stage.hand_on(Buffer::Stream, stream)?;
            self.experts.mix(block, stream, mixture);
            at = self.stage.resume(block, mixture)?;
        }
        Ok(())
    }

    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError> {
        if self.measuring {
            split::sum_costs(&mut self.costs, self.stage.measured().iter().chain(self.experts.measured()));
        }
        self.stage.sample(choices)
    }

    fn draws(&self) -> bool {
        self.stage.draws()
    }

    fn rows(&mut self) -> Result<&[f32], DeviceError> {
        self.stage.rows()
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError> {
        self.stage.copy_state(from, to)
    }

    fn measure(&mut self, on: bool) {
        self.measuring = on;
        self.stage.measure(on);
        self.experts.measure(on);
    }

    /// Those of the device that has the experts, which the other waits for.
    fn ceilings(&mut self) -> Ceilings {
        self.experts.ceilings()
    }

    fn measured(&self) -> &[OpCost] {
        &self.costs
    }
}
