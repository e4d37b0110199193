//! The configuration file of `kauri serve`: every option by its name, the models, and the keys, in one TOML file.
//!
//! The file is turned into words of a command line, and those are read as any others: an option that is added to the command is a key of
//! the file, with the same limits, and nothing here lists them. What was said on the command line itself wins. Knows no option
//! but the few that stand for more than a word.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use kauri_server::{Entry, GivenKey, Keys};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Arguments;
use crate::failure::BadInput;
use crate::input;

/// How alike an unknown key must be to a known one to be meant.
const LIKENESS_MIN: f64 = 0.75;
/// What a file cannot say: which file it is, and to print something instead of serving.
const NOT_IN_FILES: [&str; 3] = ["config", "help", "version"];

/// The words of the command line, by the argument that they belong to.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<(String, Vec<OsString>)>);

/// What a file says, beside what the command line does.
#[derive(Debug)]
pub struct Said {
    pub arguments: Arguments,
    /// The keys in the file.
    pub keys: Option<Keys>,
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given =
            |id: &&clap::Id| matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine);
        let words = |id: &clap::Id| {
            let raw = matches.try_get_raw(id.as_str()).ok().flatten();
            (id.as_str().to_owned(), raw.into_iter().flatten().map(OsString::from).collect())
        };
        Ok(Self(matches.ids().filter(is_given).map(words).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// It has no arguments of its own: it sees those of the others.
impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Reads a file, under what the command line gave.
///
/// # Errors
/// Names the file, the line, and the key.
pub fn read(path: &Path, given: &Given) -> anyhow::Result<Said> {
    let name = path.display().to_string();
    let text = input::file(path)?;
    let file = File { name: &name, text: &text };
    Ok(file.read(given)?)
}

struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn read(&self, given: &Given) -> Result<Said, BadInput> {
        let table =
            DeTable::parse(self.text).map_err(|error| self.wrong(error.span().unwrap_or_default(), error.message()))?;
        let command = command();
        let mut words: Vec<OsString> = vec!["kauri serve".into()];
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            if let Some((_, values)) = given.0.iter().find(|(other, _)| other == id) {
                write(argument, values, &mut words);
            }
        }
        let mut keys = None;
        for (key, value) in table.get_ref() {
            let span = key.span();
            let key: &str = key.get_ref();
            if key == "keys" {
                keys = Some(self.keys(value)?);
                continue;
            }
            let found = command.get_arguments().find(|argument| name_of(argument) == Some(key));
            let argument = found.ok_or_else(|| self.wrong(span.clone(), &unknown(key, &command)))?;
            let values = self.values(argument, key, value)?;
            self.check(argument, key, &values, value.span())?;
            if !given.leaves_out(argument, &command) {
                write(argument, &values, &mut words);
            }
        }
        if keys.is_some() && table.get_ref().contains_key("api-key-file") {
            return Err(self.wrong(0..0, "give either keys or api-key-file, not both"));
        }
        // A file of keys on the command line counts.
        let keys = keys.filter(|_| !given.has("api_key_file"));
        let read = |error: clap::Error| BadInput(format!("{}: {}", self.name, first_line(&error)));
        let matches = super::file::command().try_get_matches_from(words).map_err(read)?;
        Ok(Said { arguments: Arguments::from_arg_matches(&matches).map_err(read)?, keys })
    }

    /// The words that a value stands for; none where a switch is off.
    fn values(&self, argument: &Arg, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>, BadInput> {
        let wrong = |value: &Spanned<DeValue<'_>>, wanted: &str| {
            let message = format!("{key}: must be {wanted}, and is {}", kind(value.get_ref()));
            self.wrong(value.span(), &message)
        };
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        let is_list = matches!(argument.get_action(), ArgAction::Append) || argument.is_positional();
        match value.get_ref() {
            DeValue::Boolean(on) if is_switch => Ok(if *on { vec!["true".into()] } else { Vec::new() }),
            _ if is_switch => Err(wrong(value, "true or false")),
            DeValue::Array(list) if is_list => {
                list.iter().map(|one| word(one.get_ref()).ok_or_else(|| wrong(one, "a text"))).collect()
            }
            // Models may be told apart by their names, too.
            DeValue::Table(table) if argument.is_positional() => {
                let one = |(name, source): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                    let source = source.get_ref().as_str().ok_or_else(|| wrong(source, "a text"))?;
                    let name: &std::borrow::Cow<'_, str> = name.get_ref();
                    Ok(format!("{name}={source}").into())
                };
                table.iter().map(one).collect()
            }
            other => word(other)
                .map(|word| vec![word])
                .ok_or_else(|| wrong(value, if is_list { "a text or a list of texts" } else { "a text or a number" })),
        }
    }

    /// Whether the command takes these values, before they stand among others and nobody knows from where.
    fn check(&self, argument: &Arg, key: &str, values: &[OsString], span: Range<usize>) -> Result<(), BadInput> {
        let mut words: Vec<OsString> = vec!["kauri serve".into()];
        write(argument, values, &mut words);
        match command().try_get_matches_from(words) {
            Ok(_) => {}
            // What else it needs, or cannot stand beside, is seen when all is read together.
            Err(error) if matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict) => {}
            Err(error) => return Err(self.wrong(span, &format!("{key}: {}", first_line(&error)))),
        }
        if argument.is_positional() {
            for value in values {
                Entry::parse(&value.to_string_lossy())
                    .map_err(|error| self.wrong(span.clone(), &format!("{key}: {error}")))?;
            }
        }
        Ok(())
    }

    /// `[[keys]]`, each with a name, a key, perhaps the most requests that it may have open, and whether it may change what others get.
    fn keys(&self, value: &Spanned<DeValue<'_>>) -> Result<Keys, BadInput> {
        let wanted = "keys: must be a list of tables, each a [[keys]] with name, key and perhaps open and admin";
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong(value.span(), wanted))?;
        let mut keys = Vec::new();
        for one in list {
            let table = one.get_ref().as_table().ok_or_else(|| self.wrong(one.span(), wanted))?;
            let mut given = GivenKey::default();
            for (field, value) in table {
                let name: &str = field.get_ref();
                let text = || {
                    let text = value.get_ref().as_str().map(str::to_owned);
                    text.ok_or_else(|| self.wrong(value.span(), &format!("keys.{name}: must be a text")))
                };
                match name {
                    "name" => given.name = text()?,
                    "key" => given.key = text()?,
                    "open" => {
                        let count = value.get_ref().as_integer().and_then(|count| count.to_string().parse().ok());
                        let count = count.filter(|&count: &u32| count > 0);
                        let wrong = || self.wrong(value.span(), "keys.open: must be a whole number from 1");
                        given.open_max = Some(count.ok_or_else(wrong)?);
                    }
                    "admin" => {
                        let wrong = || self.wrong(value.span(), "keys.admin: must be true or false");
                        given.is_admin = value.get_ref().as_bool().ok_or_else(wrong)?;
                    }
                    other => {
                        let known = meant(other, &["name", "key", "open", "admin"]);
                        let message = format!("keys.{other}: there is no such key{known}");
                        return Err(self.wrong(field.span(), &message));
                    }
                }
            }
            keys.push((given, one.span()));
        }
        let mut made = Keys::default();
        for (key, span) in keys {
            made.add(key).map_err(|error| self.wrong(span, &format!("keys: {error}")))?;
        }
        Ok(made)
    }

    fn wrong(&self, span: Range<usize>, message: &str) -> BadInput {
        let line = self.text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1;
        BadInput(format!("{}: line {line}: {message}", self.name))
    }
}

