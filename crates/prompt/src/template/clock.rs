//! The moment that `strftime_now` prints. It is handed in with each render: this crate reads no clock.

use super::Error;
use minijinja::value::{Object, ObjectRepr};
use std::fmt::Write as _;
use std::sync::Arc;

/// A date and time of day, without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Object for Moment {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Moment {
    /// Reads ISO 8601: `2026-03-14T09:26:53`, a space for the `T`, the time left out; a fraction and a zone are passed over.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::read(text).ok_or_else(|| Error::Clock { now: text.chars().take(64).collect() })
    }

    fn read(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
        let mut date = date.split('-');
        let (year, month, day) = (date.next()?, number(date.next()?)?, number(date.next()?)?);
        let mut time = time.split([':', '.', 'Z', '+', '-']);
        let (hour, minute) = (number(time.next()?)?, number(time.next()?)?);
        let second = time.next().map_or(Some(0), number)?;
        let year = Some(year).filter(|year| year.len() == 4).and_then(number)? as i32;
        let exists = (1..=12).contains(&month) && day >= 1 && day <= days_in(year, month);
        (exists && date.next().is_none() && hour < 24 && minute < 60 && second < 61).then_some(Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        })
    }

    /// Python's `strftime` in the C locale. `%-d` and its like leave out the leading zero; an unknown directive stays as it is.
    pub fn format(&self, pattern: &str) -> String {
        let mut out = String::new();
        let mut rest = pattern;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (unpadded, directive) = match after.strip_prefix('-') {
                Some(after) => (true, after),
                None => (false, after),
            };
            let Some(letter) = directive.chars().next() else {
                out.push_str(&rest[at..]);
                return out;
            };
            rest = &directive[letter.len_utf8()..];
            match self.directive(letter) {
                Some(field) if unpadded => out.push_str(match field.trim_start_matches(['0', ' ']) {
                    "" => "0",
                    digits => digits,
                }),
                Some(field) => out.push_str(&field),
                None => {
                    // A String takes any write.
                    let _ = write!(out, "%{}{letter}", if unpadded { "-" } else { "" });
                }
            }
        }
        out + rest
    }

    fn directive(&self, letter: char) -> Option<String> {
        let weekday = self.weekday();
        let day_of_year = self.day_of_year();
        let hour_of_twelve = (self.hour + 11) % 12 + 1;
        let half = if self.hour < 12 { "AM" } else { "PM" };
        let month = MONTHS[self.month as usize - 1];
        Some(match letter {
            'Y' => format!("{:04}", self.year),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'C' => format!("{:02}", self.year / 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour_of_twelve:02}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => "000000".to_owned(),
            'p' => half.to_owned(),
            'B' => month.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'A' => WEEKDAYS[weekday as usize].to_owned(),
            'a' => WEEKDAYS[weekday as usize][..3].to_owned(),
            'w' => weekday.to_string(),
            'u' => ((weekday + 6) % 7 + 1).to_string(),
            'j' => format!("{day_of_year:03}"),
            'U' => format!("{:02}", (day_of_year + 6 - weekday) / 7),
            'W' => format!("{:02}", (day_of_year + 6 - (weekday + 6) % 7) / 7),
            'F' => self.format("%Y-%m-%d"),
            'T' | 'X' => self.format("%H:%M:%S"),
            'R' => self.format("%H:%M"),
            'r' => self.format("%I:%M:%S %p"),
            'D' | 'x' => self.format("%m/%d/%y"),
            'c' => self.format("%a %b %e %H:%M:%S %Y"),
            'Z' | 'z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }

    fn day_of_year(&self) -> u32 {
        (1..self.month).map(|month| days_in(self.year, month)).sum::<u32>() + self.day
    }

    /// Days since Sunday.
    fn weekday(&self) -> u32 {
        let years = i64::from(self.year) - 1;
        let days = years * 365 + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
        (days + i64::from(self.day_of_year())).rem_euclid(7) as u32
    }
}

fn number(digits: &str) -> Option<u32> {
    Some(digits)
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
}

fn days_in(year: i32, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_strftime_prints() {
        let moment = Moment::parse("2026-03-14T09:26:53").unwrap();
        // From Python 3.12: datetime(2026, 3, 14, 9, 26, 53).strftime(...)
        for (pattern, text) in [
            ("%d %b %Y", "14 Mar 2026"),
            ("%B %d, %Y", "March 14, 2026"),
            ("%A %a %w %u", "Saturday Sat 6 6"),
            ("%j %U %W", "073 10 10"),
            ("%I:%M %p %H %S", "09:26 AM 09 53"),
            ("%-d/%-m", "14/3"),
            ("%x %X %%", "03/14/26 09:26:53 %"),
            ("%c", "Sat Mar 14 09:26:53 2026"),
            ("%Q %", "%Q %"),
        ] {
            assert_eq!(moment.format(pattern), text);
        }
        assert_eq!(Moment::parse("2000-02-29").unwrap().format("%A %e %-I%p"), "Tuesday 29 12AM");
        assert_eq!(Moment::parse("2024-12-31 23:59:60.5+02:00").unwrap().format("%a %j"), "Tue 366");
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "now",
            "2026-13-01",
            "2026-02-29",
            "2026-3",
            "26-03-14",
            "2026-03-14T24:00:00",
            "2026-03-14T9",
            "-1-2-3",
        ] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }
}
