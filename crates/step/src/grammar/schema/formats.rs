//! The string formats of JSON Schema as patterns, each after the document that defines it.

use std::sync::LazyLock;

/// What a name after `format` says.
pub(super) enum Format {
    /// Strings that match a pattern, and are not longer than this where there is a limit.
    Pattern(&'static str, Option<u64>),
    /// Defined, but no automaton can check it: why.
    Beyond(&'static str),
    /// Not defined by JSON Schema, so nobody but its author knows what it means.
    Unknown,
}

/// The format called `name`.
pub(super) fn find(name: &str) -> Format {
    let (pattern, most): (&LazyLock<String>, _) = match name {
        "date-time" => (&DATE_TIME, None),
        "date" => (&DATE, None),
        "time" => (&TIME, None),
        "duration" => (&DURATION, None),
        "email" => (&EMAIL, Some(254)),
        "hostname" => (&HOSTNAME, Some(253)),
        "ipv4" => (&IPV4, None),
        "ipv6" => (&IPV6, None),
        "uri" => (&URI, None),
        "uri-reference" => (&URI_REFERENCE, None),
        "uri-template" => (&URI_TEMPLATE, None),
        "uuid" => (&UUID, None),
        "json-pointer" => (&JSON_POINTER, None),
        "relative-json-pointer" => (&RELATIVE_JSON_POINTER, None),
        "idn-email" | "idn-hostname" | "iri" | "iri-reference" => {
            return Format::Beyond("which characters of all scripts it may hold is a table that changes every year");
        }
        "regex" => return Format::Beyond("whether brackets close is not for an automaton to say"),
        _ => return Format::Unknown,
    };
    Format::Pattern(pattern, most)
}

/// RFC 3339, with the days that each month and each year has.
static DATE: LazyLock<String> = LazyLock::new(|| whole(&date()));
static TIME: LazyLock<String> = LazyLock::new(|| whole(&time()));
static DATE_TIME: LazyLock<String> = LazyLock::new(|| whole(&format!("{}[Tt]{}", date(), time())));

fn date() -> String {
    let leap_year = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    let long = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])";
    let short = r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)";
    let february = r"02-(?:0[1-9]|1\d|2[0-8])";
    format!(r"(?:\d{{4}}-(?:{long}|{short}|{february})|{leap_year}-02-29)")
}

/// A leap second is written only where everybody has it: at the end of a day in universal time.
fn time() -> String {
    let offset = r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)";
    format!(r"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?{offset}|23:59:60(?:\.\d+)?[Zz])")
}

/// RFC 3339, appendix A.
static DURATION: LazyLock<String> = LazyLock::new(|| {
    let time = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)";
    whole(&format!(r"P(?:(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:{time})?|{time}|\d+W)"))
});

/// RFC 1123: labels of up to 63 characters.
const LABEL: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
static HOSTNAME: LazyLock<String> = LazyLock::new(|| whole(&hostname()));

fn hostname() -> String {
    format!(r"{LABEL}(?:\.{LABEL})*")
}

/// RFC 5321, without quoted names and literal addresses.
static EMAIL: LazyLock<String> = LazyLock::new(|| {
    let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
    whole(&format!(r"{atom}(?:\.{atom})*@{}", hostname()))
});

/// RFC 2673: four numbers without leading zeros.
static IPV4: LazyLock<String> = LazyLock::new(|| whole(&ipv4()));

fn ipv4() -> String {
    let byte = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)";
    format!(r"(?:{byte}\.){{3}}{byte}")
}

/// RFC 4291, as the grammar of RFC 3986 spells it.
static IPV6: LazyLock<String> = LazyLock::new(|| whole(&ipv6()));

fn ipv6() -> String {
    let group = "[0-9A-Fa-f]{1,4}";
    let last = format!("(?:{group}:{group}|{})", ipv4());
    let mut forms = vec![format!("(?:{group}:){{6}}{last}")];
    // Before the two colons stand up to `before` groups, behind them exactly so many that at least one is left out.
    for before in 0..=7 {
        let head = match before {
            0 => String::new(),
            1 => format!("(?:{group})?"),
            _ => format!("(?:(?:{group}:){{0,{}}}{group})?", before - 1),
        };
        forms.push(match before {
            0..=4 => format!("{head}::(?:{group}:){{{}}}{last}", 5 - before),
            5 => format!("{head}::{last}"),
            6 => format!("{head}::{group}"),
            _ => format!("{head}::"),
        });
    }
    format!("(?:{})", forms.join("|"))
}

/// RFC 3986.
static URI: LazyLock<String> = LazyLock::new(|| {
    let part = hierarchical("");
    whole(&format!(r"[A-Za-z][A-Za-z0-9+.-]*:{part}{TAIL}"))
});
static URI_REFERENCE: LazyLock<String> = LazyLock::new(|| {
    // The first part of a relative path has no colon, or it would be a scheme.
    let relative = hierarchical("no colon");
    let absolute = hierarchical("");
    whole(&format!(r"(?:[A-Za-z][A-Za-z0-9+.-]*:{absolute}|{relative}){TAIL}"))
});