impl Given {
    /// Whether an argument is given, or one that it cannot stand beside.
    fn leaves_out(&self, argument: &Arg, command: &Command) -> bool {
        let conflicts = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
        let given = command.get_arguments().filter(|other| self.has(other.get_id().as_str()));
        given.into_iter().any(|other| other == argument || conflicts(argument, other) || conflicts(other, argument))
    }

    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|(other, _)| other == id)
    }
}

/// The command, with all that it takes.
fn command() -> Command {
    Arguments::augment_args(Command::new("kauri serve"))
}

/// What an argument is called in a file.
fn name_of(argument: &Arg) -> Option<&str> {
    let name = if argument.is_positional() { Some(argument.get_id().as_str()) } else { argument.get_long() };
    name.filter(|name| !NOT_IN_FILES.contains(name))
}

fn unknown(key: &str, command: &Command) -> String {
    if NOT_IN_FILES.contains(&key) {
        return format!("{key}: is for the command line alone");
    }
    let known: Vec<&str> = command.get_arguments().filter_map(name_of).chain(["keys"]).collect();
    format!("{key}: there is no such key{}", meant(key, &known))
}

/// The one that was meant, as the end of a message.
fn meant(key: &str, known: &[&str]) -> String {
    let likeness = |name: &&&str| strsim::jaro_winkler(key, name);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|name| likeness(name) >= LIKENESS_MIN) {
        Some(name) => format!("; is {name} meant?"),
        None => "; `kauri serve --help` lists the options, and each is a key without its dashes".to_owned(),
    }
}

