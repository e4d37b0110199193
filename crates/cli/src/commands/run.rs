//! `kauri run`: an answer to one prompt, or a conversation at a terminal.

mod answer;
mod chat;
mod constraint_options;
mod sampling_options;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use kauri_engine::{Asked, Chat, DEFAULT_NAME, Engine, Error, Finish, Tool, Tools, tools};

use self::answer::{Format, Manner};
use self::constraint_options::ConstraintOptions;
use self::sampling_options::SamplingOptions;
use crate::cache_options::CacheOptions;
use crate::failure::{BadInput, Interrupted, about_model};
use crate::input;
use crate::interrupt::{self, Second};
use crate::library;
use crate::lora_options::LoraOptions;
use crate::model_options::ModelOptions;

/// Answers a prompt, or talks with you at a terminal.
///
/// One argument alone is the prompt, unless it names a model; two are the model and the prompt. The prompt `-`, or none
/// while standard input is a pipe, is read from standard input, one line end at its end left out. With neither prompt nor
/// pipe a conversation begins. Ctrl-C ends the answer: of a single prompt with exit code 130.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line are independent of each other")]
pub struct Arguments {
    /// A name (kauri list), a GGUF file, a safetensors directory, or kauri-nano, the model inside this program (the default).
    #[arg(value_name = "MODEL")]
    first: Option<String>,

    /// What to answer; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    second: Option<String>,

    /// Continue the prompt as plain text, without the model's chat template.
    #[arg(long, conflicts_with_all = ["system", "think", "reasoning", "reasoning_budget", "tools"])]
    raw: bool,

    /// What the model is told before the conversation.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Let models that can think do so before they answer: `--reasoning on` in a word.
    #[arg(long, conflicts_with = "reasoning")]
    think: bool,

    /// Whether a model that can think does so before it answers; what it thinks goes to standard error.
    #[arg(long, value_name = "WHETHER", value_enum)]
    reasoning: Option<Reasoning>,

    /// End the thinking after so many tokens.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    reasoning_budget: Option<u32>,

    /// A JSON file with the tools that the model may call; a call is printed as a line of JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json_schema", "json_object", "grammar", "regex"])]
    tools: Option<PathBuf>,

    /// Whether the answer is a call: auto (the model decides), required, or the name of the tool to call.
    #[arg(long, value_name = "CHOICE", requires = "tools", default_value = "auto")]
    tool_choice: String,

    /// End the answer with the first call.
    #[arg(long, requires = "tools")]
    one_call: bool,

    /// Most seconds that an answer may take.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    max_time: Option<Duration>,

    /// Print counts and speeds to standard error after each answer.
    #[arg(long)]
    stats: bool,

    /// Print one JSON object a line for each event instead of text.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    constraint: ConstraintOptions,

    #[command(flatten)]
    sampling: SamplingOptions,

    #[command(flatten)]
    model: ModelOptions,

    #[command(flatten)]
    lora: LoraOptions,

    #[command(flatten)]
    cache: CacheOptions,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri run \"Why is decode slow?\"
  kauri run qwen3:4b \"Name a colour.\"
  kauri run model.gguf \"Name three colours.\" --temperature 0 --stats
  git diff | kauri run model.gguf --system \"Review this change.\"
  kauri run \"Invent a person.\" --json-schema person.json
  kauri run \"When was the moon landing?\" --regex '\\d{4}-\\d{2}-\\d{2}'
  kauri run --raw \"Once upon a time\" --max-tokens 100 --seed 7
  kauri run --cache-dir ~/.cache/kauri/pages model.gguf - < report.txt    quicker the second time
  kauri run --tools tools.json \"What is the weather in Hobart?\"
  kauri run model.gguf --lora tales.gguf:0.8 \"Tell me a tale.\"    with an adapter, at four fifths of its strength
  kauri run                       a conversation; /help lists what else you may type";

/// Whether a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reasoning {
    On,
    Off,
}

