//! A type for each tensor so that a file of a given size is as near to its source as it can be.
//!
//! What a type costs a tensor is the error of what the matrix gives, in shares of what it gives, on inputs as the importance matrix
//! saw them: `sum(m (w - w')^2) / sum(m w^2)`, where `m` is the mean square of an input. What it costs the model is that times how
//! much the model minds, which is measured or taken from a table. With a price for a byte each tensor then chooses for itself; the
//! price that fits the size is found by halving, and what is left over goes where it helps most (Lagrangian relaxation of the
//! knapsack problem: Everett 1963).

use kauri_formats::Quant;

use crate::draft::{Draft, Planned};
use crate::importance::Importance;
use crate::quantize::{self, Error};

/// Types to choose from, where rows are whole blocks of 256.
const LARGE_BLOCKS: &[Quant] =
    &[Quant::Q2_K, Quant::Q3_K, Quant::IQ4_XS, Quant::Q4_K, Quant::Q5_K, Quant::Q6_K, Quant::Q8_0, Quant::BF16];
/// The same where they are only of 32.
const SMALL_BLOCKS: &[Quant] = &[Quant::IQ4_NL, Quant::Q4_1, Quant::Q5_0, Quant::Q5_1, Quant::Q8_0, Quant::BF16];
/// Rows of a tensor that are tried.
const ROWS_TRIED: usize = 256;

/// One tensor's choices.
#[derive(Clone, Debug)]
struct Choice {
    /// Which tensor.
    tensor: usize,
    /// Types with their bytes and costs, from the smallest on, each dearer and better than the one before.
    offers: Vec<(Quant, u64, f64)>,
    taken: usize,
}

/// Types with which the file takes at most `target_bytes`. `minds` says how much the model minds an error in a tensor; `tell` is
/// told how many tensors of how many were tried.
///
/// # Errors
/// When a value of the source is no number, or the smallest file is larger than that.
pub fn types(
    draft: &Draft,
    importance: Option<&Importance>,
    target_bytes: u64,
    minds: &dyn Fn(&Planned) -> f64,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Quant>, Error> {
    let spare = spare_bytes(draft, target_bytes)?;
    let mut types: Vec<Quant> = draft.tensors.iter().map(|tensor| tensor.quant).collect();
    let open: Vec<usize> = (0..types.len()).filter(|&index| crate::mix::may_change(&draft.tensors[index])).collect();
    let mut choices = Vec::new();
    for (done, &index) in open.iter().enumerate() {
        let tensor = &draft.tensors[index];
        let offers = offers(tensor, importance, minds(tensor))?;
        if !offers.is_empty() {
            choices.push(Choice { tensor: index, offers, taken: 0 });
        }
        tell(done + 1, open.len());
    }
    spend(&mut choices, spare);
    for choice in &choices {
        types[choice.tensor] = choice.offers[choice.taken].0;
    }
    Ok(types)
}

/// What a file of the smallest types leaves of so many bytes: known before anything is tried, which takes minutes.
///
/// # Errors
/// When that file is larger.
pub fn spare_bytes(draft: &Draft, target_bytes: u64) -> Result<u64, Error> {
    let smallest = |tensor: &Planned| {
        let sizes = candidates(tensor).iter().filter_map(|&quant| Some((tensor.bytes(quant)?, quant)));
        sizes.min_by_key(|&(bytes, _)| bytes).map_or(tensor.quant, |(_, quant)| quant)
    };
    let types: Vec<Quant> = draft
        .tensors
        .iter()
        .map(|tensor| if crate::mix::may_change(tensor) { smallest(tensor) } else { tensor.quant })
        .collect();
    let least = quantize::file_bytes(draft, &types)?;
    target_bytes.checked_sub(least).ok_or_else(|| Error::Type {
        tensor: "list".to_owned(),
        reason: format!("the smallest file would take {least} bytes, more than the {target_bytes} asked for"),
    })
}

/// Takes better offers than the first of each for so many bytes more in all.
fn spend(choices: &mut [Choice], spare_bytes: u64) {
    let take = |choices: &mut [Choice], price: f64| -> u64 {
        let mut bytes = 0;
        for choice in choices {
            let cost = |(_, bytes, error): &(Quant, u64, f64)| error + price * *bytes as f64;
            let best =
                (0..choice.offers.len()).min_by(|&a, &b| cost(&choice.offers[a]).total_cmp(&cost(&choice.offers[b])));
            choice.taken = best.unwrap_or(0);
            bytes += choice.offers[choice.taken].1 - choice.offers[0].1;
        }
        bytes
    };
    // A price of nothing takes the best of everything; one beyond all errors the smallest.
    if take(choices, 0.0) <= spare_bytes {
        return;
    }
    let (mut low, mut high) = (0.0, f64::MAX.sqrt());
    for _ in 0..1100 {
        let middle = if low == 0.0 { high / 2.0 } else { f64::midpoint(low, high) };
        if take(choices, middle) > spare_bytes {
            low = middle;
        } else {
            high = middle;
        }
        if high / 2.0 <= low && (high - low) <= low * 1e-12 {
            break;
        }
    }
    let mut left = spare_bytes - take(choices, high).min(spare_bytes);
    // What is left buys the improvements that are worth most for a byte.
    loop {
        let worth = |choice: &Choice| {
            let (now, next) = (&choice.offers[choice.taken], choice.offers.get(choice.taken + 1)?);
            let more = next.1 - now.1;
            (more <= left).then(|| (more, (now.2 - next.2) / more.max(1) as f64))
        };
        let best = (0..choices.len())
            .filter_map(|index| Some((index, worth(&choices[index])?)))
            .max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        let Some((index, (bytes, _))) = best else { return };
        choices[index].taken += 1;
        left -= bytes;
    }
}

/// The types that a tensor's rows can be cut into blocks of.
fn candidates(tensor: &Planned) -> &'static [Quant] {
    if tensor.columns().is_multiple_of(256) { LARGE_BLOCKS } else { SMALL_BLOCKS }
}