const TAIL: &str = r"(?:\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(?:#(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?";

fn hierarchical(first: &str) -> String {
    let character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    let start = if first.is_empty() { character } else { "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})" };
    let user = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?";
    let future = "v[0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+";
    let host = format!("(?:\\[(?:{}|{future})\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}})*)", ipv6());
    let path = format!("(?:/{character}*)*");
    let authority = format!("//{user}{host}(?::\\d*)?{path}");
    format!("(?:{authority}|/(?:{character}+{path})?|{start}+{path}|)")
}

/// RFC 6570.
static URI_TEMPLATE: LazyLock<String> = LazyLock::new(|| {
    let character = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})";
    let variable = format!(r"{character}(?:\.?{character})*(?::[1-9]\d{{0,3}}|\*)?");
    let literal = r#"[^\x00-\x20"'%<>\\^`{|}\x7f]"#;
    whole(&format!(r"(?:{literal}|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{variable}(?:,{variable})*\}})*"))
});

static UUID: LazyLock<String> =
    LazyLock::new(|| whole("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"));

/// RFC 6901.
const POINTER: &str = r"(?:/(?:[^~/]|~[01])*)*";
static JSON_POINTER: LazyLock<String> = LazyLock::new(|| whole(POINTER));
static RELATIVE_JSON_POINTER: LazyLock<String> =
    LazyLock::new(|| whole(&format!(r"(?:0|[1-9]\d*)(?:[+-](?:0|[1-9]\d*))?(?:#|{POINTER})")));

fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::pattern::translate;

    fn is(format: &str, text: &str) -> bool {
        let Format::Pattern(pattern, most) = find(format) else { panic!("{format}") };
        let pattern = translate(pattern).unwrap_or_else(|error| panic!("{format}: {error}"));
        let fits = most.is_none_or(|most| text.chars().count() as u64 <= most);
        fits && regex::Regex::new(&pattern).expect(format).is_match(text)
    }

    #[test]
    fn formats_are_what_their_documents_say() {
        let label = "a".repeat(64);
        for (format, yes, no) in [
            (
                "date",
                &["2024-02-29", "2000-02-29", "1999-12-31"][..],
                &["2023-02-29", "1900-02-29", "2024-04-31", "24-01-01"][..],
            ),
            ("time", &["12:00:00Z", "23:59:60Z", "00:00:00.5+05:30"], &["12:00:00", "12:00:60Z", "24:00:00Z"]),
            (
                "date-time",
                &["2024-02-29T12:00:00Z", "1985-04-12t23:20:50.52z"],
                &["2024-02-30T12:00:00Z", "2024-02-29 12:00:00Z"],
            ),
            ("duration", &["P3Y6M4DT12H30M5S", "PT0S", "P4W"], &["P", "PT", "P1W2D", "P1Y2D", "3Y"]),
            ("email", &["a.b+c@example.org", "x@y"], &["a@", "@b", "a..b@c", "a@-b.c", "a b@c"]),
            ("hostname", &["example.org", "a-b", "1.2"], &["-a", "a-", "a..b", "", &label]),
            ("ipv4", &["192.168.0.1", "0.0.0.0", "255.255.255.255"], &["256.0.0.1", "1.2.3", "01.2.3.4"]),
            (
                "ipv6",
                &[
                    "::",
                    "::1",
                    "1::",
                    "1:2:3:4:5:6:7:8",
                    "1::8",
                    "1:2:3:4:5:6:7::",
                    "::2:3:4:5:6:7:8",
                    "::ffff:1.2.3.4",
                    "1:2::5:6:7:8",
                ],
                &["1:2:3:4:5:6:7", ":::", "1:2:3:4:5:6:7:8:9", "12345::", "1::2::3", "::1.2.3", "1:2:3:4:5:6:7:8::"],
            ),
            (
                "uri",
                &["https://a.b/c?d=e#f", "urn:isbn:1", "mailto:a@b", "http://[::1]:80/", "file:///x"],
                &["/a", "a b:c", "http://a b", "http://[1]/", ""],
            ),
            ("uri-reference", &["/a/b", "a", "../x?y", "#f", "//h/p", "", "http://a"], &["a b", "\\x", "%g1", "1:2"]),
            ("uri-template", &["/a/{b}", "{?x,y*}", "{+p:3}", ""], &["{", "{a", "}", "{a b}"]),
            (
                "uuid",
                &["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
                &["2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638"],
            ),
            ("json-pointer", &["", "/a/b", "/~0~1"], &["a", "/~2", "/~"]),
            ("relative-json-pointer", &["0", "1/a", "0#", "2+1/a"], &["", "/a", "01", "-1"]),
        ] {
            yes.iter().for_each(|text| assert!(is(format, text), "{format} is {text:?}"));
            no.iter().for_each(|text| assert!(!is(format, text), "{format} is not {text:?}"));
        }
        assert!(matches!(find("regex"), Format::Beyond(_)) && matches!(find("chickenbutt"), Format::Unknown));
    }
}
