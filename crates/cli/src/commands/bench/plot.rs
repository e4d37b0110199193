//! Pictures of figures as SVG: grouped bars and lines, readable on light and on dark.
//!
//! Colours stand as attributes for viewers that know no style sheets; those that do follow the reader's theme. It knows
//! nothing of what the figures mean.

use std::fmt::{Display, Write};

const WIDTH: f64 = 800.0;
const MARGIN: f64 = 24.0;
/// Where bars and lines begin and end; values are written to the right of a bar.
const LEFT: f64 = 170.0;
const RIGHT: f64 = 670.0;
const BAR_HEIGHT: f64 = 14.0;
const GROUP_GAP: f64 = 12.0;
const LINES_HEIGHT: f64 = 240.0;
/// More marks than this on an axis hide each other.
const TICKS_MAX: usize = 9;

/// The theme: background, text, faint text and rules, and the two series, light and dark.
const STYLE: &str = "<style>\
text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\
@media (prefers-color-scheme:dark){\
.paper{fill:#161b22}.ink{fill:#e6edf3}.faint{fill:#9198a1}.rule{stroke:#3d444d}\
.fill0{fill:#58a6ff}.fill1{fill:#f0883e}.stroke0{stroke:#58a6ff}.stroke1{stroke:#f0883e}}\
</style>";
const PAPER: &str = "class=\"paper\" fill=\"#ffffff\"";
const INK: &str = "class=\"ink\" fill=\"#1f2328\"";
const FAINT: &str = "class=\"faint\" fill=\"#59636e\"";
const RULE: &str = "class=\"rule\" stroke=\"#d1d9e0\"";
const SERIES: [&str; 2] = ["#0969da", "#d1671b"];

/// A picture that grows downwards.
pub struct Picture {
    body: String,
    height: f64,
}

/// Bars that belong together, one for each series.
pub struct Group {
    /// What they are about.
    pub label: String,
    /// One for each series.
    pub bars: [Bar; 2],
}

/// One value.
pub struct Bar {
    /// Its length.
    pub value: f64,
    /// What is written beside it.
    pub text: String,
}

/// One series over numbers.
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// How values become lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// From nothing to the whole, or to the largest value where that is more.
    Share,
    /// Every power of ten as long as the next.
    Logarithmic,
}