/// Types with what they take and cost, those left out that another beats in both.
fn offers(tensor: &Planned, importance: Option<&Importance>, minds: f64) -> Result<Vec<(Quant, u64, f64)>, Error> {
    let tried = Tried::of(tensor, importance);
    let mut offers = Vec::new();
    for &quant in candidates(tensor) {
        let Some(bytes) = tensor.bytes(quant) else { continue };
        offers.push((quant, bytes, minds * tried.error(tensor, quant)?));
    }
    offers.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2)));
    let mut best = f64::INFINITY;
    offers.retain(|offer| {
        let better = offer.2 < best;
        best = best.min(offer.2);
        better
    });
    Ok(offers)
}

/// Rows of a tensor, evenly taken.
struct Tried {
    rows: Vec<(usize, Vec<f32>)>,
    means: Option<Vec<f32>>,
}

impl Tried {
    fn of(tensor: &Planned, importance: Option<&Importance>) -> Self {
        let (all, columns) = (tensor.rows(), tensor.columns());
        let count = all.min(ROWS_TRIED);
        let row = |index: usize| {
            let (row, mut values) = (index * all / count, Vec::with_capacity(columns));
            tensor.values(row..row + 1, &mut values);
            (row, values)
        };
        let matrices = all / tensor.rows_of_one().max(1);
        let means = importance.and_then(|importance| importance.means(&tensor.name));
        Self { rows: (0..count).map(row).collect(), means: means.filter(|means| means.len() == columns * matrices) }
    }

    /// The error of the matrix's outputs in shares of them.
    fn error(&self, tensor: &Planned, quant: Quant) -> Result<f64, Error> {
        let columns = tensor.columns();
        let mut back = vec![0.0; columns];
        let (mut off, mut all) = (0.0, 0.0);
        for (row, values) in &self.rows {
            if !values.iter().all(|value| value.is_finite()) {
                return Err(Error::NotFinite { tensor: tensor.name.clone() });
            }
            quant.dequantise(&quantize::encoded(tensor, quant, self.means.as_deref(), *row, values)?, &mut back);
            let matrix = row / tensor.rows_of_one().max(1);
            for (column, (value, back)) in values.iter().zip(&back).enumerate() {
                let mean = self.means.as_ref().map_or(1.0, |means| f64::from(means[matrix * columns + column]));
                off += mean * f64::from(value - back).powi(2);
                all += mean * f64::from(*value).powi(2);
            }
        }
        Ok(if all > 0.0 { off / all } else { 0.0 })
    }
}

/// The error that a type makes in a tensor, in shares of what the matrix gives, on a sample of its rows.
///
/// # Errors
/// When a value of the source is no number, or the type cannot be written.
pub fn error(tensor: &Planned, importance: Option<&Importance>, quant: Quant) -> Result<f64, Error> {
    Tried::of(tensor, importance).error(tensor, quant)
}

/// How much a model minds an error in a tensor, by its name alone: the head's goes straight into the logits, where all others are
/// spread over what the layers behind them do. `tied` says that the table of embeddings is the head.
///
/// Measured on kauri-nano: with 4 instead of 40 for its tied table, a file of 16.3 MB was 0.0129 from its source instead of 0.0079.
pub fn usual_minds(tensor: &Planned, tied: bool) -> f64 {
    match tensor.name.as_str() {
        "output.weight" => 40.0,
        "token_embd.weight" if tied => 40.0,
        name if name.contains("attn_v") || name.contains("ffn_down") => 1.5,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spent_where_they_help_most() {
        let choice = |tensor, minds: f64| Choice {
            tensor,
            offers: vec![
                (Quant::Q2_K, 10, minds * 8.0),
                (Quant::Q4_K, 20, minds * 2.0),
                (Quant::Q8_0, 40, minds * 0.1),
            ],
            taken: 0,
        };
        let taken = |spare| {
            let mut choices = vec![choice(0, 1.0), choice(1, 10.0), choice(2, 0.1)];
            spend(&mut choices, spare);
            choices.iter().map(|choice| choice.taken).collect::<Vec<_>>()
        };
        assert_eq!(taken(0), [0, 0, 0]);
        assert_eq!(taken(10), [0, 1, 0]);
        assert_eq!(taken(20), [1, 1, 0]);
        assert_eq!(taken(30), [0, 2, 0]);
        assert_eq!(taken(40), [1, 2, 0]);
        assert_eq!(taken(1000), [2, 2, 2]);
    }
}