/// What the positional arguments mean.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    model: Option<String>,
    prompt: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let words = words(
        [arguments.first.as_deref(), arguments.second.as_deref()],
        arguments.model.model.as_deref(),
        library::is_name,
    )?;
    let prompt = match words.prompt {
        Some(prompt) if prompt != "-" => Some(prompt),
        None if io::stdin().is_terminal() => None,
        Some(_) | None => Some(piped()?),
    };
    let is_blank = |text: &str| {
        if arguments.raw { text.is_empty() } else { text.trim().is_empty() }
    };
    if prompt.as_deref().is_some_and(is_blank) {
        bail!(BadInput("the prompt is empty; give one as an argument or on standard input".to_owned()));
    }
    let alone = [(arguments.raw, "--raw"), (arguments.json, "--json"), (arguments.tools.is_some(), "--tools")];
    if let (None, Some((_, option))) = (&prompt, alone.iter().find(|(given, _)| *given)) {
        bail!(BadInput(format!("{option} needs a prompt; give one as an argument or on standard input")));
    }
    // What cannot be read is said before a model is loaded.
    let grammar = arguments.constraint.read()?;
    let chat = new_chat(arguments)?;
    let path = arguments.model.locate(words.model.as_deref())?;
    let name = path.as_deref();
    let remembering = arguments.cache.remembering(0.0);
    let loaded = Engine::load_with(name, &arguments.model.options(), &arguments.lora.applied());
    let mut engine = loaded.map_err(|error| about_model(name, error))?;
    if !engine.writes() {
        bail!(Error::OnlyReads);
    }
    engine.remember(&remembering)?;
    grammar.iter().try_for_each(|grammar| constraint_options::check(&engine, grammar))?;
    let manner = Manner {
        sampling: arguments.sampling.over(&engine.defaults().sampling),
        stops: arguments.sampling.stops.clone(),
        max_tokens: arguments.sampling.max_tokens.map(|most| most as usize),
        end_tokens: engine.defaults().end_tokens.clone(),
        constraint: grammar,
        time_max: arguments.max_time,
        prints_stats: arguments.stats,
    };
    if let Some(prompt) = prompt {
        answer_one(&mut engine, &manner, arguments, chat, &prompt)
    } else {
        chat::talk(&mut engine, &manner, words.model.as_deref().unwrap_or(DEFAULT_NAME), chat)
    }
}

fn answer_one(
    engine: &mut Engine,
    manner: &Manner,
    arguments: &Arguments,
    mut chat: Chat,
    prompt: &str,
) -> anyhow::Result<()> {
    let asked = if arguments.raw {
        Asked { tokens: engine.text_tokens(prompt), reading: None, constraint: None }
    } else {
        chat.push("user", prompt);
        engine.ask(&chat)?
    };
    interrupt::catch(Second::Ends)?;
    let format = if arguments.json { Format::Json } else { Format::Text };
    let answer = answer::write(&mut engine.session(), manner, asked, format)?;
    if answer.done.finish == Finish::Cancelled {
        bail!(Interrupted);
    }
    Ok(())
}

fn new_chat(arguments: &Arguments) -> anyhow::Result<Chat> {
    let mut chat = Chat::new();
    chat.set_reasoning(arguments.think || arguments.reasoning == Some(Reasoning::On));
    if let Some(tokens) = arguments.reasoning_budget {
        chat.set_reasoning_budget(tokens as usize);
    }
    if let Some(file) = &arguments.tools {
        let read = || read_tools(file, &arguments.tool_choice, !arguments.one_call);
        chat.set_tools(read().with_context(|| file.display().to_string())?);
    }
    if let Some(system) = &arguments.system {
        chat.set_system(system);
    }
    Ok(chat)
}

/// The longest file of tools that is read.
const TOOLS_FILE_BYTES_MAX: u64 = 8 << 20;