/// Values from the first to the last tick, placed between two ends.
struct Scale {
    ticks: Vec<f64>,
    axis: Axis,
    start: f64,
    end: f64,
}

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Picture {
    /// An empty picture.
    pub fn new(title: &str, subtitle: &str) -> Self {
        let mut picture = Self { body: String::new(), height: MARGIN };
        picture.height += 18.0;
        picture.text(MARGIN, picture.height, 20, Anchor::Start, INK, title);
        picture.height += 20.0;
        picture.text(MARGIN, picture.height, 13, Anchor::Start, FAINT, subtitle);
        picture
    }

    /// Adds groups of horizontal bars under a heading, values on `axis`.
    pub fn bars(&mut self, heading: &str, series: [&str; 2], groups: &[Group], axis: Axis) {
        self.heading(heading, series);
        let values = groups.iter().flat_map(|group| group.bars.iter().map(|bar| bar.value));
        let scale = Scale::new(axis, values, LEFT, RIGHT);
        let top = self.height;
        let height: f64 = groups.iter().map(|group| group.bars.len() as f64 * BAR_HEIGHT + GROUP_GAP).sum();
        for &tick in &scale.ticks {
            let x = scale.at(tick);
            self.rule((x, top), (x, top + height));
            self.text(x, top + height + 16.0, 12, Anchor::Middle, FAINT, scale.label(tick));
        }
        let mut y = top + GROUP_GAP / 2.0;
        for group in groups {
            let middle = y + group.bars.len() as f64 * BAR_HEIGHT / 2.0;
            self.text(LEFT - 10.0, middle + 4.5, 13, Anchor::End, INK, &group.label);
            for (index, bar) in group.bars.iter().enumerate() {
                let end = scale.at(bar.value);
                let (width, thickness) = ((end - LEFT).max(1.0), BAR_HEIGHT - 2.0);
                let _ = writeln!(
                    self.body,
                    "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{thickness}\" {}/>",
                    fill(index)
                );
                self.text(end.max(LEFT) + 6.0, y + 10.5, 12, Anchor::Start, INK, &bar.text);
                y += BAR_HEIGHT;
            }
            y += GROUP_GAP;
        }
        self.height = top + height + 24.0;
    }

    /// Adds lines under a heading: across as the numbers are, upwards in powers of ten.
    pub fn lines(&mut self, heading: &str, lines: &[Line; 2]) {
        self.heading(heading, [lines[0].name, lines[1].name]);
        let (top, bottom) = (self.height + 8.0, self.height + 8.0 + LINES_HEIGHT);
        let left = MARGIN + 50.0;
        let points = || lines.iter().flat_map(|line| line.points.iter());
        let upwards = Scale::new(Axis::Logarithmic, points().map(|point| point.1), bottom, top);
        let most = points().map(|point| point.0).fold(1.0, f64::max);
        let across = |x: f64| left + (RIGHT - left) * x / most;
        for &tick in &upwards.ticks {
            let y = upwards.at(tick);
            self.rule((left, y), (RIGHT, y));
            self.text(left - 8.0, y + 4.0, 12, Anchor::End, FAINT, upwards.label(tick));
        }
        for (x, _) in &lines[0].points {
            self.text(across(*x), bottom + 18.0, 12, Anchor::Middle, FAINT, x);
        }
        for (index, line) in lines.iter().enumerate() {
            let mut path = String::new();
            for &(x, y) in &line.points {
                let (x, y) = (across(x), upwards.at(y));
                let _ = write!(path, "{x:.1},{y:.1} ");
                let _ = writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" {}/>", fill(index));
            }
            let _ = writeln!(
                self.body,
                "<polyline points=\"{}\" fill=\"none\" stroke-width=\"2\" class=\"stroke{index}\" stroke=\"{}\"/>",
                path.trim_end(),
                SERIES[index]
            );
        }
        self.height = bottom + 26.0;
    }

    /// The whole file.
    pub fn finish(self) -> String {
        let height = self.height + MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\">\n{STYLE}\n\
             <rect width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"8\" {PAPER}/>\n{}</svg>\n",
            self.body
        )
    }

    /// A heading, and the names of the series in their colours at the right.
    fn heading(&mut self, heading: &str, series: [&str; 2]) {
        self.height += 36.0;
        self.text(MARGIN, self.height, 15, Anchor::Start, INK, heading);
        // Room for a name in a font of unknown width, and for its patch of colour before it.
        let room = |name: &str| 7.5 * name.chars().count() as f64 + 32.0;
        let mut x = WIDTH - MARGIN + 16.0 - series.iter().map(|name| room(name)).sum::<f64>();
        for (index, name) in series.iter().enumerate() {
            self.text(x + 16.0, self.height, 13, Anchor::Start, INK, name);
            let y = self.height - 10.0;
            let _ = writeln!(self.body, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"11\" height=\"11\" {}/>", fill(index));
            x += room(name);
        }
        self.height += 12.0;
    }

    fn text(&mut self, x: f64, y: f64, size: u32, anchor: Anchor, colour: &str, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(&text.to_string());
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" {colour}>{text}</text>"
        );
    }

    fn rule(&mut self, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(self.body, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {RULE}/>");
    }
}