/// Adds an argument with its values to a command line.
fn write(argument: &Arg, values: &[OsString], words: &mut Vec<OsString>) {
    for value in values {
        match argument.get_long() {
            None => words.push(value.clone()),
            Some(long) if matches!(argument.get_action(), ArgAction::SetTrue) => words.push(format!("--{long}").into()),
            Some(long) => {
                let mut word = OsString::from(format!("--{long}="));
                word.push(value);
                words.push(word);
            }
        }
    }
}

/// A value as a word of a command line.
fn word(value: &DeValue<'_>) -> Option<OsString> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) => Some(number.to_string().into()),
        DeValue::Float(number) => Some(number.to_string().into()),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> Given {
        let words = ["kauri serve"].iter().chain(words);
        Given::from_arg_matches(&command().try_get_matches_from(words).expect("a command line")).expect("it")
    }

    fn read(text: &str, words: &[&str]) -> Result<Said, String> {
        File { name: "kauri.toml", text }.read(&given(words)).map_err(|error| error.0)
    }

    /// A value that an argument takes.
    fn example(argument: &Arg) -> String {
        if matches!(argument.get_action(), ArgAction::SetTrue) {
            return "true".to_owned();
        }
        if let Some(value) = argument.get_possible_values().first() {
            return format!("{:?}", value.get_name());
        }
        if let Some(value) = argument.get_default_values().first() {
            return format!("{:?}", value.to_string_lossy());
        }
        if argument.get_long() == Some("trace-to") {
            return "\"http://127.0.0.1:4318\"".to_owned();
        }
        // Numbers and texts alike.
        "\"7\"".to_owned()
    }

    /// Reads a key that may need others beside it.
    fn read_alone(text: &str) {
        if let Err(error) = read(text, &[]) {
            assert!(error.contains("required arguments"), "{text}: {error}");
        }
    }

    #[test]
    fn every_option_of_the_command_is_a_key() {
        let command = command();
        let mut count = 0;
        for argument in command.get_arguments() {
            let long = argument.get_long().unwrap_or("models");
            if NOT_IN_FILES.contains(&long) {
                continue;
            }
            read_alone(&format!("{long} = {}", example(argument)));
            count += 1;
        }
        assert!(count >= 20, "{count}");
    }

    /// The file that the manual shows.
    const EXAMPLE: &str = include_str!("../../../../../deploy/kauri.toml");

    #[test]
    fn the_example_has_every_option_and_says_what_holds_anyway() {
        let said = read(EXAMPLE, &[]).unwrap();
        assert_eq!(said.arguments.models, ["kauri-nano=kauri-nano"]);
        // What is behind a mark can be read, too.
        let whole: Vec<&str> = EXAMPLE.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        let keys = whole.iter().position(|line| *line == "[[keys]]").expect("it shows keys");
        let keys = whole[keys..].join("\n").replace('#', "\n#");
        assert!(read(&keys, &[]).unwrap().keys.is_some_and(|keys| keys.len() == 2), "{keys}");
        for argument in command().get_arguments() {
            let Some(name) = name_of(argument).filter(|name| !matches!(*name, "api-key-file" | "models")) else {
                continue;
            };
            let value = |line: &&str| line.strip_prefix(name)?.trim_start().strip_prefix('=').map(str::to_owned);
            let value = whole.iter().find_map(value);
            let value = value.unwrap_or_else(|| panic!("deploy/kauri.toml does not have {name}"));
            read_alone(&format!("{name} = {value}"));
            if let [default] = argument.get_default_values() {
                let value = value.split('#').next().unwrap_or_default().trim().trim_matches('"');
                let number = |text: &str| text.parse::<f64>().ok();
                let (default, shown) = (default.to_string_lossy(), value);
                assert!(
                    default == shown || number(&default).is_some_and(|default| number(shown) == Some(default)),
                    "{name}: {default}"
                );
            }
        }
    }

    #[test]
    fn what_a_file_says_is_what_the_command_line_would() {
        let text = "host = \"0.0.0.0\"\nport = 9000\nallow-anyone = true\nallow-host = [\"a\", \"b\"]\ncache-ram-gb = 1.5\n\
                    [models]\nsmall = \"a.gguf\"\nlarge = \"b.gguf\"\n\
                    [[keys]]\nname = \"alice\"\nkey = \"sk-0123456789abcdef\"\nopen = 4\nadmin = true\n";
        let said = read(text, &[]).unwrap();
        let network = &said.arguments.network;
        assert_eq!((network.host.as_str(), network.port, network.allow_anyone), ("0.0.0.0", 9000, true));
        assert_eq!(network.allow_host, ["a", "b"]);
        assert_eq!(said.arguments.load.cache_ram_gb, 1.5);
        assert_eq!(said.arguments.models, ["small=a.gguf", "large=b.gguf"]);
        assert!(said.keys.is_some_and(|keys| !keys.is_empty()));
        assert!(!read("allow-anyone = false", &[]).unwrap().arguments.network.allow_anyone);
    }

    #[test]
    fn the_command_line_wins() {
        let text = "port = 9000\nthreads = 3\nallow-host = [\"a\"]\nmodels = [\"x.gguf\"]\n[[keys]]\nname = \"a\"\nkey = \"sk-0123456789abcdef\"\n";
        let said = read(text, &["--port", "7", "--allow-host", "b", "y.gguf", "--api-key-file", "k"]).unwrap();
        assert_eq!((said.arguments.network.port, said.arguments.engine.threads), (7, Some(3)));
        assert_eq!(
            (&said.arguments.network.allow_host[..], &said.arguments.models[..]),
            (&["b".to_owned()][..], &["y.gguf".to_owned()][..])
        );
        assert!(said.keys.is_none());
        let said = read("host = \"0.0.0.0\"\nport = 9000\n", &["--unix", "s"]).unwrap();
        assert!(said.arguments.network.unix.is_some(), "what it cannot stand beside gives way");
        assert!(read("allow-anyone = false", &["--allow-anyone"]).unwrap().arguments.network.allow_anyone);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, parts) in [
            ("# one\nport = 99999\n", ["line 2: port:", "65535"]),
            ("\n\nprot = 1\n", ["line 3: prot:", "is port meant?"]),
            ("body_size_mb = 3\n", ["line 1: body_size_mb:", "is body-size-mb meant?"]),
            ("qqq = 3\n", ["line 1: qqq:", "--help"]),
            ("device = \"abacus\"\n", ["line 1: device:", "abacus"]),
            ("allow-anyone = \"yes\"\n", ["line 1: allow-anyone:", "true or false"]),
            ("port = [1]\n", ["line 1: port:", "is a list"]),
            ("allow-host = [\"a\",\n 7.5,\n true]\n", ["line 3: allow-host:", "true or false"]),
            ("models = [\"a b=c\"]\n", ["line 1: models:", "cannot be a model's name"]),
            ("config = \"other.toml\"\n", ["line 1: config:", "command line alone"]),
            ("port = 1\nport = 2\n", ["line 2:", "duplicate key"]),
            ("port = \n", ["line 1:", ""]),
            ("[[keys]]\nname = \"a\"\nkey = \"short\"\n", ["line 1: keys:", "fewer than"]),
            ("[[keys]]\nkey = \"sk-0123456789abcdef\"\nopne = 1\n", ["line 3: keys.opne:", "is open meant?"]),
            ("[[keys]]\nkey = \"sk-0123456789abcdef\"\nopen = 0\n", ["line 3: keys.open:", "from 1"]),
            ("[[keys]]\nkey = \"sk-0123456789abcdef\"\nadmin = 1\n", ["line 3: keys.admin:", "true or false"]),
            ("keys = 1\n", ["line 1: keys:", "[[keys]]"]),
            ("api-key-file = \"k\"\n[[keys]]\nkey = \"sk-0123456789abcdef\"\n", ["kauri.toml", "not both"]),
            ("cache-ram-gb = -1\n", ["line 1: cache-ram-gb:", "gigabytes"]),
        ] {
            let error = read(text, &[]).map(|_| ()).expect_err(text);
            assert!(parts.iter().all(|part| error.contains(part)), "{text}{error}");
            assert!(!error.contains("0123456789"), "a key is told: {error}");
        }
    }
}
