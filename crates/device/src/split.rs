//! One model on several devices: each holds some of its blocks in a row, and hands the stream of a step on to the next.
//!
//! Pages and slots have the same numbers on all of them. A page, and a state, is the bytes that the first device keeps of it, then those of the
//! next. What devices they are, and why each holds as much as it does, is not known here.

use std::ops::Range;

use kauri_arch::Shape;

use crate::batch::{Batch, Plan};
use crate::buffers::Buffer;
use crate::executor::{Choice, DeviceError, Executor, Sampled};
use crate::forward::Ends;
use crate::measure::{Ceilings, OpCost};
use crate::memory::{self, Memory};
use crate::weight::Weight;

/// What one block of a model leaves for those behind it.
const HANDED: [Buffer; 2] = [Buffer::Stream, Buffer::First];

/// A device that holds some blocks of a model in a row.
pub trait Stage: Executor {
    /// As [`Executor::launch`], with the values that the device before handed on: (tokens, width) of each buffer; of none where this one
    /// begins the model. Gives the block that it came to where another device has the experts; nothing where it is done.
    ///
    /// # Errors
    /// When the device is lost.
    fn launch_behind(&mut self, batch: &Batch, handed: &[(Buffer, Vec<f32>)]) -> Result<Option<usize>, DeviceError>;

    /// Goes on behind the experts of block `block`, which came to this mixture: (tokens, hidden). Gives what
    /// [`launch_behind`](Self::launch_behind) does.
    ///
    /// # Errors
    /// When the device is lost.
    fn resume(&mut self, block: usize, mixture: &[f32]) -> Result<Option<usize>, DeviceError>;

    /// The first values of a buffer as the launched batch leaves it; waits for it.
    ///
    /// # Errors
    /// When the device is lost.
    fn hand_on(&mut self, buffer: Buffer, values: &mut [f32]) -> Result<(), DeviceError>;
}

/// Some blocks of a model in a row as a shape of its own, and which of the model's ends it has. What lies at the others is not in it.
pub fn part(shape: &Shape<Weight>, blocks: Range<usize>) -> (Shape<Weight>, Ends) {
    let ends = Ends { begins: blocks.start == 0, closes: blocks.end == shape.blocks.len() };
    let mut part = Shape { blocks: Vec::new(), ..shape.clone() };
    part.blocks.extend_from_slice(&shape.blocks[blocks]);
    if !ends.begins {
        (part.embed.places, part.embed.kinds, part.embed.norm) = (None, None, None);
        // A table that nobody reads there: the one that the part has at its other end, or a row of its own.
        part.embed.table = match &shape.head.output {
            Some(output) if ends.closes => output.weight.clone(),
            Some(_) | None => first_row(&shape.embed.table),
        };
    }
    if !ends.closes {
        part.head.output = None;
    }
    (part, ends)
}

pub(crate) fn first_row(table: &Weight) -> Weight {
    let table = table.matrix();
    Weight::Matrix(table.pick(&[0]))
}

/// A model on several devices.
pub struct Split {
    stages: Vec<Box<dyn Stage>>,
    /// Blocks of each.
    blocks: Vec<usize>,
    plan: Plan,
    /// Values of a token in what is handed on.
    widths: Vec<(Buffer, usize)>,
    handed: Vec<(Buffer, Vec<f32>)>,
    measuring: bool,
    costs: Vec<OpCost>,
}

impl Split {
    /// Of devices that were given [`part`]s of `shape`, all of it in its order, with so many blocks each.
    ///
    /// # Panics
    /// If they have not all blocks of the model, or were sized differently: mistakes of who made them.
    pub fn new(shape: &Shape<Weight>, stages: Vec<(Box<dyn Stage>, usize)>) -> Self {
        let (stages, blocks): (Vec<_>, Vec<_>) = stages.into_iter().unzip();
        assert_eq!(blocks.iter().sum::<usize>(), shape.blocks.len(), "all blocks of the model");
        let plan = *stages[0].plan();
        assert!(stages.iter().all(|stage| *stage.plan() == plan), "devices of one model have the same pages and slots");
        let tokens = plan.batch_tokens.max(1) as usize;
        let widths = HANDED.map(|buffer| (buffer, buffer.values(shape, &plan) / tokens));
        let widths: Vec<_> = widths.into_iter().filter(|&(_, width)| width > 0).collect();
        let handed = widths.iter().map(|&(buffer, width)| (buffer, Vec::with_capacity(width * tokens))).collect();
        Self { stages, blocks, plan, widths, handed, measuring: false, costs: Vec::new() }
    }

