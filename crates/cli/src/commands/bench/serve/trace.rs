//! Recorded loads: when requests came to a service, and how long they were, with no text of theirs.
//!
//! Three forms, told apart by how they begin. Azure's tables of 2023 and 2024 (<https://github.com/Azure/AzurePublicDataset>) as they
//! are published, a date and a time in each line, or with seconds from the start; and Mooncake's lines of JSON (Qin et al. 2024,
//! arXiv:2407.00079), which also name each block of 512 tokens of a prompt: equal names are equal tokens behind equal tokens.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::Value as Json;

use super::super::TOKENS_MAX;
use super::load::{Outline, Piece};
use crate::failure::BadInput;

/// Far over any published trace.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Tokens that a name of Mooncake's stands for.
const BLOCK_TOKENS: u32 = 512;
/// Two centuries: dates become seconds since 2000.
const SECONDS_MAX: f64 = 200.0 * 366.0 * 86_400.0;

/// Which part of a trace, and how it is changed.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Requests to leave out at the start.
    pub from: u32,
    /// Most requests.
    pub requests: u32,
    /// What the times are multiplied with; at zero requests have no moments.
    pub time_scale: f64,
    /// What the lengths are divided by.
    pub shrink: u32,
    /// Where longer prompts are cut.
    pub prompt_tokens_max: Option<u32>,
    /// Where longer answers end.
    pub gen_tokens_max: Option<u32>,
}

/// One line of a trace.
#[derive(Debug, PartialEq)]
struct Entry {
    seconds: f64,
    prompt_tokens: u32,
    gen_tokens: u32,
    /// Names of the prompt's blocks; none where the trace has no names.
    blocks: Vec<u32>,
}

/// Where a table has what.
struct Columns {
    time: usize,
    prompt: usize,
    answer: usize,
}

/// Reads a slice of a trace, in the order of time, the first request at the start.
///
/// # Errors
/// When the file cannot be read, a line is not of its form, or nothing is left of it.
pub fn read(path: &Path, slice: &Slice) -> Result<Vec<Outline>, BadInput> {
    let about = |what: String| BadInput(format!("--trace {}: {what}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| about(error.to_string()))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| about(error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(about(format!("larger than {} MiB; give a part of it", FILE_BYTES_MAX >> 20)));
    }
    let text = str::from_utf8(&bytes).map_err(|_| about("not text".to_owned()))?;
    let mut entries = entries(text).map_err(about)?;
    entries.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let total = entries.len();
    let slice_of = entries.iter().skip(slice.from as usize).take(slice.requests as usize);
    let outlines: Vec<Outline> = slice.outlines(slice_of);
    if outlines.is_empty() {
        return Err(about(format!("has {total} requests, none from --from {} on", slice.from)));
    }
    Ok(outlines)
}

impl Slice {
    fn outlines<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<Outline> {
        let mut start = None;
        let outline = |(index, entry): (usize, &Entry)| {
            let start = *start.get_or_insert(entry.seconds);
            let comes = Duration::from_secs_f64((entry.seconds - start) * self.time_scale);
            let [prompt_tokens, gen_tokens] =
                [entry.prompt_tokens, entry.gen_tokens].map(|tokens| (tokens / self.shrink).max(1));
            let mut outline = Outline::alone(comes, prompt_tokens, gen_tokens, self.from as usize + index);
            if !entry.blocks.is_empty() {
                outline.pieces = named(&entry.blocks, (BLOCK_TOKENS / self.shrink).max(1), outline.pieces[0]);
            }
            outline.cut(self.prompt_tokens_max, self.gen_tokens_max);
            outline.comes = outline.comes.filter(|_| self.time_scale > 0.0);
            outline
        };
        entries.enumerate().map(outline).collect()
    }
}

/// A prompt of named blocks; what they do not reach is its own.
fn named(blocks: &[u32], block_tokens: u32, own: Piece) -> Vec<Piece> {
    let mut left = own.tokens;
    let mut pieces = Vec::with_capacity(blocks.len());
    for &block in blocks {
        let tokens = left.min(block_tokens);
        pieces.push(Piece { name: u64::from(block), tokens });
        left -= tokens;
    }
    pieces.push(Piece { name: own.name, tokens: left });
    pieces.retain(|piece| piece.tokens > 0);
    pieces
}

/// All lines of a trace, whichever form it has.
fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).peekable();
    let Some(&(_, first)) = lines.peek() else { return Err("empty".to_owned()) };
    let columns = if first.starts_with('{') {
        None
    } else {
        lines.next();
        Some(Columns::of(first)?)
    };
    let entry = |(number, line): (usize, &str)| {
        let entry = match &columns {
            None => json_entry(line),
            Some(columns) => columns.entry(line),
        };
        entry.map_err(|what| format!("line {number}: {what}"))
    };
    lines.map(entry).collect()
}

