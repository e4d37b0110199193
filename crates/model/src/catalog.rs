//! Short names of open-weight models, with what is worth knowing before one is pulled. Data: `catalog.toml`, and what a person adds.
//!
//! Sizes in it are approximate; what the hub says when a model is pulled is exact.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::resolve::{HubName, NameError, QUANTS_PREFERRED, Reference};

const BUILT_IN: &str = include_str!("catalog.toml");

/// The longest file of additions that is read.
const BYTES_MAX: usize = 1 << 20;

/// All names that are known.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    models: Vec<Model>,
    /// Other words for models, of a person's own.
    aliases: BTreeMap<String, String>,
}

/// One model.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What people type.
    pub name: String,
    /// What they may type as well.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The family that reads it.
    pub family: String,
    /// What it is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Values of all weights, in billions.
    pub parameters_b: f64,
    /// Values that a token is multiplied with, in billions; all of them where unset.
    pub active_parameters_b: Option<f64>,
    /// The longest trained context.
    pub context_tokens: u32,
    /// Bytes of cache that a token adds in half precision, where known.
    pub kv_bytes_per_token: Option<u64>,
    /// Under what terms it may be used.
    pub licence: String,
    /// What is odd about its template, its tools or its answers.
    #[serde(default)]
    pub quirks: String,
    /// The hub's repository.
    pub repository: String,
    /// Its files, `{quant}` standing for the quantisation.
    pub file: String,
    /// The quantisations that it has, with approximate gigabytes.
    pub quants: BTreeMap<String, f64>,
}

/// What a model is for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// It writes.
    #[default]
    Writes,
    /// It makes vectors of texts.
    Embeds,
    /// It scores texts.
    Ranks,
}

/// A catalog that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "model")]
    models: Vec<Model>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
}

impl Purpose {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Embeds => "embeds",
            Self::Ranks => "ranks",
        }
    }
}

impl Catalog {
    /// What comes with the program.
    ///
    /// # Errors
    /// When the program was built with a file that is wrong; a test says it is not.
    pub fn built_in() -> Result<Self, Error> {
        Self::default().with(BUILT_IN)
    }

    /// The same with the models and aliases of `text`, in TOML; a name that was there is replaced.
    ///
    /// # Errors
    /// Where the text is wrong, and what is.
    pub fn with(mut self, text: &str) -> Result<Self, Error> {
        if text.len() > BYTES_MAX {
            return Err(Error(format!("it is over {BYTES_MAX} bytes")));
        }
        let file: File = toml::from_str(text).map_err(|error| Error(one_line(text, &error)))?;
        for model in file.models {
            model.check()?;
            self.models.retain(|known| known.name != model.name);
            self.models.push(model);
        }
        for (alias, target) in file.aliases {
            if !is_name(&alias) {
                return Err(Error(format!(
                    "aliases: {alias:?} cannot be a name: give letters, digits and . _ - : only"
                )));
            }
            self.aliases.insert(alias, target);
        }
        Ok(self)
    }

    /// All models, in the order of the file.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// A person's own words for models.
    pub fn aliases(&self) -> &BTreeMap<String, String> {
        &self.aliases
    }

    /// The model of this name, and the quantisation that stands behind it.
    pub fn model<'a>(&'a self, word: &str) -> Option<(&'a Model, Option<String>)> {
        let is_called =
            |model: &&Model, word: &str| model.name == word || model.aliases.iter().any(|alias| alias == word);
        let lower = word.to_ascii_lowercase();
        if let Some(model) = self.models.iter().find(|model| is_called(model, &lower)) {
            return Some((model, None));
        }
        let (name, quant) = lower.rsplit_once(':')?;
        let model = self.models.iter().find(|model| is_called(model, name))?;
        Some((model, Some(quant.to_ascii_uppercase())))
    }

    /// What a word of the catalog stands for; nothing where it is none.
    pub fn find(&self, word: &str) -> Option<Result<Reference, NameError>> {
        if let Some(target) = self.aliases.get(word) {
            // An alias of an alias would go on for ever one day.
            let plain = Self { models: self.models.clone(), aliases: BTreeMap::new() };
            return Some(crate::resolve::parse(target, &plain));
        }
        let (model, quant) = self.model(word)?;
        Some(model.reference(word, quant))
    }

    /// What may have been meant by a word that nobody knows.
    pub fn hint(&self, word: &str) -> String {
        let lower = word.to_ascii_lowercase();
        let names = self.models.iter().map(|model| model.name.as_str()).chain(self.aliases.keys().map(String::as_str));
        let near = names.map(|name| (distance(&lower, name), name)).min();
        match near {
            Some((distance, name)) if distance <= 1 + lower.len() / 4 => format!(" (did you mean {name}?)"),
            _ => String::new(),
        }
    }

    /// The models about which `word` says something.
    pub fn search<'a>(&'a self, word: &str) -> impl Iterator<Item = &'a Model> {
        let word = word.to_ascii_lowercase();
        self.models.iter().filter(move |model| {
            let texts = [&model.name, &model.family, &model.licence, &model.quirks, &model.repository];
            texts.iter().any(|text| text.to_ascii_lowercase().contains(&word))
                || model.aliases.iter().any(|alias| alias.contains(&word))
                || model.purpose.word() == word
        })
    }
}