impl Scale {
    /// Ticks that enclose all `values`, between the places `start` and `end`.
    fn new(axis: Axis, values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Self {
        let largest = values.clone().fold(0.0, f64::max);
        let ticks = match axis {
            Axis::Share => {
                let whole = largest.ceil().max(1.0);
                (0..=4).map(|quarter| whole * f64::from(quarter) / 4.0).collect()
            }
            Axis::Logarithmic => {
                let positive = values.filter(|&value| value > 0.0);
                logarithmic_ticks(positive.fold(largest, f64::min), largest)
            }
        };
        Self { ticks, axis, start, end }
    }

    /// The place of a value; values outside are at the ends.
    fn at(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        let value = value.clamp(first, last);
        let share = match self.axis {
            Axis::Share => (value - first) / (last - first),
            Axis::Logarithmic => (value / first).ln() / (last / first).ln(),
        };
        self.start + (self.end - self.start) * share
    }

    fn label(&self, tick: f64) -> String {
        match self.axis {
            Axis::Share => format!("{:.0}%", 100.0 * tick),
            Axis::Logarithmic => format!("{tick}"),
        }
    }
}

/// Powers of ten, with 2 and 5 between them where there is room, from below `least` to above `most`.
fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    // A little below, so that the shortest bar is seen; beyond these ends a figure is a mistake, not a speed.
    let (least, most) = ((0.9 * least).clamp(1e-6, 1e9), most.clamp(1e-6, 1e9));
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let powers: Vec<f64> = (low..=high.max(low + 1)).map(power_of_ten).collect();
    let steps = (low..=high.max(low + 1)).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * power_of_ten(power)));
    let steps: Vec<f64> = steps.collect();
    let first = steps.iter().rposition(|&tick| tick < least).unwrap_or(0);
    let last = steps.iter().position(|&tick| tick >= most).unwrap_or(steps.len() - 1);
    match steps.get(first..=last) {
        Some(fine) if (2..=TICKS_MAX).contains(&fine.len()) => fine.to_vec(),
        _ => powers,
    }
}

/// Parsed, so that a tenth is written 0.1 and nothing longer.
fn power_of_ten(power: i32) -> f64 {
    format!("1e{power}").parse().unwrap_or(1.0)
}

fn fill(index: usize) -> String {
    format!("class=\"fill{index}\" fill=\"{}\"", SERIES[index])
}

/// Text as it may stand in XML: the five marked characters written out, characters that XML has no place for left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("a<b> & \"c\" 'd'\u{7}\u{ffff}é"), "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;é");
        let svg = Picture::new("</text><script>", "").finish();
        assert!(!svg.contains("<script>"), "{svg}");
    }

    #[test]
    fn logarithmic_bars_grow_by_the_factor() {
        let scale = Scale::new(Axis::Logarithmic, [0.3, 300.0].into_iter(), 0.0, 100.0);
        assert_eq!(scale.ticks, [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.at(10.0) - 50.0).abs() < 1e-9);
        let (ten, hundred, thousand) = (scale.at(10.0), scale.at(100.0), scale.at(1000.0));
        assert!((hundred - ten - (thousand - hundred)).abs() < 1e-9);
    }

    #[test]
    fn ticks_enclose_every_value() {
        for (least, most) in [(0.3, 300.0), (10.0, 10.0), (12.0, 13.0), (1.0, 1000.0), (0.0, 0.0), (99.0, 101.0)] {
            let ticks = logarithmic_ticks(least, most);
            assert!(ticks.len() >= 2 && ticks.is_sorted(), "{least} to {most}: {ticks:?}");
            assert!(ticks[0] <= least.max(1e-6), "{least} to {most}: {ticks:?}");
            assert!(*ticks.last().unwrap() >= most, "{least} to {most}: {ticks:?}");
        }
        assert_eq!(logarithmic_ticks(12.0, 13.0), [10.0, 20.0]);
    }

    #[test]
    fn shares_over_the_whole_stay_on_the_paper() {
        let scale = Scale::new(Axis::Share, [0.2, 1.4].into_iter(), LEFT, RIGHT);
        assert_eq!((scale.at(0.0), scale.at(2.0)), (LEFT, RIGHT));
        assert!(scale.at(1.4) < RIGHT);
        let scale = Scale::new(Axis::Share, [0.2].into_iter(), LEFT, RIGHT);
        assert_eq!(scale.ticks.last(), Some(&1.0));
    }
}