/// Reads a list of tools, or one alone.
fn read_tools(file: &Path, choice: &str, parallel: bool) -> anyhow::Result<Tools> {
    let bytes = std::fs::metadata(file).map_err(|error| BadInput(error.to_string()))?.len();
    if bytes > TOOLS_FILE_BYTES_MAX {
        bail!(BadInput(format!("{bytes} bytes of tools are more than {TOOLS_FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| BadInput(error.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| BadInput(format!("not JSON: {error}")))?;
    let json = if json.is_object() { serde_json::Value::Array(vec![json]) } else { json };
    let list = Tool::list(&json).map_err(Error::from)?;
    let choice = match choice {
        "auto" => tools::Choice::Auto,
        "required" => tools::Choice::Required,
        name => tools::Choice::Named(name.to_owned()),
    };
    Ok(Tools::new(list, &choice, parallel).map_err(Error::from)?)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number of seconds over 0".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration.is_zero() { Err(wrong()) } else { Ok(duration) }
}

/// Standard input as a prompt: `echo` and editors end it with a line end that is not meant.
fn piped() -> anyhow::Result<String> {
    let mut text = input::standard_input()?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Tells model from prompt.
fn words(given: [Option<&str>; 2], option: Option<&str>, is_model: impl Fn(&str) -> bool) -> Result<Words, BadInput> {
    let (model, prompt) = match (given, option) {
        ([Some(_), Some(_)], Some(_)) => {
            let message = "with --model, one argument is the prompt: quote it, or leave --model out";
            return Err(BadInput(message.to_owned()));
        }
        ([Some(first), Some(second)], None) => {
            if !is_model(first) && !is_model_name(first) {
                let message = format!("{first:?} names no model; if it is part of the prompt, quote the whole prompt");
                return Err(BadInput(message));
            }
            (Some(first), Some(second))
        }
        ([Some(first), None], None) if is_model(first) || is_model_name(first) => (Some(first), None),
        ([first, _], option) => (option, first),
    };
    Ok(Words { model: model.map(str::to_owned), prompt: prompt.map(str::to_owned) })
}

/// Whether a word can only be meant as a model, so that a missing file is not taken for a question.
fn is_model_name(word: &str) -> bool {
    let ends = [".gguf", ".safetensors"];
    !word.contains(char::is_whitespace) && ends.iter().any(|end| word.to_ascii_lowercase().ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model and the prompt, empty where there is none.
    fn told(given: [Option<&str>; 2], option: Option<&str>) -> (String, String) {
        let words = words(given, option, |word| word == "there.bin").expect("a meaning");
        (words.model.unwrap_or_default(), words.prompt.unwrap_or_default())
    }

    fn pair(model: &str, prompt: &str) -> (String, String) {
        (model.to_owned(), prompt.to_owned())
    }

    #[test]
    fn one_argument_is_the_prompt_unless_it_names_a_model() {
        assert_eq!(told([None, None], None), pair("", ""));
        assert_eq!(told([Some("Why?"), None], None), pair("", "Why?"));
        assert_eq!(told([Some("there.bin"), None], None), pair("there.bin", ""));
        assert_eq!(told([Some("missing.gguf"), None], None), pair("missing.gguf", ""));
        assert_eq!(told([Some("What is a .gguf"), None], None), pair("", "What is a .gguf"));
        assert_eq!(told([Some("there.bin"), None], Some("m")), pair("m", "there.bin"));
        assert_eq!(told([Some("-"), None], None), pair("", "-"));
    }

    #[test]
    fn two_arguments_are_model_and_prompt() {
        assert_eq!(told([Some("there.bin"), Some("Why?")], None), pair("there.bin", "Why?"));
        assert!(words([Some("Why"), Some("is")], None, |_| false).is_err());
        assert!(words([Some("there.bin"), Some("Why?")], Some("m"), |_| true).is_err());
    }
}