/// A line of Mooncake's.
fn json_entry(line: &str) -> Result<Entry, String> {
    let line: Json = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
    let milliseconds = line["timestamp"].as_f64().ok_or("timestamp is not a number of milliseconds")?;
    let tokens = |name: &str| {
        let tokens = line[name].as_u64().and_then(|tokens| u32::try_from(tokens).ok());
        check_tokens(tokens).ok_or_else(|| format!("{name} is {}, not a number from 0 to {TOKENS_MAX}", line[name]))
    };
    let blocks = match &line["hash_ids"] {
        Json::Null => Vec::new(),
        Json::Array(names) => {
            let names = names.iter().map(|name| name.as_u64().and_then(|name| u32::try_from(name).ok()));
            names.collect::<Option<_>>().ok_or("hash_ids has something that is no id of 32 bits")?
        }
        other => return Err(format!("hash_ids is {other}, not a list")),
    };
    Ok(Entry {
        seconds: check_seconds(milliseconds / 1e3)?,
        prompt_tokens: tokens("input_length")?,
        gen_tokens: tokens("output_length")?,
        blocks,
    })
}

impl Columns {
    fn of(heading: &str) -> Result<Self, String> {
        let names: Vec<String> = heading.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |wanted: [&str; 2]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let columns = (
            find(["t_seconds", "timestamp"]),
            find(["context_tokens", "contexttokens"]),
            find(["generated_tokens", "generatedtokens"]),
        );
        match columns {
            (Some(time), Some(prompt), Some(answer)) => Ok(Self { time, prompt, answer }),
            _ => {
                Err("neither lines of JSON nor a table; a table begins with t_seconds,context_tokens,generated_tokens \
                      or TIMESTAMP,ContextTokens,GeneratedTokens"
                    .to_owned())
            }
        }
    }

    fn entry(&self, line: &str) -> Result<Entry, String> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |column: usize| cells.get(column).copied().ok_or("fewer cells than the first line has");
        let tokens = |column: usize| {
            let cell = cell(column)?;
            let tokens = check_tokens(cell.parse().ok());
            tokens.ok_or_else(|| format!("{cell:?} is not a number of tokens from 0 to {TOKENS_MAX}"))
        };
        let time = cell(self.time)?;
        let seconds = time.parse().ok().or_else(|| seconds_of(time));
        let seconds = seconds.ok_or_else(|| format!("{time:?} is neither seconds nor a date and a time"))?;
        Ok(Entry {
            seconds: check_seconds(seconds)?,
            prompt_tokens: tokens(self.prompt)?,
            gen_tokens: tokens(self.answer)?,
            blocks: Vec::new(),
        })
    }
}

fn check_tokens(tokens: Option<u32>) -> Option<u32> {
    tokens.filter(|&tokens| tokens <= TOKENS_MAX)
}

fn check_seconds(seconds: f64) -> Result<f64, String> {
    let seconds = Some(seconds).filter(|seconds| (0.0..SECONDS_MAX).contains(seconds));
    seconds.ok_or_else(|| "a time before the start, or no time at all".to_owned())
}

