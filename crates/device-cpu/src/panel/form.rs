//! What panels look like: storage types that unpack to the same form are multiplied by the same code.

use std::marker::PhantomData;

/// What products have to know of a panel: storage types of the same form share theirs.
pub trait Form {
    /// Columns that share a scale: 16 or 32.
    const GROUP: usize;
    /// The largest byte.
    const MOST: u8;
    /// Whether the bytes take all eight bits: signed ones raised by 128. Otherwise they are under 128.
    const WIDE: bool = Self::MOST > 127;
    /// Whether a group has a minimum that is subtracted. Otherwise values were raised to make them unsigned.
    const MINIMUM: bool;
    /// What the scales of groups are.
    const SCALES: Scales;
}

/// What the scales of groups are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scales {
    /// Numbers.
    Numbers,
    /// Whole numbers, times a number of the block's. The products of a span's values with activations, times them, add up to less than
    /// 2^24: sums are exact as numbers.
    Small,
    /// The same but larger, under 2^31: sums are exact as integers, those of two groups as numbers, too.
    Large,
}

/// Groups of so many values raised to bytes of at most `MOST`, of a magnitude of at most half of the next number.
pub struct Raised<const GROUP: usize, const MOST: u8>;

impl<const GROUP: usize, const MOST: u8> Form for Raised<GROUP, MOST> {
    const GROUP: usize = GROUP;
    const MOST: u8 = MOST;
    const MINIMUM: bool = false;
    const SCALES: Scales = Scales::Numbers;
}

/// Groups of so many signed bytes, raised by 128.
pub struct Wide<const GROUP: usize>;

impl<const GROUP: usize> Form for Wide<GROUP> {
    const GROUP: usize = GROUP;
    const MOST: u8 = u8::MAX;
    const MINIMUM: bool = false;
    const SCALES: Scales = Scales::Numbers;
}

/// Groups of so many values above a minimum, of at most `MOST`.
pub struct WithMinimum<const GROUP: usize, const MOST: u8>;

impl<const GROUP: usize, const MOST: u8> Form for WithMinimum<GROUP, MOST> {
    const GROUP: usize = GROUP;
    const MOST: u8 = MOST;
    const MINIMUM: bool = true;
    const SCALES: Scales = Scales::Numbers;
}

/// The same with scales that are small whole numbers.
pub struct Small<F>(PhantomData<F>);

impl<F: Form> Form for Small<F> {
    const GROUP: usize = F::GROUP;
    const MOST: u8 = F::MOST;
    const MINIMUM: bool = F::MINIMUM;
    const SCALES: Scales = Scales::Small;
}

/// The same with scales that are large whole numbers.
pub struct Large<F>(PhantomData<F>);

impl<F: Form> Form for Large<F> {
    const GROUP: usize = F::GROUP;
    const MOST: u8 = F::MOST;
    const MINIMUM: bool = F::MINIMUM;
    const SCALES: Scales = Scales::Large;
}
