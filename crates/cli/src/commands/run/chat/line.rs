//! What a line typed into a conversation means.

/// A line, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Only white space.
    Nothing,
    /// A message to the model.
    Say(&'a str),
    /// `/clear`
    Clear,
    /// `/exit`
    Exit,
    /// `/help`
    Help,
    /// `/save FILE`
    Save(&'a str),
    /// `/stats`
    Stats,
    /// `/system TEXT`
    System(&'a str),
    /// What is wrong with it, for the person who typed it.
    Wrong(String),
}

impl<'a> Line<'a> {
    /// Understands a line, or several that belong together.
    pub fn parse(text: &'a str) -> Self {
        let words = text.trim();
        if words.is_empty() {
            return Self::Nothing;
        }
        if !text.starts_with('/') {
            return Self::Say(words);
        }
        let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let rest = rest.trim_start();
        match (name, rest) {
            ("/clear", "") => Self::Clear,
            ("/exit" | "/quit", "") => Self::Exit,
            ("/help" | "/?", "") => Self::Help,
            ("/save", "") => Self::Wrong("/save needs a file, such as /save talk.md".to_owned()),
            ("/save", file) => Self::Save(file),
            ("/stats", "") => Self::Stats,
            ("/system", "") => Self::Wrong("/system needs a text, such as /system Answer in one sentence.".to_owned()),
            ("/system", text) => Self::System(text),
            ("/clear" | "/exit" | "/quit" | "/help" | "/?" | "/stats", _) => {
                Self::Wrong(format!("{name} takes nothing behind it"))
            }
            _ => Self::Wrong(format!(
                "{name} is not known; /help lists what is, and a message that begins with / needs a space before it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_commands_are_told_apart() {
        assert_eq!(Line::parse("  \n"), Line::Nothing);
        assert_eq!(Line::parse("Why? "), Line::Say("Why?"));
        assert_eq!(Line::parse("one\ntwo"), Line::Say("one\ntwo"));
        assert_eq!(Line::parse(" /etc/hosts is what?"), Line::Say("/etc/hosts is what?"));
        assert_eq!(Line::parse("/clear"), Line::Clear);
        assert_eq!(Line::parse("/quit"), Line::Exit);
        assert_eq!(Line::parse("/save  a b.md"), Line::Save("a b.md"));
        assert_eq!(Line::parse("/system Be brief.\nVery."), Line::System("Be brief.\nVery."));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("/x", "/x is not known; /help"),
            ("/savetalk.md", "/savetalk.md is not known"),
            ("/save", "needs a file"),
            ("/system", "needs a text"),
            ("/clear all", "takes nothing"),
        ] {
            let Line::Wrong(message) = Line::parse(text) else { panic!("{text} was understood") };
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