/// Seconds since the year 2000 of a date and a time such as `2023-11-16 18:17:03.9799600`; what tells the zone is left out, since all
/// lines have the same.
fn seconds_of(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(str::parse::<u32>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    if !(2000..2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let mut time = time.trim_end_matches('Z').split('+').next()?.splitn(3, ':');
    let (hour, minute): (u32, u32) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let second: f64 = time.next()?.parse().ok()?;
    if hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    // Years begin in March here, so that the day that some have more is their last; 730,425 days lie before 2000.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 730_425;
    Some(f64::from(days) * 86_400.0 + f64::from(hour * 3600 + minute * 60) + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Slice = Slice {
        from: 0,
        requests: u32::MAX,
        time_scale: 1.0,
        shrink: 1,
        prompt_tokens_max: None,
        gen_tokens_max: None,
    };

    #[test]
    fn the_published_table_and_the_one_of_seconds_say_the_same() {
        let seconds = "t_seconds,context_tokens,generated_tokens\n0.000,914,100\n0.371,398,99\n86400.5,1,2\n";
        let dates = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-29 23:59:59.0000000,914,100\r\n\
                     2024-02-29 23:59:59.3710000,398,99\r\n2024-03-01 23:59:59.500000+00:00,1,2\r\n";
        let [seconds, dates] = [seconds, dates].map(|text| {
            let entries = entries(text).unwrap();
            ALL.outlines(entries.iter())
        });
        assert_eq!(seconds.len(), 3);
        for (one, other) in seconds.iter().zip(&dates) {
            assert_eq!((&one.pieces, one.gen_tokens), (&other.pieces, other.gen_tokens));
            assert!(one.comes.unwrap().abs_diff(other.comes.unwrap()) < Duration::from_micros(10), "{one:?} {other:?}");
        }
    }

    #[test]
    fn days_follow_each_other_over_months_and_years() {
        let days = ["2023-12-31", "2024-01-01", "2024-02-28", "2024-02-29", "2024-03-01", "2024-12-31", "2025-01-01"];
        let seconds = days.map(|day| seconds_of(&format!("{day} 00:00:00")).unwrap());
        let gaps: Vec<f64> = seconds.windows(2).map(|pair| (pair[1] - pair[0]) / 86_400.0).collect();
        assert_eq!(gaps, [1.0, 58.0, 1.0, 1.0, 305.0, 1.0]);
        for bad in ["2024-13-01 00:00:00", "2024-01-01", "x", "2024-01-01 25:00:00", "1999-01-01 00:00:00"] {
            assert_eq!(seconds_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn equal_names_are_equal_tokens() {
        let text = "{\"timestamp\":1000,\"input_length\":1100,\"output_length\":500,\"hash_ids\":[0,1,2]}\n\
                    {\"timestamp\":4000,\"input_length\":1537,\"output_length\":3,\"hash_ids\":[0,1,7]}\n";
        let entries = entries(text).unwrap();
        let outlines = ALL.outlines(entries.iter());
        let prompts: Vec<Vec<u32>> = outlines.iter().map(|outline| outline.prompt(9, 1000)).collect();
        assert_eq!((prompts[0].len(), prompts[1].len()), (1100, 1537));
        assert_eq!(prompts[0][..1024], prompts[1][..1024]);
        assert_ne!(prompts[0][1024..1100], prompts[1][1024..1100]);
        let changed = Slice { time_scale: 0.5, shrink: 16, gen_tokens_max: Some(20), ..ALL };
        let outlines = changed.outlines(entries.iter());
        let lengths: Vec<_> = outlines.iter().map(|outline| (outline.prompt_tokens(), outline.gen_tokens)).collect();
        assert_eq!(lengths, [(68, 20), (96, 1)]);
        assert_eq!(outlines[0].pieces[0], Piece { name: 0, tokens: 32 });
        assert_eq!(outlines[1].comes, Some(Duration::from_millis(1500)));
        let at_once = Slice { time_scale: 0.0, ..ALL };
        assert!(at_once.outlines(entries.iter()).iter().all(|outline| outline.comes.is_none()));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let line = |timestamp: &str, input: &str, ids: &str| {
            format!("{{\"timestamp\":{timestamp},\"input_length\":{input},\"output_length\":1,\"hash_ids\":{ids}}}\n")
        };
        let good = line("0", "1", "[0]");
        for bad in [
            line("-1", "1", "[]"),
            line("0", "-1", "[]"),
            line("0", "99999999999", "[]"),
            line("0", "1.5", "[]"),
            line("0", "1", "[-1]"),
            line("0", "1", "3"),
            line("\"x\"", "1", "[]"),
            "{\n".to_owned(),
        ] {
            let error = entries(&(good.clone() + &bad)).unwrap_err();
            assert!(error.starts_with("line 2: "), "{bad}: {error}");
        }
        for bad in ["", "a,b,c\n1,2,3\n", "\n \n"] {
            assert!(entries(bad).is_err(), "{bad:?}");
        }
        for bad in ["1,2", "x,2,3", "1,x,3", "1,2,-3", "nan,1,1", "1e300,1,1"] {
            let error = entries(&format!("t_seconds,context_tokens,generated_tokens\n{bad}\n")).unwrap_err();
            assert!(error.starts_with("line 2: "), "{bad}: {error}");
        }
    }
}