impl Model {
    /// The hub's repository, and the file of a quantisation.
    fn reference(&self, word: &str, quant: Option<String>) -> Result<Reference, NameError> {
        let (owner, repo) = self.repository.split_once('/').unwrap_or_default();
        let mut name = HubName::new(owner, repo);
        if let Some(quant) = &quant {
            if !self.quants.contains_key(quant) {
                let known: Vec<&str> = self.quants.keys().map(String::as_str).collect();
                let hint = format!(", which knows {} in {}", self.name, known.join(", "));
                return Err(NameError::Unknown { name: word.to_owned(), hint });
            }
        } else if let [only] = self.quants.keys().collect::<Vec<_>>().as_slice() {
            name.quant = Some((*only).clone());
        }
        name.quant = quant.or(name.quant);
        Ok(Reference::Hub(name))
    }

    /// The quantisation to take where there are so many bytes for weights, with its gigabytes: the preferred one that fits, nothing where
    /// none does.
    pub fn preferred(&self, budget_bytes: u64) -> Option<(&str, f64)> {
        let fitting = self.quants.iter().filter(|(_, gigabytes)| **gigabytes * 1e9 <= budget_bytes as f64);
        let rank = |quant: &str| QUANTS_PREFERRED.iter().position(|known| *known == quant).unwrap_or(usize::MAX);
        fitting.map(|(quant, gigabytes)| (quant.as_str(), *gigabytes)).min_by_key(|(quant, _)| rank(quant))
    }

    /// The share of the weights that a token reads.
    pub fn active_share(&self) -> f64 {
        self.active_parameters_b.map_or(1.0, |active| active / self.parameters_b)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| Err(Error(format!("model {:?}: {what}", self.name)));
        if !self.aliases.iter().chain([&self.name]).all(|name| is_name(name)) {
            return wrong("names have small letters, digits and . _ - : only");
        }
        let Some((owner, repo)) = self.repository.split_once('/') else {
            return wrong("repository: write OWNER/REPO");
        };
        if HubName::new(owner, repo).check(&self.repository).is_err() {
            return wrong("repository: it cannot be one of the hub");
        }
        if self.quants.is_empty() || !self.file.contains("{quant}") && self.quants.len() > 1 {
            return wrong("quants: name at least one, and {quant} in the file's name where there are several");
        }
        let numbers = [Some(self.parameters_b), self.active_parameters_b].into_iter().flatten();
        if numbers.chain(self.quants.values().copied()).any(|number| !(number.is_finite() && number > 0.0)) {
            return wrong("parameters and sizes are numbers over 0");
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-:".contains(&byte))
        && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// What is wrong with a TOML text, and in which line.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let place = line.map_or(String::new(), |line| format!("line {line}: "));
    format!("{place}{}", error.message().replace('\n', " "))
}

/// Letters to insert, take away or replace to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = above + 1;
        for place in 0..other.len() {
            let replaced = corner + usize::from(letter != other[place]);
            corner = row[place + 1];
            row[place + 1] = replaced.min(corner + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_built_in_catalog_is_sound() {
        let catalog = Catalog::built_in().unwrap();
        assert!(catalog.models().len() > 40);
        let mut names = BTreeSet::new();
        for model in catalog.models() {
            for name in model.aliases.iter().chain([&model.name]) {
                assert!(names.insert(name.clone()), "{name} is there twice");
            }
            assert!(
                kauri_arch::families::FAMILIES.iter().any(|family| family.name == model.family),
                "{}: no family {}",
                model.name,
                model.family
            );
            for (quant, gigabytes) in &model.quants {
                assert_eq!(
                    Some(quant),
                    crate::resolve::quant_of(&model.file.replace("{quant}", quant)).as_ref(),
                    "{}",
                    model.name
                );
                let bits = gigabytes * 8.0 / model.parameters_b;
                assert!((1.5..=17.5).contains(&bits), "{} {quant}: {bits} bits a weight", model.name);
            }
        }
    }

    #[test]
    fn names_aliases_and_quantisations_are_found() {
        let catalog = Catalog::built_in().unwrap().with("[aliases]\nmine = \"qwen3:8b:q8_0\"\n").unwrap();
        let Some(Ok(Reference::Hub(name))) = catalog.find("mine") else { panic!("an alias") };
        assert_eq!(name.quant.as_deref(), Some("Q8_0"));
        let Some(Ok(Reference::Hub(name))) = catalog.find("qwen3:8b") else { panic!("a name") };
        assert_eq!(name.quant, None);
        let error = catalog.find("qwen3:8b:q9_9").unwrap().unwrap_err().to_string();
        assert!(error.contains("Q4_K_M"), "{error}");
        let catalog = catalog.with("[aliases]\none = \"two\"\ntwo = \"one\"\n").unwrap();
        assert!(catalog.find("one").unwrap().is_err(), "round and round");
        assert!(catalog.hint("qwen3:8bb").contains("qwen3:8b"));
    }

    #[test]
    fn what_a_person_adds_is_checked() {
        let wrong = |text: &str| Catalog::default().with(text).unwrap_err().to_string();
        assert!(wrong("[[model]]\nname = \"x\"\n").starts_with("line 1: "), "{}", wrong("[[model]]\nname = \"x\"\n"));
        assert!(wrong("nonsense = 3").contains("nonsense"));
        assert!(wrong("[aliases]\n\"../x\" = \"y\"\n").contains("../x"));
        let model = |repository: &str| {
            format!(
                "[[model]]\nname = \"x\"\nfamily = \"llama\"\nparameters_b = 1.0\ncontext_tokens = 8\nlicence = \"MIT\"\n\
                 repository = \"{repository}\"\nfile = \"x-{{quant}}.gguf\"\nquants = {{ Q8_0 = 1.1 }}\n"
            )
        };
        assert!(wrong(&model("../../etc")).contains("repository"));
        assert!(Catalog::default().with(&model("a/b")).unwrap().find("x").is_some());
    }
}
