//! What people see: aligned tables, coloured on a terminal only, and a line about the work in progress that goes away.

use std::io::{self, IsTerminal, Write};

/// How a row looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// The names of columns.
    Heading,
    /// Worth a look.
    Marked,
}

/// Rows of cells: the first column is aligned left, all others right.
#[derive(Default)]
pub struct Table {
    rows: Vec<(Tone, Vec<String>)>,
}

/// A line on standard error that says what is being measured, if somebody sits there.
pub struct Status {
    shown: bool,
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, tone: Tone, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push((tone, cells.into_iter().map(Into::into).collect()));
    }

    /// The lines, two spaces between columns.
    pub fn lines(&self, coloured: bool) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for (_, cells) in &self.rows {
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for (tone, cells) in &self.rows {
            let aligned = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            let line = aligned.collect::<Vec<_>>().join("  ");
            text.push_str(&tone.paint(line.trim_end(), coloured));
            text.push('\n');
        }
        text
    }
}

impl Tone {
    /// The text in this tone.
    pub fn paint(self, text: &str, coloured: bool) -> String {
        let code = match self {
            _ if !coloured => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Heading => "1",
            Self::Marked => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Status {
    /// Shown on a terminal only.
    pub fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn say(&self, what: &str) {
        if self.shown {
            // Nobody is served by a benchmark that fails because its progress could not be shown.
            let _ = write!(io::stderr(), "\r\x1b[K{what}");
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.say("");
    }
}

/// Writes a whole answer to standard output.
///
/// # Errors
/// When it is closed.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether standard output shows colours.
pub fn is_coloured() -> bool {
    io::stdout().is_terminal()
}

/// A number to three significant digits, and never fewer than its whole part.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.0995 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// A share as a percentage of two significant digits; a dash where there is none.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "-".to_owned();
    }
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.005 {
        return "<0.01%".to_owned();
    }
    let digits = match percent.abs() {
        size if size >= 9.95 || size == 0.0 => 0,
        size if size >= 0.995 => 1,
        _ => 2,
    };
    format!("{percent:.digits$}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_piped_text_has_no_codes() {
        let mut table = Table::default();
        table.row(Tone::Heading, ["op", "seconds"]);
        table.row(Tone::Marked, ["gate+up", "1.5"]);
        assert_eq!(table.lines(false), "op       seconds\ngate+up      1.5\n");
        let coloured = table.lines(true);
        assert!(coloured.starts_with("\x1b[1mop       seconds\x1b[0m\n"), "{coloured:?}");
    }

    #[test]
    fn figures_keep_three_digits() {
        let figures = [1234.5, 99.96, 12.34, 9.996, 1.234, 0.1234, 0.01234, 0.0].map(figure);
        assert_eq!(figures, ["1234", "100", "12.3", "10.0", "1.23", "0.123", "0.0123", "0"]);
        assert_eq!([1.0, 0.123, 0.0123, 0.00123, 0.0].map(percent), ["100%", "12%", "1.2%", "0.12%", "0%"]);
    }
}
