//! Names of answers, and the time on them.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A name that no other answer of this program has, and that nobody guesses: the prefix and 24 digits.
pub fn identifier(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static KEY: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{:016x}{:08x}", KEY.hash_one(number), number as u32)
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A moment as RFC 3339 has it, in UTC.
pub fn timestamp(since_1970: std::time::Duration) -> String {
    let (seconds, nanoseconds) = (since_1970.as_secs(), since_1970.subsec_nanos());
    // Days since the first of March of year 0, by eras of 400 years (Hinnant, "chrono-compatible low-level date algorithms").
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
}

/// Now, as RFC 3339 has it.
pub fn now() -> String {
    timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        let at = |seconds| timestamp(Duration::new(seconds, 5_000_000));
        assert_eq!(at(0), "1970-01-01T00:00:00.005000000Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56.005000000Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.005000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.005000000Z");
    }

    #[test]
    fn no_name_comes_twice() {
        assert_ne!(identifier("a-"), identifier("a-"));
        assert_eq!(identifier("a-").len(), 26);
    }
}