    fn last(&mut self) -> &mut dyn Stage {
        &mut **self.stages.last_mut().expect("there is a device")
    }
}

/// Puts together what devices measured.
pub(crate) fn sum_costs<'a>(sums: &mut Vec<OpCost>, costs: impl Iterator<Item = &'a OpCost>) {
    sums.clear();
    for cost in costs {
        match sums.iter_mut().find(|known| known.name == cost.name) {
            Some(known) => {
                known.calls += cost.calls;
                known.bytes += cost.bytes;
                known.operations += cost.operations;
                known.seconds += cost.seconds;
            }
            None => sums.push(*cost),
        }
    }
}

impl Memory for Split {
    fn page_bytes(&self) -> usize {
        self.stages.iter().map(|stage| stage.page_bytes()).sum()
    }

    fn state_bytes(&self) -> usize {
        self.stages.iter().map(|stage| stage.state_bytes()).sum()
    }

    fn read_page(&mut self, page: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::check("a page", self.page_bytes(), to.len())?;
        let mut rest = to;
        self.stages.iter_mut().try_for_each(|stage| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(stage.page_bytes());
            rest = behind;
            stage.read_page(page, part)
        })
    }

    fn write_page(&mut self, page: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::check("a page", self.page_bytes(), from.len())?;
        let mut rest = from;
        self.stages.iter_mut().try_for_each(|stage| {
            let (part, behind) = rest.split_at(stage.page_bytes());
            rest = behind;
            stage.write_page(page, part)
        })
    }

    fn read_state(&mut self, slot: u32, to: &mut [u8]) -> Result<(), DeviceError> {
        memory::check("a state", self.state_bytes(), to.len())?;
        let mut rest = to;
        self.stages.iter_mut().try_for_each(|stage| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(stage.state_bytes());
            rest = behind;
            stage.read_state(slot, part)
        })
    }

    fn write_state(&mut self, slot: u32, from: &[u8]) -> Result<(), DeviceError> {
        memory::check("a state", self.state_bytes(), from.len())?;
        let mut rest = from;
        self.stages.iter_mut().try_for_each(|stage| {
            let (part, behind) = rest.split_at(stage.state_bytes());
            rest = behind;
            stage.write_state(slot, part)
        })
    }

    fn arithmetic(&self) -> String {
        let parts = self.stages.iter().zip(&self.blocks);
        let parts: Vec<String> =
            parts.map(|(stage, blocks)| format!("{blocks} blocks: {}", stage.arithmetic())).collect();
        parts.join("; ")
    }
}

impl Executor for Split {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn name(&self) -> String {
        let parts = self.stages.iter().zip(&self.blocks);
        let layers = |blocks: usize| if blocks == 1 { "layer" } else { "layers" };
        let parts: Vec<String> =
            parts.map(|(stage, &blocks)| format!("{} ({blocks} {})", stage.name(), layers(blocks))).collect();
        parts.join(", then ")
    }

    fn launch(&mut self, batch: &Batch) -> Result<(), DeviceError> {
        let Self { stages, widths, handed, .. } = self;
        let mut before: Option<&mut Box<dyn Stage>> = None;
        for stage in stages {
            match before {
                None => {
                    stage.launch_behind(batch, &[])?;
                }
                Some(before) => {
                    for ((buffer, values), (_, width)) in handed.iter_mut().zip(widths.iter()) {
                        values.resize(width * batch.tokens.len(), 0.0);
                        before.hand_on(*buffer, values)?;
                    }
                    stage.launch_behind(batch, handed)?;
                }
            }
            before = Some(stage);
        }
        Ok(())
    }

    fn sample(&mut self, choices: &[Choice<'_>]) -> Result<Sampled<'_>, DeviceError> {
        if self.measuring {
            sum_costs(&mut self.costs, self.stages.iter().flat_map(|stage| stage.measured()));
        }
        self.last().sample(choices)
    }

    fn draws(&self) -> bool {
        self.stages.last().is_some_and(|stage| stage.draws())
    }

    fn rows(&mut self) -> Result<&[f32], DeviceError> {
        self.last().rows()
    }

    fn copy_state(&mut self, from: u32, to: u32) -> Result<(), DeviceError> {
        self.stages.iter_mut().try_for_each(|stage| stage.copy_state(from, to))
    }

    fn measure(&mut self, on: bool) {
        self.measuring = on;
        self.stages.iter_mut().for_each(|stage| stage.measure(on));
    }

    /// Those of the first device, which the others wait for.
    fn ceilings(&mut self) -> Ceilings {
        self.stages[0].ceilings()
    }

    fn measured(&self) -> &[OpCost] {
        &self.costs
    }
}
