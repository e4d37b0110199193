//! `kauri run`: an answer to one prompt, or a conversation at a terminal.

mod answer;
mod chat;
mod constraint_options;
mod sampling_options;

use std::io::{self, IsTerminal};

use anyhow::bail;
use clap::Args;
use kauri_engine::{Chat, DEFAULT_NAME, Engine, Error, Finish, is_model};

use self::answer::{Format, Manner};
use self::constraint_options::ConstraintOptions;
use self::sampling_options::SamplingOptions;
use crate::cache_options::CacheOptions;
use crate::failure::{BadInput, Interrupted, about_model};
use crate::input;
use crate::interrupt::{self, Second};
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
    /// A GGUF file, a safetensors directory, or kauri-nano, the model inside this program (the default).
    #[arg(value_name = "MODEL")]
    first: Option<String>,

    /// What to answer; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    second: Option<String>,

    /// Continue the prompt as plain text, without the model's chat template.
    #[arg(long, conflicts_with_all = ["system", "think"])]
    raw: bool,

    /// What the model is told before the conversation.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Let models that can think do so before they answer.
    #[arg(long)]
    think: bool,

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
    cache: CacheOptions,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri run \"Why is decode slow?\"
  kauri run model.gguf \"Name three colours.\" --temperature 0 --stats
  git diff | kauri run model.gguf --system \"Review this change.\"
  kauri run \"Invent a person.\" --json-schema person.json
  kauri run \"When was the moon landing?\" --regex '\\d{4}-\\d{2}-\\d{2}'
  kauri run --raw \"Once upon a time\" --max-tokens 100 --seed 7
  kauri run --cache-dir ~/.cache/kauri/pages model.gguf - < report.txt    quicker the second time
  kauri run                       a conversation; /help lists what else you may type";

/// What the positional arguments mean.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    model: Option<String>,
    prompt: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let words =
        words([arguments.first.as_deref(), arguments.second.as_deref()], arguments.model.model.as_deref(), is_model)?;
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
    if prompt.is_none() && (arguments.raw || arguments.json) {
        let option = if arguments.raw { "--raw" } else { "--json" };
        bail!(BadInput(format!("{option} needs a prompt; give one as an argument or on standard input")));
    }
    // What cannot be read is said before a model is loaded.
    let grammar = arguments.constraint.read()?;
    let name = words.model.as_deref();
    let remembering = arguments.cache.remembering(0.0)?;
    let mut engine = Engine::load(name, &arguments.model.options()).map_err(|error| about_model(name, error))?;
    if !engine.writes() {
        bail!(Error::OnlyReads);
    }
    engine.remember(&remembering)?;
    let manner = Manner {
        sampling: arguments.sampling.over(&engine.defaults().sampling),
        stops: arguments.sampling.stops.clone(),
        max_tokens: arguments.sampling.max_tokens.map(|most| most as usize),
        end_tokens: engine.defaults().end_tokens.clone(),
        constraint: grammar.map(|grammar| constraint_options::compile(&engine, &grammar)).transpose()?,
        prints_stats: arguments.stats,
    };
    if let Some(prompt) = prompt {
        answer_one(&mut engine, &manner, arguments, &prompt)
    } else {
        chat::talk(&mut engine, &manner, name.unwrap_or(DEFAULT_NAME), new_chat(arguments))
    }
}

fn answer_one(engine: &mut Engine, manner: &Manner, arguments: &Arguments, prompt: &str) -> anyhow::Result<()> {
    let tokens = if arguments.raw {
        engine.text_tokens(prompt)
    } else {
        let mut chat = new_chat(arguments);
        chat.push("user", prompt);
        engine.chat_tokens(&chat)?
    };
    interrupt::catch(Second::Ends)?;
    let format = if arguments.json { Format::Json } else { Format::Text };
    let answer = answer::write(&mut engine.session(), manner, tokens, format)?;
    if answer.done.finish == Finish::Cancelled {
        bail!(Interrupted);
    }
    Ok(())
}

fn new_chat(arguments: &Arguments) -> Chat {
    let mut chat = Chat::new();
    chat.set("enable_thinking", arguments.think.into());
    if let Some(system) = &arguments.system {
        chat.set_system(system);
    }
    chat
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
